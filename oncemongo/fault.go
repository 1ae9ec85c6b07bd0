package oncemongo

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

var (
	errClosed = fmt.Errorf("store is closed: %w", once.ErrUnavailable)
	// errDamaged is what can't be, unless somebody else writes into the collections.
	errDamaged = errors.New("the store's documents contradict each other")
	// errDoubt is a commit of which nobody can say whether it happened.
	errDoubt = errors.New("the answer to the commit was lost, and another node has the turn since")
	// errTooMuch is a batch that is too long for one commit.
	errTooMuch = errors.New("too much for one commit")
)

// faultError is a fault of the database or of the way to it, not the answer to a question.
type faultError struct{ err error }

func (e *faultError) Error() string { return e.err.Error() }
func (e *faultError) Unwrap() error { return e.err }

// fault marks an error of the driver as a fault of the store.
func fault(err error) error {
	if err == nil {
		return nil
	}
	return &faultError{err}
}

// storeFault reports whether an error is the store's own: then nothing of the batch can go on.
func storeFault(err error) bool {
	var f *faultError
	return errors.As(err, &f) || errors.Is(err, errTurnLost) || errors.Is(err, errDamaged) ||
		errors.Is(err, errDoubt) || errors.Is(err, errKilled)
}

// asUnavailable wraps a fault of the store for its callers.
func asUnavailable(err error) error {
	if err == nil || errors.Is(err, once.ErrUnavailable) || !storeFault(err) {
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
func (t *txn) decide(fn func() (queue.Settlement, error)) (set queue.Settlement, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p}
			t.s.cfg.Logger.Error("a decision panicked", "panic", queue.PanicText(p),
				"stack", string(debug.Stack()))
		}
	}()
	return fn()
}

// point is a place in a commit at which tests let the process end.
type point string

// The points of a commit, in their order.
const (
	pointRead      point = "read"      // the batch is worked out; nothing of it is in the database
	pointCommitted point = "committed" // the journal is in the database, and nothing else
	pointWrite     point = "write"     // before each write of a collection
	pointWritten   point = "written"   // all is written, and nobody was told
)

// errKilled ends a store at a point, as if its process had been killed there.
var errKilled = errors.New("the process was killed")

// fail asks the tests whether the process ends here.
func (s *Store) fail(p point) error {
	if s.killed.Load() || s.cfg.failpoint != nil && s.cfg.failpoint(p) {
		s.killed.Store(true)
		return errKilled
	}
	return nil
}
