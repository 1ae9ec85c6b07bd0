package oncesqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

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

// callCommit calls a handler's function in a goroutine of its own and waits for it: one that ends
// its goroutine (runtime.Goexit) must not end the one that writes.
func (t *txn) callCommit(ctx context.Context, row *stored,
	fn func(context.Context, queue.Tx) error) error {
	done := make(chan error)
	go func() {
		err := errors.New("it ended its goroutine")
		defer func() { done <- err }()
		err = t.inCommit(ctx, row, fn)
	}()
	return <-done
}

// inCommit calls a handler's function with the transaction as it may see it. A panic is an error.
func (t *txn) inCommit(ctx context.Context, row *stored,
	fn func(context.Context, queue.Tx) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			t.s.cfg.Logger.Error("a handler's Commit panicked", "callback", row.ID(),
				"panic", queue.PanicText(p), "stack", string(debug.Stack()))
		}
	}()
	g := &guardedTx{tx: t.c.sql, limit: ctx}
	defer g.end()
	return fn(ctx, g)
}

// guardedTx is the transaction as a handler sees it. It can't be ended through it, and nothing that
// runs in it outlives Commit, whatever context the handler passes, and whatever goroutines it
// leaves behind.
type guardedTx struct {
	tx    *sql.Conn // the one that writes: whatever runs on it is in the transaction
	limit context.Context

	mu    sync.Mutex // held while a statement runs
	ended bool
	open  []func() // close what was read from
	stops []context.CancelFunc
}

var errEndsTx = errors.New("a handler's Commit can't begin or end transactions, " +
	"attach databases or set pragmas: the transaction is the store's")

// within returns the handler's context, ended by the limit of Commit at the latest.
func (g *guardedTx) within(ctx context.Context) context.Context {
	ctx, stop := context.WithCancel(ctx)
	unlink := context.AfterFunc(g.limit, stop)
	g.stops = append(g.stops, func() { unlink(); stop() })
	return ctx
}

// end closes what the handler left open: the connection is the store's again. It does so before it
// ends the contexts, or database/sql would close it beside whatever the store does by then.
func (g *guardedTx) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	for _, shut := range g.open {
		shut()
	}
	for _, stop := range g.stops {
		stop()
	}
}

// ExecContext runs a statement in the store's transaction.
func (g *guardedTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result,
	error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.refusal(query); err != nil {
		return nil, err
	}
	return g.tx.ExecContext(g.within(ctx), query, args...)
}

// QueryContext runs a query in the store's transaction.
func (g *guardedTx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows,
	error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.refusal(query); err != nil {
		return nil, err
	}
	rows, err := g.tx.QueryContext(g.within(ctx), query, args...)
	if err == nil {
		g.open = append(g.open, func() { _ = rows.Close() }) // nobody wants the rest
	}
	return rows, err
}

// QueryRowContext runs a query for one row in the store's transaction. The row is read at once: one
// that nobody scans would be open until its context ends, and then be closed beside the store.
func (g *guardedTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.refusal(query); err != nil {
		return (&answer{err: err}).row(ctx)
	}
	rows, err := g.tx.QueryContext(g.within(ctx), query, args...)
	if err != nil {
		return (&answer{err: err}).row(ctx)
	}
	return firstRow(rows).row(ctx)
}

// refusal says why a statement may not run; nil: it may.
func (g *guardedTx) refusal(query string) error {
	if g.ended {
		return sql.ErrTxDone
	}
	if endsTx(query) {
		return errEndsTx
	}
	return nil
}

// endsTx reports whether a text holds a statement that begins with a word that is not a handler's
// to use. It errs on the safe side: a text literal that contains such a statement is refused too.
func endsTx(query string) bool {
	for part := range strings.SplitSeq(query, ";") {
		switch firstWord(stripComments(part)) {
		case "BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE", "ATTACH", "DETACH",
			"PRAGMA", "VACUUM":
			return true
		}
	}
	return false
}

// blank is what SQLite skips between words; it takes a byte order mark for a space.
const blank = " \t\r\n\f\v\ufeff"

// firstWord returns the letters at the start of a statement, in upper case.
func firstWord(s string) string {
	end := strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if end >= 0 {
		s = s[:end]
	}
	return strings.ToUpper(s)
}

// stripComments removes comments before the first word of a statement.
func stripComments(s string) string {
	for {
		s = strings.TrimLeft(s, blank)
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
