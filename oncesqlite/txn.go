package oncesqlite

import (
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

var errClosed = fmt.Errorf("store is closed: %w", once.ErrUnavailable)

// txn is one transaction of the writer. What it changes in memory is taken back if it, or the
// savepoint in which it happened, is rolled back.
type txn struct {
	s *Store
	c *conn
	// now and lap, by which leases are judged.
	instant
	// begun is when it began and stepped what steps took of it, by the machine's clock.
	begun   time.Time
	stepped time.Duration
	// deltas of the kept counters, in the order in which they came.
	deltas []delta
	// inFile is true from its commit on. It stays in the file then, even if its flush fails.
	inFile bool
	// undo takes back changes in memory, last first. after runs in the goroutine that writes, once
	// it is committed; durable in the one that flushes, once that is durable.
	undo, after, durable []func()
	// rang are lanes in which rows became due.
	rang map[int64]struct{}
	// woken are rows that were woken in this transaction, in order.
	woken []int64
	// timers is true when a next_at was written.
	timers bool
}

type delta struct {
	key counterKey
	n   int64
}

// mark is a place in a transaction to which memory can be taken back.
type mark struct{ deltas, undo, after, durable, woken int }

func (t *txn) mark() mark {
	return mark{len(t.deltas), len(t.undo), len(t.after), len(t.durable), len(t.woken)}
}

func (t *txn) rewind(m mark) {
	for i := len(t.undo) - 1; i >= m.undo; i-- {
		t.undo[i]()
	}
	t.deltas, t.undo, t.after = t.deltas[:m.deltas], t.undo[:m.undo], t.after[:m.after]
	t.durable, t.woken = t.durable[:m.durable], t.woken[:m.woken]
}

func (t *txn) count(k counterKey, n int64) { t.deltas = append(t.deltas, delta{k, n}) }

func (t *txn) onUndo(fn func()) { t.undo = append(t.undo, fn) }

// ring notes that a row of a lane became due.
func (t *txn) ring(lane int64) { t.rang[lane] = struct{}{} }

// savepoint runs fn so that an error undoes what it did and nothing else. If SQLite gave up the
// whole transaction the error is a *rolledBackError.
func (t *txn) savepoint(fn func() error) error {
	if err := t.c.exec("SAVEPOINT op"); err != nil {
		return t.lost(err)
	}
	m := t.mark()
	err := fn()
	if err == nil {
		if err = t.c.exec("RELEASE op"); err == nil {
			return nil
		}
	}
	t.rewind(m)
	if t.c.raw.GetAutocommit() {
		return t.lost(err)
	}
	if e := t.c.exec("ROLLBACK TO op"); e != nil {
		return t.lost(errors.Join(err, e))
	}
	if e := t.c.exec("RELEASE op"); e != nil {
		return t.lost(errors.Join(err, e))
	}
	return err
}

// rolledBackError says that the whole transaction is gone.
type rolledBackError struct {
	err error
	// handler is true when a handler's Commit is the cause: the rest can be run again without it.
	handler bool
}

func (e *rolledBackError) Error() string { return "transaction given up: " + e.err.Error() }
func (e *rolledBackError) Unwrap() error { return e.err }

func (t *txn) lost(err error) error {
	var gone *rolledBackError
	if errors.As(err, &gone) {
		return err
	}
	return &rolledBackError{err: err}
}

// byHandler reports whether a transaction was given up because of a handler's Commit alone.
func byHandler(err error) bool {
	var gone *rolledBackError
	return errors.As(err, &gone) && gone.handler
}

// storeFault reports whether an error is the store's own and not the answer to a question. A value
// that breaks a constraint or is too big is the fault of its operation alone, and so is whatever a
// handler's Commit does, unless it met a disk that fails.
func storeFault(err error) bool {
	var gone *rolledBackError
	var code sqlite3.ErrorCode
	var handler *queue.CommitError
	switch {
	case errors.As(err, &gone):
		return true
	case !errors.As(err, &code):
		return false
	case errors.As(err, &handler):
		return diskFault(code)
	}
	return code != sqlite3.CONSTRAINT && code != sqlite3.TOOBIG
}

// diskFault reports whether a code tells of the file or the machine, not of a statement.
func diskFault(code sqlite3.ErrorCode) bool {
	switch code {
	case sqlite3.FULL, sqlite3.IOERR, sqlite3.CORRUPT, sqlite3.NOTADB, sqlite3.NOMEM,
		sqlite3.READONLY, sqlite3.CANTOPEN, sqlite3.PROTOCOL, sqlite3.BUSY:
		return true
	}
	return false
}

// unavailable wraps a fault of the store for its callers.
func unavailable(err error) error {
	if errors.Is(err, once.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", once.ErrUnavailable, err)
}
