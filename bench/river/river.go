package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	_ "modernc.org/sqlite" // registers "sqlite", the library that river's driver is tested with

	"github.com/oncekit/once/bench/internal/peer"
)

// Settings of river: of those that were tried, the ones with which it is fastest here.
const (
	riverWorkers  = 500
	riverCooldown = 5 * time.Millisecond
	riverPoll     = 50 * time.Millisecond
)

// callbackArgs is a job of river. Its unique part is the three parts of the key.
type callbackArgs struct {
	ReqCode  string `json:"reqCode" river:"unique"`
	TaskCode string `json:"taskCode" river:"unique"`
	Method   string `json:"callbackMethod" river:"unique"`
}

// Kind names the job.
func (callbackArgs) Kind() string { return "callback" }

// noop works a job by doing nothing.
type noop struct {
	river.WorkerDefaults[callbackArgs]
	done *atomic.Int64
}

// Work implements river.Worker.
func (w *noop) Work(context.Context, *river.Job[callbackArgs]) error {
	w.done.Add(1)
	return nil
}

// queue is river over one kind of database.
type queue interface {
	// accept inserts a callback, unique by the three parts of its key.
	accept(context.Context, peer.Callback) error
	// run works jobs until ctx ends.
	run(context.Context) error
	// counts are how many jobs were inserted, and how many of them were worked.
	counts() (inserted, done int64)
}

// riverQueue hands callbacks to river: a unique insert each.
type riverQueue[TTx any] struct {
	client         *river.Client[TTx]
	work           bool
	release        func() error // gives the database back
	inserted, done atomic.Int64
}

// openSQLite opens a store in a file in dir.
func openSQLite(ctx context.Context, dir string, work bool) (queue, error) {
	db, err := peer.OpenDB(ctx, "sqlite", filepath.Join(dir, "river.db"))
	if err != nil {
		return nil, err
	}
	return open(ctx, riversqlite.New(db), work, db.Close)
}

// openPostgres opens a store in an empty database. pool_max_conns in the URL is how many
// connections there are.
func openPostgres(ctx context.Context, url string, work bool) (queue, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	return open(ctx, riverpgxv5.New(pool), work, func() error {
		pool.Close()
		return nil
	})
}

// open makes river's tables and its client. work is whether jobs are worked.
func open[TTx any](ctx context.Context, driver riverdriver.Driver[TTx], work bool,
	release func() error) (queue, error) {
	q := &riverQueue[TTx]{work: work, release: release}
	if err := q.open(ctx, driver); err != nil {
		return nil, errors.Join(err, release())
	}
	return q, nil
}

func (q *riverQueue[TTx]) open(ctx context.Context, driver riverdriver.Driver[TTx]) error {
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return fmt.Errorf("make migrator: %w", err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	workers := river.NewWorkers()
	if err := river.AddWorkerSafely(workers, &noop{done: &q.done}); err != nil {
		return fmt.Errorf("add worker: %w", err)
	}
	q.client, err = river.NewClient(driver, &river.Config{
		Queues: map[string]river.QueueConfig{
			river.QueueDefault: {MaxWorkers: riverWorkers},
		},
		FetchCooldown:     riverCooldown,
		FetchPollInterval: riverPoll,
		Workers:           workers,
	})
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	return nil
}

func (q *riverQueue[TTx]) accept(ctx context.Context, c peer.Callback) error {
	res, err := q.client.Insert(ctx, callbackArgs{c.ReqCode, c.TaskCode, c.Method},
		&river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}})
	if err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	if !res.UniqueSkippedAsDuplicate {
		q.inserted.Add(1)
	}
	return nil
}

func (q *riverQueue[TTx]) counts() (inserted, done int64) {
	return q.inserted.Load(), q.done.Load()
}

func (q *riverQueue[TTx]) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, q.release()) }()
	if !q.work {
		<-ctx.Done()
		return nil
	}
	if err := q.client.Start(ctx); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	<-q.client.Stopped()
	return nil
}
