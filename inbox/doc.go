// Package inbox receives callbacks over HTTP and hands them to their handlers.
//
// # What is promised
//
//   - A [Receiver] answers 2xx to an accepted, duplicate or conflicting message only after the
//     store's Append returned, so after the callback is durable. If the store can't, the answer is
//     the source's unavailable reply (503 with Retry-After), never an invalid one.
//   - A source's Verifier is asked once, on receipt, over the raw bytes, before anything is stored;
//     what it needs no body for, before the body is read.
//   - Body and headers are kept as they came. Of Authorization, Cookie, Proxy-Authorization and a
//     source's DropHeaders only a keyed digest is kept.
//   - The elements of a message with several callbacks become durable together or not at all, and
//     each can be worked alone: the body that is kept of it is the message in which the list holds
//     only it. See [Source.Each].
//   - A message of which no callback can be made is answered with the source's invalid reply and
//     its reason, counted, and kept in the store's ring of refused messages if it has one. Writes
//     to the ring are limited in rate and time; what is left out is counted.
//   - A panic in a source's function is an unavailable reply: nothing was acknowledged.
//   - A handler's Work runs without a transaction, its Commit in the one in which the callback
//     becomes done. See [Handler].
//
// # What is not promised
//
// The server around a Receiver bounds what a Receiver can't see: set http.Server's ReadTimeout (a
// body that comes more slowly ends as an invalid message), ReadHeaderTimeout and MaxHeaderBytes
// (headers are stored with each callback; [MaxHeaderBytes] is a good value).
package inbox
