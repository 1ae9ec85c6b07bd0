// Package once makes an operation happen once in effect, however often it arrives.
//
// # What is here
//
// [Do] runs a function once for a key and returns what it returned then, however often it is
// called. Below it are the parts that package oncehttp builds its middleware from:
//
//   - [Guard] takes a key before the work begins: [Guard.Begin] returns a [Work], whose lease it
//     renews, and which ends with an outcome, with the word that nothing happened, or as lost.
//   - [Store] keeps a record for each identity, in three steps: Claim, Complete, Release. Packages
//     oncemem, oncesqlite and onceredis have one; package oncetest holds a store to what is
//     promised. [Renewer], [Resolver], [Holder], [Waiter], [Sweeper] and [Browser] are optional,
//     and a guard that needs one that is missing is refused when it is made.
//   - [OnUnknown] says what follows an attempt of which nobody can know whether it had its effect:
//     [Retry] runs it again, [Hold] leaves it to a person.
//
// They speak of:
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
//   - Of those who ask for one identity at one time one gets it, and its later writes count only as
//     long as it has it: one that lost its lease changes nothing.
//   - A changed request never runs under an old key: its fingerprint is compared before anything
//     else, also while the first one runs and after it was released.
//   - A lease lasts seconds, an outcome is remembered for days. Both are judged by the store's
//     clock. The work's context ends before the lease does, by this machine's monotonic clock, also
//     if a renewal hangs.
//   - The fence of an identity rises with each owner, over releases, expiry and restarts.
//   - Only work that is known to have had no effect ([NoEffect]) frees its key. An outcome that
//     can't be stored leaves the record unknown, and the caller has the true one.
//   - If the store does not answer, the work is not begun.
//   - Equal scopes and keys have equal identities, in every process and on every store; unequal
//     ones differ up to a collision of SHA-256. The encoding is fixed: identities written by one
//     release are found by the next.
//   - Two fingerprints are equal only if they were made by the same version of the same rule
//     from the same content. After a change of the rule the version byte differs.
//   - The public id of an identity ([Identity.ID]) holds its first 128 bits: enough to name a
//     row, not to prove what the key was.
//   - All but [Guard] and [Work] are plain data and functions that keep no state; everything is
//     safe for concurrent use.
//
// # What is not promised
//
// Nothing here makes a network hop exactly-once. An effect outside the database happens at least
// once, with a stable id (see [DeriveIdentity]) by which its receiver can tell repeats apart.
// Two attempts may overlap in time after a lost lease: a process that was frozen may send what it
// had in its hands when it wakes. Hand on the fence ([Grant].Fence) to whoever can refuse a lower
// one.
// An identity does not hide its key: whoever can guess a key can compute its identity.
package once
