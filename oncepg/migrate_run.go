package oncepg

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// migrator is a pool or a database of database/sql.
type migrator interface {
	reader
	transact(ctx context.Context, fn func(migration) error) error
}

// reader answers one statement.
type reader interface {
	query(ctx context.Context, q query) ([]row, error)
}

type poolMigrator struct{ pool *pgxpool.Pool }

func (m poolMigrator) query(ctx context.Context, q query) ([]row, error) {
	return firstOf(pipeline(ctx, m.pool, []query{q}))
}

func (m poolMigrator) transact(ctx context.Context, fn func(migration) error) error {
	return pgx.BeginTxFunc(ctx, m.pool, readCommitted, func(tx pgx.Tx) error {
		return fn(migration{pgxReader{tx}, func(ctx context.Context, text string) error {
			_, err := tx.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol) // several statements
			return err
		}})
	})
}

type pgxReader struct{ tx pgx.Tx }

func (r pgxReader) query(ctx context.Context, q query) ([]row, error) {
	return firstOf(pipeline(ctx, r.tx, []query{q}))
}

type sqlMigrator struct{ db *sql.DB }

func (m sqlMigrator) query(ctx context.Context, q query) ([]row, error) {
	return sqlQuery(ctx, m.db, q)
}

func (m sqlMigrator) transact(ctx context.Context, fn func(migration) error) error {
	tx, err := m.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	err = fn(migration{sqlReader{tx}, func(ctx context.Context, text string) error {
		_, err := tx.ExecContext(ctx, text) // without arguments drivers send it as it is
		return err
	}})
	if err != nil {
		_ = tx.Rollback() // the error that counts is the first
		return err
	}
	return tx.Commit()
}

type sqlReader struct{ tx *sql.Tx }

func (r sqlReader) query(ctx context.Context, q query) ([]row, error) {
	return sqlQuery(ctx, r.tx, q)
}

func firstOf(answers [][]row, err error) ([]row, error) {
	if err != nil {
		return nil, err
	}
	return answers[0], nil
}

// migration is the transaction of one migration.
type migration struct {
	reader
	exec func(ctx context.Context, text string) error
}

func (t migration) applied(ctx context.Context, schema string) (applied, error) {
	return readApplied(ctx, t, schema)
}
