package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"
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

// riverQueue hands callbacks to river: a unique insert each.
type riverQueue struct {
	db             *sql.DB
	client         *river.Client[*sql.Tx]
	inserted, done atomic.Int64
}

func openRiver(ctx context.Context, dir string) (*riverQueue, error) {
	db, err := peer.OpenDB(ctx, "sqlite", filepath.Join(dir, "river.db"))
	if err != nil {
		return nil, err
	}
	q := &riverQueue{db: db}
	if err := q.open(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return q, nil
}

func (q *riverQueue) open(ctx context.Context) error {
	driver := riversqlite.New(q.db)
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

func (q *riverQueue) accept(ctx context.Context, c peer.Callback) error {
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

// backlog is how many jobs were inserted and not worked.
func (q *riverQueue) backlog() int64 { return q.inserted.Load() - q.done.Load() }

// run works jobs until ctx ends.
func (q *riverQueue) run(ctx context.Context) error {
	defer q.db.Close()
	if err := q.client.Start(ctx); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	<-q.client.Stopped()
	return nil
}
