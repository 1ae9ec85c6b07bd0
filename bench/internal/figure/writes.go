package figure

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once/bench/internal/peer"
	"github.com/oncekit/once/bench/internal/table"
	"github.com/oncekit/once/internal/testserver/postgres"
	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/oncesqlite"
	"github.com/oncekit/once/write"
)

const (
	// writtenRows is how many documents the latencies are measured over.
	writtenRows = 1000
	// writeSlice is how many calls of one kind follow each other: short, so that a disk whose
	// speed changes changes all of them.
	writeSlice = 20
	// writeBatch is how many events a batch has.
	writeBatch = 100
	accounts   = "CREATE TABLE accounts (id TEXT PRIMARY KEY, n BIGINT, name TEXT)"
	bareUpsert = "INSERT INTO accounts (id, name) VALUES ($1, $2) " +
		"ON CONFLICT (id) DO UPDATE SET name = excluded.name"
	bareIncrement = "INSERT INTO accounts (id, n) VALUES ($1, $2) " +
		"ON CONFLICT (id) DO UPDATE SET n = coalesce(accounts.n, 0) + excluded.n"
)

// writeTargets are what a writer here has.
func writeTargets() []write.Target { return []write.Target{{Name: "accounts"}} }

// writes measures what it costs that a write happens once, and whether it does.
func writes(ctx context.Context, b *Bench) error {
	if err := b.sqliteWrites(ctx); err != nil {
		return err
	}
	return b.postgresWrites(ctx)
}

func (b *Bench) sqliteWrites(ctx context.Context) (err error) {
	dir, done, err := b.fresh()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	db, err := peer.OpenDB(ctx, "sqlite3", filepath.Join(dir, "writes.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, accounts); err != nil {
		return err
	}
	w, err := oncesqlite.NewWriter(db, oncesqlite.WriterConfig{Targets: writeTargets()})
	if err != nil {
		return err
	}
	if err := w.Open(ctx); err != nil {
		return err
	}
	upsert, err := db.PrepareContext(ctx, bareUpsert)
	if err != nil {
		return err
	}
	increment, err := db.PrepareContext(ctx, bareIncrement)
	if err != nil {
		return err
	}
	bare := func(ctx context.Context, kind string, args ...any) error {
		stmt := map[string]*sql.Stmt{bareUpsert: upsert, bareIncrement: increment}[kind]
		_, err := stmt.ExecContext(ctx, args...)
		return err
	}
	if err := b.writeCosts(ctx, "writes.sqlite", w, bare); err != nil {
		return err
	}
	return b.sqliteSum(ctx, dir)
}

func (b *Bench) postgresWrites(ctx context.Context) (err error) {
	server, err := postgres.Start(postgres.Config{Durable: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	conf, err := pgxpool.ParseConfig(server.URL("postgres"))
	if err != nil {
		return err
	}
	conf.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(ctx, conf)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, accounts); err != nil {
		return err
	}
	w, err := oncepg.NewWriter(pool, oncepg.WriterConfig{Targets: writeTargets()})
	if err != nil {
		return err
	}
	if err := w.Open(ctx); err != nil {
		return err
	}
	bare := func(ctx context.Context, kind string, args ...any) error {
		_, err := pool.Exec(ctx, kind, args...)
		return err
	}
	if err := b.writeCosts(ctx, "writes.pg", w, bare); err != nil {
		return err
	}
	return b.postgresSum(ctx, server)
}

// timed is a kind of call, and how long each took.
type timed struct {
	call func(ctx context.Context, n int) error
	took []float64 // µs
}

// writeCosts measures all kinds of calls in turns. bare carries out an unprotected write.
func (b *Bench) writeCosts(
	ctx context.Context, name string, w write.Writer,
	bare func(ctx context.Context, sql string, args ...any) error,
) error {
	id := func(n int) string { return fmt.Sprint("account ", n%writtenRows) }
	once := func(part string, n int, c write.Change) error {
		e := write.Event{ID: fmt.Sprint(part, n), In: "accounts", Key: id(n), Change: c}
		_, err := w.Write(ctx, e)
		return err
	}
	add := write.Increment{By: write.Fields{"n": 1}}
	kinds := []*timed{
		{call: func(ctx context.Context, n int) error {
			return bare(ctx, bareUpsert, id(n), fmt.Sprint("name ", n))
		}},
		{call: func(_ context.Context, n int) error {
			name := fmt.Sprint("name ", n)
			return once("upsert ", n, write.Upsert{Set: write.Fields{"name": name}})
		}},
		{call: func(ctx context.Context, n int) error { return bare(ctx, bareIncrement, id(n), 1) }},
		{call: func(_ context.Context, n int) error { return once("increment ", n, add) }},
		{call: func(_ context.Context, n int) error { return once("increment ", n%writeSlice, add) }},
		{call: func(ctx context.Context, n int) error { return eventBatch(ctx, w, n) }},
	}
	warm := 2 * writtenRows
	for n := range warm {
		for _, k := range kinds[:4] {
			if err := k.call(ctx, n); err != nil {
				return err
			}
		}
	}
	for n, begun := warm, time.Now(); time.Since(begun) < 2*b.Phase; n += writeSlice {
		for i, k := range kinds {
			calls := writeSlice
			if i == len(kinds)-1 {
				calls = 1
			}
			for j := range calls {
				from := time.Now()
				if err := k.call(ctx, n+j); err != nil {
					return err
				}
				k.took = append(k.took, float64(time.Since(from))/float64(time.Microsecond))
			}
		}
	}
	var cost []float64
	for _, k := range kinds {
		cost = append(cost, table.Median(k.took))
	}
	b.add(name+"-upsert", cost[1]/cost[0])
	b.add(name+"-upsert-us", cost[1])
	b.add(name+"-increment", cost[3]/cost[2])
	b.add(name+"-increment-us", cost[3])
	b.add(name+"-repeat-us", cost[4])
	b.add(name+"-batch", cost[3]*writeBatch/cost[5])
	b.add(name+"-batch-rate", writeBatch*1e6/cost[5])
	b.logf("%s: upsert %.0f µs, bare %.0f; increment %.0f, bare %.0f; repeat %.0f; batch %.0f", name,
		cost[1], cost[0], cost[3], cost[2], cost[4], cost[5])
	return nil
}

// eventBatch writes increments of different documents at once.
func eventBatch(ctx context.Context, w write.Writer, n int) error {
	events := make([]write.Event, writeBatch)
	for i := range events {
		events[i] = write.Event{
			ID: fmt.Sprint("batch ", n, " ", i), In: "accounts",
			Key:    fmt.Sprint("account ", (n*7+i)%writtenRows),
			Change: write.Increment{By: write.Fields{"n": 1}},
		}
	}
	results, err := w.WriteAll(ctx, events)
	if err != nil {
		return err
	}
	for _, r := range results {
		if r.Err != nil || r.Outcome != write.Applied {
			return fmt.Errorf("%s of an event of a batch: %w", r.Outcome, r.Err)
		}
	}
	return nil
}
