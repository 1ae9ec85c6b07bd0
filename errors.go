package once

import (
	"errors"
	"fmt"
	"time"
)

// The errors a caller can act on. They are wrapped with what was being done; test with errors.Is.
var (
	// ErrKeyInvalid: the key can't be used as it is. The sender has to send another one.
	ErrKeyInvalid = errors.New("key is invalid")

	// ErrKeyIncomplete: a part of the key is missing or empty. It is an ErrKeyInvalid too. Where
	// a source has several keys, the next one is tried.
	ErrKeyIncomplete = fmt.Errorf("%w: a part is missing or empty", ErrKeyInvalid)

	// ErrScopeMissing: no scope was chosen, or a part of it is empty. Refuse the request; never
	// go on with a shared scope.
	ErrScopeMissing = errors.New("scope is missing")

	// ErrConflict: the identity is known with another fingerprint, or a version has moved on.
	// Repeating the same request doesn't help.
	ErrConflict = errors.New("conflicts with what is stored")

	// ErrMismatch: the key was used with another request (HTTP 422). It is an ErrConflict too.
	// Repeating the same request doesn't help; a changed request needs a new key.
	ErrMismatch = fmt.Errorf("%w: the key was used with another request", ErrConflict)

	// ErrInFlight: another attempt has the key and its lease runs (HTTP 409). The same request may
	// be repeated later.
	ErrInFlight = errors.New("another attempt is in flight")

	// ErrUnknown: an attempt ended and nobody can know whether it had its effect (HTTP 409). It is
	// held: a person has to decide.
	ErrUnknown = errors.New("the outcome is unknown, a person has to decide")

	// ErrNotKept: the work is done, and its outcome was not kept. It is not run again.
	ErrNotKept = errors.New("done, but the outcome was not kept")

	// ErrCorrupt: a record can't be read. It is never run again because of that; a person has to
	// look at it.
	ErrCorrupt = errors.New("record can't be read")

	// ErrLeaseLost: the caller no longer owns what it wanted to change; its fence has moved on.
	// Nothing was changed. Stop the work and drop its result.
	ErrLeaseLost = errors.New("lease is lost")

	// ErrNotFound: nothing is stored under this identity, id or name.
	ErrNotFound = errors.New("not found")

	// ErrState: the operation isn't possible in the state that the thing is in (HTTP 409).
	// Nothing was changed.
	ErrState = errors.New("not possible in this state")

	// ErrUnavailable: the store can't answer now, and nothing was acknowledged (HTTP 503). The
	// same call may succeed later.
	ErrUnavailable = errors.New("store is unavailable")

	// ErrTooLarge: a limit on size was passed (HTTP 413). The same input never succeeds.
	ErrTooLarge = errors.New("too large")

	// ErrLocked: another process holds the store. End that one first, or use another store.
	ErrLocked = errors.New("store is locked by another process")
)

// KeyError says which part of a key can't be used, and why. It unwraps to ErrKeyIncomplete or
// ErrKeyInvalid. It never holds the part's value.
type KeyError struct {
	Index  int    // of the part, from 0; -1 for the key as a whole
	Reason string // for people: "is empty", "is an object"
	Err    error  // ErrKeyIncomplete or ErrKeyInvalid
}

// Error tells the part, counted from 1 as people do, and the reason.
func (e *KeyError) Error() string {
	if e.Index < 0 {
		return "key " + e.Reason
	}
	return fmt.Sprintf("key part %d %s", e.Index+1, e.Reason)
}

// Unwrap returns the sentinel.
func (e *KeyError) Unwrap() error { return e.Err }

// ReplayError says that the work is done: there is an outcome to replay. It is what a store answers
// to a claim, rather than a fault.
type ReplayError struct {
	// Outcome, whose data belongs to whoever got it.
	Outcome Outcome
	// CompletedAt is when the work ended, by the store's clock.
	CompletedAt time.Time
}

// Error tells that it is done.
func (e *ReplayError) Error() string { return "it is done already" }

// InFlightError says that another attempt has the key. It unwraps to [ErrInFlight].
type InFlightError struct {
	// Rest is how long the lease still runs, and Age how long ago the attempt began, by the
	// store's clock.
	Rest, Age time.Duration
}

// Error tells how long the lease runs.
func (e *InFlightError) Error() string {
	return fmt.Sprintf("%v, its lease ends in %s", ErrInFlight, e.Rest.Round(time.Millisecond))
}

// Unwrap returns the sentinel.
func (e *InFlightError) Unwrap() error { return ErrInFlight }

// UnknownError says that an attempt was lost and is held. It unwraps to [ErrUnknown].
type UnknownError struct {
	// Since is when the attempt ended, or its lease, by the store's clock.
	Since time.Time
}

// Error tells since when.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("%v, since %s", ErrUnknown, e.Since.UTC().Format(time.RFC3339))
}

// Unwrap returns the sentinel.
func (e *UnknownError) Unwrap() error { return ErrUnknown }
