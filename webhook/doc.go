// Package webhook proves who sent a webhook: by a signature over its raw bytes as the well-known
// providers make it, by a token, a login, a client's certificate or an address.
//
// # What is promised
//
//   - What was signed is compared as it came on the wire. Nothing is decoded first, unless the
//     sender signs the decoded form and [HMACConfig] says so.
//   - Signatures, tokens and passwords are compared in constant time, with each secret that is
//     valid, so that neither an answer nor its time tells which byte was wrong or which secret it
//     was. The reason of an [*Error] doesn't either.
//   - A header that decides and is given twice is refused: of two values nobody can know which one
//     was meant.
//   - Several secrets can be valid at a time, so that one can be exchanged for another.
//   - A secret that could be guessed is refused when the verifier is made.
//
// # What is not promised
//
// A verifier remembers nothing: a request that is sent again, byte for byte, is right again, for
// ever or as long as its time stamp is. Telling repeats apart is the job of the receiver. What a
// provider leaves out of the signature (most headers; the id of a delivery at GitHub and Shopify)
// is not proven.
//
// The package uses the standard library alone. All verifiers are safe for concurrent use and must
// not be changed after they were made.
package webhook
