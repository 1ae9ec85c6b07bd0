// Package oncehttp gives an HTTP API idempotency keys: a client that sends a request again, with
// the same key, gets the answer to the first one, and the work is not done again.
//
//   - [Middleware] wraps any net/http handler.
//   - [Proxy] does the same in front of a service in any language.
//   - [Transport] is the client's side: it puts a key on each unsafe request and keeps it over
//     retries.
//
// # What is promised
//
//   - The work runs once for a key within its scope, also when requests come at the same time. A
//     request that comes while it runs is told so (409), or waits for the answer.
//   - A repeat gets the first answer, byte for byte: its status, its headers but those that belong
//     to one exchange or one caller, and its body; and Idempotent-Replayed: true.
//   - A changed request never runs under an old key (422), also while the first one still runs.
//   - Nobody reads another's answer: a scope has to be chosen.
//   - If the store can't answer, the work is not run (503). If it can't keep an answer, the caller
//     gets the true one with Idempotency-Stored: false.
//
// # What is not promised
//
// An attempt that was lost, by a crash, a panic or a broken connection, may have had its effect.
// Nobody can know, and once.Config.OnUnknown says whether it is run again or held for a person.
// A handler that does something elsewhere should hand on the fence of its grant ([Grant]).
//
// The keys follow draft-ietf-httpapi-idempotency-key-header-07, the errors RFC 9457.
package oncehttp
