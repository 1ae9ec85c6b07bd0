package turn

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// ErrTooMuch is a batch that is too long for one commit.
var ErrTooMuch = errors.New("too much for one commit")

// FaultError is a fault of the database or of the way to it, not the answer to a question: nothing
// of the batch that met it can go on.
type FaultError struct{ Err error }

// Error is the text of what happened.
func (e *FaultError) Error() string { return e.Err.Error() }

// Unwrap returns what happened.
func (e *FaultError) Unwrap() error { return e.Err }

// Fault marks an error as a fault of the store.
func Fault(err error) error {
	if err == nil || IsFault(err) {
		return err
	}
	return &FaultError{err}
}

// IsFault reports whether an error is the store's own.
func IsFault(err error) bool {
	var f *FaultError
	return errors.As(err, &f)
}

// AsUnavailable wraps a fault of the store for its callers.
func AsUnavailable(err error) error {
	if err == nil || errors.Is(err, once.ErrUnavailable) || !IsFault(err) {
		return err
	}
	return fmt.Errorf("%w: %w", once.ErrUnavailable, err)
}

// panicError is a panic in a function that the caller gave.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Public returns what a log may show of it: see [queue.Public].
func (e *panicError) Public() string { return "panic: " + queue.PanicText(e.value) }

// decide calls a caller's function inside the batch: a panic in it is an error.
func (t *Batch) decide(fn func() (queue.Settlement, error)) (set queue.Settlement, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p}
			t.Log.Error("a decision panicked", "panic", queue.PanicText(p),
				"stack", string(debug.Stack()))
		}
	}()
	return fn()
}
