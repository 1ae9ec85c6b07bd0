package fill

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncepg"
)

// PostgresStamp names the layout of the tables that Postgres fills now.
func PostgresStamp() (string, error) {
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, "postgres", version) // a hash takes everything
	all := oncepg.Migrations()
	names, err := fs.Glob(all, "*.sql")
	if err != nil {
		return "", fmt.Errorf("read migrations: %w", err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(all, name)
		if err != nil {
			return "", fmt.Errorf("read migrations: %w", err)
		}
		_, _ = fmt.Fprintf(sum, "%s\n%s\n", name, text)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// copied is a table with the columns that are written; the others have their defaults.
type copied struct {
	table   string
	columns []string
	values  func(*filledRow) []any
}

// filledRow is a row as it is in the tables.
type filledRow struct {
	*row
	seq       int64
	at, ended time.Time
	sweepAt   *time.Time
}

// parts are the tables that hold a row.
func parts() []copied {
	return []copied{{
		table: "queue_content",
		columns: []string{"seq", "kind", "identity", "retention_ms", "keep_body_ms", "received_at",
			"source", "event", "key", "key_marks", "cause", "peer", "fingerprint"},
		values: func(r *filledRow) []any {
			return []any{r.seq, int16(r.Kind), r.Identity[:], retention.Milliseconds(), int64(1), r.at,
				r.Source, r.Event, r.Key, marks(r.Key), r.Cause, r.peer, r.fp}
		},
	}, {
		table: "queue_work",
		columns: []string{"seq", "phase", "lane", "order_key", "flow", "task", "attempt", "fence",
			"started_at", "finished_at", "sweep_at", "error", "dead_cause"},
		values: func(r *filledRow) []any {
			return []any{r.seq, string(r.State), r.Lane, r.OrderKey, r.Flow, r.Task, int32(1), int64(1),
				r.ended, r.ended, r.sweepAt, r.Error, string(r.DeadCause)}
		},
	}}
}

// Postgres makes the tables of once in an empty database and writes n callbacks that are done, as
// Remembered does, and their effects and tasks. The tables are of no use after an error.
func Postgres(ctx context.Context, url string, n int64) error {
	if err := fillPostgres(ctx, url, n); err != nil {
		return fmt.Errorf("fill tables: %w", err)
	}
	return nil
}

func fillPostgres(ctx context.Context, url string, n int64) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := oncepg.Migrate(ctx, pool, oncepg.MigrateConfig{}); err != nil {
		return err
	}
	scope, err := scopeOf()
	if err != nil {
		return err
	}
	held, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer held.Release()
	conn := held.Conn()
	if err := perform(ctx, conn, "SET synchronous_commit = off",
		"SET maintenance_work_mem = '1GB'"); err != nil {
		return err
	}
	var indexes []string
	at := time.Now().Add(-24 * time.Hour)
	for _, c := range parts() {
		again, err := dropIndexes(ctx, conn, "once."+c.table)
		if err != nil {
			return err
		}
		indexes = append(indexes, again...)
		if err := copyRows(ctx, conn, c, scope, n, at); err != nil {
			return err
		}
	}
	return perform(ctx, conn, append(append(indexes, `INSERT INTO once.tasks (flow, task, n, state,
			version, gone, final, retention_ms, created_at, since_at, updated_at, sweep_at)
		SELECT flow, task, seq + 1, 'finished', 5, true, true, retention_ms, received_at, received_at,
			received_at, received_at + retention_ms * interval '1 millisecond'
		FROM once.queue_rows WHERE kind = 1 AND event = '`+Plan().Events[0]+`'`),
		`INSERT INTO once.counters (what, source, state, slot, n)
		SELECT CASE kind WHEN 1 THEN 'callback' ELSE 'effect' END, source, phase, '', count(*)
		FROM once.queue_rows GROUP BY kind, source, phase`,
		`SELECT setval('once.queue_numbers', (SELECT max(seq) / 2 + 1 FROM once.queue_work))`,
		"VACUUM (FREEZE, ANALYZE)", "CHECKPOINT")...)
}

// copyRows writes one part of each row; they are made anew for each table, and are the same.
func copyRows(ctx context.Context, conn *pgx.Conn, c copied, scope once.Scope, n int64,
	at time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the producer
	p := &producer{plan: Plan(), scope: scope, out: make(chan part, 4)}
	go p.produce(ctx, func(p *producer) error { return remembered(ctx, p, n) })
	rows := &copySource{parts: p.out, at: at, values: c.values}
	_, err := conn.CopyFrom(ctx, pgx.Identifier{"once", c.table}, c.columns, rows)
	return err
}

// produce hands rows over, in parts, until all are made or ctx ends.
func (p *producer) produce(ctx context.Context, rows func(*producer) error) {
	defer close(p.out)
	err := rows(p)
	if err == nil {
		err = p.flush(ctx)
	}
	if err != nil {
		select {
		case p.out <- part{err: err}:
		case <-ctx.Done():
		}
	}
}

func perform(ctx context.Context, conn *pgx.Conn, statements ...string) error {
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return fmt.Errorf("%.60q: %w", s, err)
		}
	}
	return nil
}

