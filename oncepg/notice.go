package oncepg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once"
)

// A commit that waits for its synchronous standby is not visible to others, and not told to be
// done, until the standby has it. But the wait can be cancelled: by pg_cancel_backend, or by a
// client that sends a request to cancel. Then PostgreSQL tells a WARNING, and the commit's success,
// although a fail-over may forget it. Whoever is told so knows nothing of the commit.
//
// What helps is a barrier: a later commit that waits. The standby takes the log in its order: when
// it has the later one it has all that came before. So a warning is no failure; only if the barrier
// fails too, the commit stays unknown.

// Watch lets the connections of a pool tell when the wait of a commit for a synchronous standby was
// cancelled, which PostgreSQL says in a warning only. Call it before the pool is made, and after
// OnNotice and AfterConnect of its ConnConfig are set: they are called as before. What works with
// the pool then waits for the standby once more before it says that something is done, and if it
// can't, returns once.ErrUnavailable.
func Watch(conf *pgxpool.Config) { WatchConn(conf.ConnConfig) }

// WatchConn is [Watch] for single connections, and for database/sql over pgx (stdlib.OpenDB).
func WatchConn(conf *pgx.ConnConfig) {
	connected, noticed := conf.AfterConnect, conf.OnNotice
	conf.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if conn.CustomData()[watchKey] == nil {
			conn.CustomData()[watchKey] = new(atomic.Int64)
		}
		if connected == nil {
			return nil
		}
		return connected(ctx, conn)
	}
	conf.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		if canceled := cancellations(conn); canceled != nil && isCanceledWait(n) {
			canceled.Add(1)
		}
		if noticed != nil {
			noticed(conn, n)
		}
	}
}

// watchKey is where a connection counts its cancelled waits.
const watchKey = "github.com/oncekit/once/oncepg.canceled"

// cancellations counts a connection's cancelled waits; nil if it is not watched.
func cancellations(conn *pgconn.PgConn) *atomic.Int64 {
	count, _ := conn.CustomData()[watchKey].(*atomic.Int64)
	return count
}

// isCanceledWait tells the warning, which has no code of its own, by the function that it comes
// from: its text depends on lc_messages.
func isCanceledWait(n *pgconn.Notice) bool {
	return n.Code == "01000" && n.Routine == "SyncRepWaitForLSN"
}

// standbyBarrier, as a part of a statement that is a transaction of its own, or of one that is
// committed, makes this commit wait for the synchronous standbys, if there are any: a transaction
// that has only read waits for nothing. It is NULL where there is nothing to be waited for.
const standbyBarrier = "CASE WHEN current_setting('synchronous_standby_names') <> '' AND " +
	"current_setting('synchronous_commit') NOT IN ('off', 'local') " +
	"THEN pg_logical_emit_message(true, 'once', '')::text END"

// confirmSQL is a commit that waits, whatever the session's synchronous_commit is: a commit of its
// own setting was waiting.
const confirmSQL = "SELECT CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') " +
	"THEN set_config('synchronous_commit', 'on', true) END, " +
	"pg_logical_emit_message(true, 'once', '')::text"

// confirmTries bounds how often a barrier is tried whose wait is cancelled, too.
const confirmTries = 10

// unsureError is a commit of which nobody knows whether a fail-over will forget it.
type unsureError struct{ err error }

func (e *unsureError) Error() string {
	return "a commit is not known to be on the standby: " + e.err.Error()
}

// Unwrap makes it once.ErrUnavailable, and nothing of what ended the wait: that is no answer about
// what was committed.
func (e *unsureError) Unwrap() error { return once.ErrUnavailable }

var errCanceledWait = errors.New("the wait for it was cancelled")

// sure carries out transactions of ours on a connection, and returns when what they have committed
// is on the standbys that commits wait for. On a connection that is not watched it knows of no
// cancelled wait.
func sure(ctx context.Context, conn *pgx.Conn, do func() error) error {
	if conn == nil {
		return do()
	}
	canceled := cancellations(conn.PgConn())
	if canceled == nil {
		return do()
	}
	before := canceled.Load()
	err := do()
	if err != nil || canceled.Load() == before {
		return err
	}
	for range confirmTries {
		before = canceled.Load()
		_, err = conn.Exec(ctx, confirmSQL)
		switch {
		case err == nil && canceled.Load() == before:
			return nil
		case err == nil:
			err = errCanceledWait
		case codeOf(err) != codeCanceled:
			return &unsureError{err}
		}
	}
	return &unsureError{err}
}

