package oncesqlite

import (
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

var errClosed = fmt.Errorf("store is closed: %w", once.ErrUnavailable)

// txn is one transaction of the writer. What it changes in memory is taken back if it, or the
// savepoint in which it happened, is rolled back.
type txn struct {
	s   *Store
	c   *conn
	now int64
	// deltas of the kept counters, in the order in which they came.
	deltas []delta
	// undo takes back changes in memory, last first. after runs once the commit is durable.
	undo, after []func()
	// rang are lanes in which rows became due.
	rang map[int64]struct{}
	// woken are rows that were woken in this transaction, in order.
	woken []int64
	// timers is true when a next_at was written.
	timers bool
	// tx is the database/sql view of the transaction.
	tx queue.Tx
}

type delta struct {
	key counterKey
	n   int64
}

// mark is a place in a transaction to which memory can be taken back.
type mark struct{ deltas, undo, after, woken int }

func (t *txn) mark() mark { return mark{len(t.deltas), len(t.undo), len(t.after), len(t.woken)} }

func (t *txn) rewind(m mark) {
	for i := len(t.undo) - 1; i >= m.undo; i-- {
		t.undo[i]()
	}
	t.deltas, t.undo, t.after = t.deltas[:m.deltas], t.undo[:m.undo], t.after[:m.after]
	t.woken = t.woken[:m.woken]
}

func (t *txn) count(k counterKey, n int64) { t.deltas = append(t.deltas, delta{k, n}) }

func (t *txn) onUndo(fn func()) { t.undo = append(t.undo, fn) }

// ring notes that a row of a lane became due.
func (t *txn) ring(lane int64) { t.rang[lane] = struct{}{} }

// savepoint runs fn so that an error undoes what it did and nothing else. If SQLite gave up the whole
// transaction the error is an errRolledBack.
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
type rolledBackError struct{ err error }

func (e *rolledBackError) Error() string { return "transaction given up: " + e.err.Error() }
func (e *rolledBackError) Unwrap() error { return e.err }

func (t *txn) lost(err error) error { return &rolledBackError{err} }

// storeFault reports whether an error is the store's own and not the answer to a question.
func storeFault(err error) bool {
	var e *sqlite3.Error
	var gone *rolledBackError
	return errors.As(err, &e) || errors.As(err, &gone)
}

// unavailable wraps a fault of the store for its callers.
func unavailable(err error) error {
	if errors.Is(err, once.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", once.ErrUnavailable, err)
}