// dropIndexes drops all indexes of a table and returns what makes them again: made at the end they
// cost a sort, kept they cost a random write a row. An index on what is random is as full as one
// that grew.
func dropIndexes(ctx context.Context, conn *pgx.Conn, table string) (again []string, err error) {
	rows, err := conn.Query(ctx, `SELECT i.indexrelid::regclass::text, c.conname,
		coalesce(pg_get_constraintdef(c.oid), pg_get_indexdef(i.indexrelid))
		FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid
		WHERE i.indrelid = $1::regclass ORDER BY c.conname IS NULL, 1`, table)
	if err != nil {
		return nil, err
	}
	var drops, resets []string
	var index, definition string
	var constraint *string
	_, err = pgx.ForEachRow(rows, []any{&index, &constraint, &definition}, func() error {
		if constraint == nil {
			drops = append(drops, "DROP INDEX "+index)
			again = append(again, definition)
			return nil
		}
		drops = append(drops, "ALTER TABLE "+table+" DROP CONSTRAINT "+*constraint)
		if strings.HasPrefix(definition, "UNIQUE (identity") {
			definition += fmt.Sprintf(" WITH (fillfactor = %d)", packed)
			resets = append(resets, "ALTER INDEX "+index+" RESET (fillfactor)")
		}
		again = append(again, "ALTER TABLE "+table+" ADD CONSTRAINT "+*constraint+" "+definition)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return append(again, resets...), perform(ctx, conn, drops...)
}

// copySource gives rows to COPY. It is a pgx.CopyFromSource.
type copySource struct {
	parts   <-chan part
	rows    []row
	current *row
	at      time.Time
	number  int64 // of the last callback
	values  func(*filledRow) []any
	err     error
}

// Next implements pgx.CopyFromSource.
func (c *copySource) Next() bool {
	for len(c.rows) == 0 {
		part, ok := <-c.parts
		if !ok || part.err != nil {
			c.err = part.err
			return false
		}
		c.rows = part.rows
	}
	c.current, c.rows = &c.rows[0], c.rows[1:]
	return true
}

// Err implements pgx.CopyFromSource.
func (c *copySource) Err() error { return c.err }

// Values implements pgx.CopyFromSource. Numbers of callbacks are even; that of an effect is the odd
// one behind its callback.
func (c *copySource) Values() ([]any, error) {
	r := c.current
	c.at = c.at.Add(100 * time.Microsecond)
	if r.Key != nil {
		c.number += 2
	}
	seq := c.number + int64(r.Kind) - 1
	out := filledRow{row: r, seq: seq, at: c.at, ended: c.at.Add(time.Millisecond)}
	if r.sweep {
		at := out.ended.Add(retention)
		out.sweepAt = &at
	}
	return c.values(&out), nil
}

// marks are what the index has of the parts of a key.
func marks(key []string) (out []int64) {
	for _, text := range key {
		sum := sha256.Sum256([]byte(text))
		out = append(out, int64(binary.BigEndian.Uint64(sum[:8])))
	}
	return out
}
