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

// copied are the columns of a row that are written; the others have their defaults.
func copied() []string {
	return []string{"seq", "kind", "identity", "phase", "lane", "order_key", "attempt",
		"retention_ms", "keep_body_ms", "received_at", "started_at", "finished_at", "sweep_at",
		"source", "event", "flow", "task", "key", "key_marks", "cause", "peer", "error",
		"dead_cause", "fingerprint", "fence"}
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
	indexes, err := dropIndexes(ctx, conn, "once.queue_rows")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the producer
	p := &producer{plan: Plan(), scope: scope, out: make(chan part, 4)}
	go p.produce(ctx, func(p *producer) error { return remembered(ctx, p, n) })
	rows := &copySource{parts: p.out, at: time.Now().Add(-24 * time.Hour)}
	_, err = conn.CopyFrom(ctx, pgx.Identifier{"once", "queue_rows"}, copied(), rows)
	if err != nil {
		return err
	}
	return perform(ctx, conn, append(append(indexes, `INSERT INTO once.tasks (flow, task, n, state,
			version, gone, final, retention_ms, created_at, since_at, updated_at, sweep_at)
		SELECT flow, task, seq + 1, 'finished', 5, true, true, retention_ms, received_at, received_at,
			received_at, received_at + retention_ms * interval '1 millisecond'
		FROM once.queue_rows WHERE kind = 1 AND event = '`+p.plan.Events[0]+`'`),
		`INSERT INTO once.counters (what, source, state, slot, n)
		SELECT CASE kind WHEN 1 THEN 'callback' ELSE 'effect' END, source, phase, '', count(*)
		FROM once.queue_rows GROUP BY kind, source, phase`,
		`SELECT setval('once.queue_numbers', (SELECT max(seq) / 2 + 1 FROM once.queue_rows))`,
		"VACUUM (FREEZE, ANALYZE)", "CHECKPOINT")...)
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
	ended := c.at.Add(time.Millisecond)
	var sweep *time.Time
	if r.sweep {
		at := ended.Add(retention)
		sweep = &at
	}
	return []any{seq, int16(r.Kind), r.Identity[:], string(r.State), r.Lane, r.OrderKey, int32(1),
		retention.Milliseconds(), int64(1), c.at, ended, ended, sweep, r.Source, r.Event, r.Flow,
		r.Task, r.Key, marks(r.Key), r.Cause, r.peer, r.Error, string(r.DeadCause), r.fp,
		int64(1)}, nil
}

// marks are what the index has of the parts of a key.
func marks(key []string) (out []int64) {
	for _, text := range key {
		sum := sha256.Sum256([]byte(text))
		out = append(out, int64(binary.BigEndian.Uint64(sum[:8])))
	}
	return out
}