// onConn lends a pool's connection to transactions of ours, see sure.
func onConn(ctx context.Context, pool *pgxpool.Pool, do func(*pgx.Conn) error) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return sure(ctx, conn.Conn(), func() error { return do(conn.Conn()) })
}

// BeginTxFunc is that of pgx, for transactions that are joined by WithTx: if the wait of its commit
// for a synchronous standby was cancelled, it waits again, and if that fails returns
// once.ErrUnavailable: then nobody knows whether a fail-over would forget what was committed. The
// pool has to be made with [Watch].
func BeginTxFunc(
	ctx context.Context, pool *pgxpool.Pool, opts pgx.TxOptions, do func(tx pgx.Tx) error,
) error {
	return onConn(ctx, pool, func(conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, opts, do)
	})
}

// onSQLConn is onConn for database/sql.
func onSQLConn(ctx context.Context, db *sql.DB, do func(*sql.Conn) error) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // it goes back to the pool
	return sure(ctx, pgxOf(conn), func() error { return do(conn) })
}

// pgxOf is the connection of pgx below one of database/sql; nil for those of other drivers.
func pgxOf(conn *sql.Conn) (below *pgx.Conn) {
	_ = conn.Raw(func(driver any) error { // a broken one says so by its next statement
		if c, ok := driver.(interface{ Conn() *pgx.Conn }); ok {
			below = c.Conn()
		}
		return nil
	})
	return below
}

// standbySQL asks whether commits wait for standbys, and whether warnings are told.
const standbySQL = `SELECT (current_setting('synchronous_standby_names') <> ''
	AND current_setting('synchronous_commit') NOT IN ('off', 'local'))::text,
	(current_setting('client_min_messages') IN ('error', 'fatal', 'panic'))::text`

// warnUnwatched tells the log that cancelled waits for standbys would not be noticed.
func warnUnwatched(ctx context.Context, r runner, log *slog.Logger) error {
	got, err := r.run(ctx, []query{{standbySQL, nil}}, false)
	if err != nil {
		return fmt.Errorf("ask for standbys: %w", err)
	}
	if waits, isDeaf := *got[0][0][0] == "true", *got[0][0][1] == "true"; !waits {
		return nil
	} else if isDeaf {
		log.Warn("client_min_messages hides warnings: a cancelled wait for the synchronous " +
			"standby can't be noticed")
		return nil
	}
	w, ok := r.(interface {
		watched(ctx context.Context) (bool, error)
	})
	if !ok {
		return nil
	}
	isWatched, err := w.watched(ctx)
	if err == nil && !isWatched {
		log.Warn("this PostgreSQL has synchronous standbys, and its connections don't tell " +
			"of cancelled waits: make the pool with oncepg.Watch")
	}
	return err
}

func (r poolRunner) watched(ctx context.Context) (is bool, err error) {
	err = onConn(ctx, r.pool, func(conn *pgx.Conn) error {
		is = cancellations(conn.PgConn()) != nil
		return nil
	})
	return is, err
}

func (r sqlRunner) watched(ctx context.Context) (is bool, err error) {
	err = onSQLConn(ctx, r.db, func(conn *sql.Conn) error {
		below := pgxOf(conn)
		is = below != nil && cancellations(below.PgConn()) != nil
		return nil
	})
	return is, err
}

// poolerHint explains the errors of prepared statements that a pooler in between makes.
func poolerHint(err error) error {
	switch code := codeOf(err); {
	case code == "26000",
		code == "42P05" && strings.Contains(err.Error(), "prepared statement"):
		return fmt.Errorf("a pooler between here and PostgreSQL does not keep prepared "+
			"statements (PgBouncer does from 1.21 on, with max_prepared_statements): add "+
			"default_query_exec_mode=exec to the URL: %w", err)
	}
	return err
}
