// Package once makes an operation happen once in effect, however often it arrives.
//
// # What is here
//
// The library begins with the words that every other package speaks:
//
//   - [Key] and [Part]: the idempotency key, whose parts keep their type. 3 and "3" are
//     different; a missing or empty part is an error, never a shared key.
//   - [Scope]: to whom a key belongs. It must be chosen; [NoScope] has to be written out.
//   - [Identity]: what a store indexes, the SHA-256 of scope and key.
//   - [Fingerprint]: a versioned digest of what was asked. It is compared with the first one and
//     is never part of the identity, so a changed request is noticed instead of run anew.
//   - The errors that a caller can act on, such as [ErrLeaseLost] and [ErrUnavailable].
//
// # What is promised
//
//   - Equal scopes and keys have equal identities, in every process and on every store; unequal
//     ones differ up to a collision of SHA-256. The encoding is fixed: identities written by one
//     release are found by the next.
//   - Two fingerprints are equal only if they were made by the same version of the same rule
//     from the same content. After a change of the rule the version byte differs.
//   - The public id of an identity ([Identity.ID]) holds its first 128 bits: enough to name a
//     row, not to prove what the key was.
//   - All values of this package are plain data; its functions keep no state and are safe for
//     concurrent use.
//
// # What is not promised
//
// Nothing here makes a network hop exactly-once. An effect outside the database happens at least
// once, with a stable id (see [DeriveIdentity]) by which its receiver can tell repeats apart.
// An identity does not hide its key: whoever can guess a key can compute its identity.
package once
