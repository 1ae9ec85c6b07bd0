package oncepg

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// query is a statement with its arguments, which are texts, or bytes for bytea: the statement casts
// them, so that every driver is as good.
type query struct {
	sql  string
	args []any
}

// row is one row of an answer; all its columns are texts, or the bytes of a bytea, nil for NULL.
type row []*string

// runner carries out statements, all or none, and returns the rows of each.
type runner interface {
	run(ctx context.Context, qs []query, careful bool) ([][]row, error)
	// joined tells whether the statements are part of a caller's transaction.
	joined() bool
}

// savepoint names the one around a call inside a caller's transaction.
const savepoint = "once_write"

// rollbackLimit is how long it may take to undo what went wrong, whatever the caller's context
// says.
const rollbackLimit = 5 * time.Second

// poolRunner sends all statements at once. PostgreSQL takes what comes before one sync for one
// transaction. careful begins it explicitly as READ COMMITTED, which costs two round trips: for
// databases with another default.
type poolRunner struct{ pool *pgxpool.Pool }

func (poolRunner) joined() bool { return false }

func (r poolRunner) run(ctx context.Context, qs []query, careful bool) (out [][]row, err error) {
	err = onConn(ctx, r.pool, func(conn *pgx.Conn) error {
		if !careful {
			out, err = pipeline(ctx, conn, qs)
			return err
		}
		return pgx.BeginTxFunc(ctx, conn, readCommitted, func(tx pgx.Tx) error {
			out, err = pipeline(ctx, tx, qs)
			return err
		})
	})
	return out, err
}

var readCommitted = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

// sender is a pool, a connection or a transaction of pgx.
type sender interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

func pipeline(ctx context.Context, s sender, qs []query) (out [][]row, err error) {
	defer func() { err = poolerHint(err) }()
	if len(qs) == 1 {
		rows, err := s.Query(ctx, qs[0].sql, qs[0].args...)
		if err != nil {
			return nil, err
		}
		got, err := collect(rows)
		return [][]row{got}, err
	}
	var batch pgx.Batch
	for _, q := range qs {
		batch.Queue(q.sql, q.args...)
	}
	results := s.SendBatch(ctx, &batch)
	defer func() {
		// The commit is answered here.
		if closed := results.Close(); err == nil {
			err = closed
		}
	}()
	for range qs {
		rows, err := results.Query()
		if err != nil {
			return nil, err
		}
		got, err := collect(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, got)
	}
	return out, nil
}

func collect(rows pgx.Rows) ([]row, error) {
	defer rows.Close()
	var out []row
	for rows.Next() {
		fields := rows.FieldDescriptions()
		r, into := blank(len(fields))
		for i := range fields {
			if fields[i].DataTypeOID == pgtype.ByteaOID {
				into[i] = bytesInto{&r[i]}
			}
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// bytesInto takes the bytes of a bytea, which pgx does not put into a text by itself.
type bytesInto struct{ into **string }

// ScanBytes is that of pgtype.BytesScanner.
func (b bytesInto) ScanBytes(v []byte) error {
	*b.into = nil
	if v != nil {
		text := string(v)
		*b.into = &text
	}
	return nil
}

// blank is a row to be scanned into.
func blank(columns int) (row, []any) {
	r, into := make(row, columns), make([]any, columns)
	for i := range r {
		into[i] = &r[i]
	}
	return r, into
}

// txRunner joins a caller's transaction. The savepoint is set by itself: pgx prepares what it sends
// together before any of it is carried out, and an error of that would end the transaction.
type txRunner struct{ tx pgx.Tx }

func (txRunner) joined() bool { return true }

func (r txRunner) run(ctx context.Context, qs []query, _ bool) (out [][]row, err error) {
	if _, err := r.tx.Exec(ctx, "SAVEPOINT "+savepoint); err != nil {
		return nil, err
	}
	if out, err = pipeline(ctx, r.tx, qs); err == nil {
		_, err = r.tx.Exec(ctx, "RELEASE SAVEPOINT "+savepoint)
		return out, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	_, undone := r.tx.Exec(ctx,
		"ROLLBACK TO SAVEPOINT "+savepoint+"; RELEASE SAVEPOINT "+savepoint)
	return nil, errors.Join(err, undone)
}

// sqlRunner is for database/sql.
type sqlRunner struct{ db *sql.DB }

func (sqlRunner) joined() bool { return false }

func (r sqlRunner) run(ctx context.Context, qs []query, careful bool) (out [][]row, err error) {
	err = onSQLConn(ctx, r.db, func(conn *sql.Conn) error {
		if len(qs) == 1 && !careful {
			out, err = sqlAll(ctx, conn, qs)
			return err
		}
		out, err = sqlTransaction(ctx, conn, qs)
		return err
	})
	return out, err
}

func sqlTransaction(ctx context.Context, conn *sql.Conn, qs []query) ([][]row, error) {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	out, err := sqlAll(ctx, tx, qs)
	if err != nil {
		_ = tx.Rollback() // the error that counts is the first
		return nil, err
	}
	return out, tx.Commit()
}

// sqlTxRunner joins a caller's transaction of database/sql.
type sqlTxRunner struct{ tx *sql.Tx }

func (sqlTxRunner) joined() bool { return true }

func (r sqlTxRunner) run(ctx context.Context, qs []query, _ bool) ([][]row, error) {
	if _, err := r.tx.ExecContext(ctx, "SAVEPOINT "+savepoint); err != nil {
		return nil, err
	}
	out, err := sqlAll(ctx, r.tx, qs)
	if err == nil {
		_, err = r.tx.ExecContext(ctx, "RELEASE SAVEPOINT "+savepoint)
		return out, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	_, undone := r.tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT "+savepoint)
	if undone == nil {
		_, undone = r.tx.ExecContext(ctx, "RELEASE SAVEPOINT "+savepoint)
	}
	return nil, errors.Join(err, undone)
}

// querier is a *sql.DB, a *sql.Conn or a *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func sqlAll(ctx context.Context, db querier, qs []query) (out [][]row, err error) {
	for _, q := range qs {
		got, err := sqlQuery(ctx, db, q)
		if err != nil {
			return nil, err
		}
		out = append(out, got)
	}
	return out, nil
}

func sqlQuery(ctx context.Context, db querier, q query) (out []row, err error) {
	defer func() { err = poolerHint(err) }()
	rows, err := db.QueryContext(ctx, q.sql, q.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		r, into := blank(len(columns))
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}
