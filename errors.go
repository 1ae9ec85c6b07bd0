package once

import (
	"errors"
	"fmt"
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
