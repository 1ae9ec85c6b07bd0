package oncesqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/oncekit/once/queue"
)

// runCommit runs a handler's Commit inside the savepoint of its settlement.
func (t *txn) runCommit(row *stored, fn func(context.Context, queue.Tx) error) error {
	if fn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.s.cfg.CommitTimeout)
	defer cancel()
	old := t.c.raw.SetInterrupt(ctx)
	err := t.callCommit(ctx, row, fn)
	t.c.raw.SetInterrupt(old)
	if ctx.Err() != nil {
		err = errors.Join(fmt.Errorf("it took longer than %v", t.s.cfg.CommitTimeout), err)
	}
	if t.c.raw.GetAutocommit() { // SQLite gives up all when a write is interrupted
		if err == nil {
			err = errEndsTx
		}
		gone := &rolledBackError{err: &queue.CommitError{Err: err}}
		gone.handler = !storeFault(gone.err)
		return gone
	}
	if err != nil {
		return &queue.CommitError{Err: err}
	}
	return nil
}

func (t *txn) callCommit(ctx context.Context, row *stored,
	fn func(context.Context, queue.Tx) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			t.s.cfg.Logger.Error("a handler's Commit panicked", "callback", row.ID(),
				"panic", p, "stack", string(debug.Stack()))
		}
	}()
	return fn(ctx, t.tx)
}

// guardedTx is the transaction as a handler sees it. It can't be ended through it.
type guardedTx struct{ tx *sql.Tx }

var errEndsTx = errors.New("a handler's Commit can't begin or end transactions, " +
	"attach databases or set pragmas: the transaction is the store's")

// ExecContext runs a statement in the store's transaction.
func (g guardedTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if endsTx(query) {
		return nil, errEndsTx
	}
	return g.tx.ExecContext(ctx, query, args...)
}

// QueryContext runs a query in the store's transaction.
func (g guardedTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if endsTx(query) {
		return nil, errEndsTx
	}
	return g.tx.QueryContext(ctx, query, args...)
}

// QueryRowContext runs a query for one row in the store's transaction.
func (g guardedTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if endsTx(query) {
		query = "SELECT 'the transaction is the store''s' WHERE abs(-9223372036854775808)"
	}
	return g.tx.QueryRowContext(ctx, query, args...)
}

// endsTx reports whether a text holds a statement that begins with a word that is not a handler's to
// use. It errs on the safe side: a text literal that contains such a statement is refused too.
func endsTx(query string) bool {
	for part := range strings.SplitSeq(query, ";") {
		word, _, _ := strings.Cut(strings.TrimLeft(stripComments(part), " \t\r\n("), " ")
		word = strings.ToUpper(strings.TrimSpace(word))
		switch word {
		case "BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE", "ATTACH", "DETACH",
			"PRAGMA", "VACUUM":
			return true
		}
	}
	return false
}

// stripComments removes comments before the first word of a statement.
func stripComments(s string) string {
	for {
		s = strings.TrimLeft(s, " \t\r\n")
		switch {
		case strings.HasPrefix(s, "--"):
			_, rest, found := strings.Cut(s, "\n")
			if !found {
				return ""
			}
			s = rest
		case strings.HasPrefix(s, "/*"):
			_, rest, found := strings.Cut(s, "*/")
			if !found {
				return ""
			}
			s = rest
		default:
			return s
		}
	}
}
