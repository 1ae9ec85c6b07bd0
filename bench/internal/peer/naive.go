package peer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver" // registers "sqlite3", the library that once uses too
)

// Bounds of a group of the naive peer.
const (
	groupRows = 256
	groupWait = 2 * time.Millisecond
)

// naive commits groups of callbacks through database/sql.
type naive struct {
	db   *sql.DB
	jobs chan job
}

type job struct {
	c    Callback
	done chan error
}

// openNaive opens a store with a unique index on the three parts of the key.
func openNaive(ctx context.Context, dir string) (*naive, error) {
	db, err := OpenDB(ctx, "sqlite3", filepath.Join(dir, "naive.db"))
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `CREATE TABLE callbacks (
		id INTEGER PRIMARY KEY, req TEXT NOT NULL, task TEXT NOT NULL, method TEXT NOT NULL,
		at INTEGER NOT NULL, body BLOB NOT NULL, UNIQUE (req, task, method))`)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create table: %w", err), db.Close())
	}
	return &naive{db: db, jobs: make(chan job, 4*groupRows)}, nil
}

// OpenDB opens a SQLite file with one connection, in WAL mode, each commit flushed. driver is the name
// of a driver of database/sql that reads pragmas from the address: ncruces' or modernc's.
func OpenDB(ctx context.Context, driver, path string) (*sql.DB, error) {
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: url.Values{
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)"},
		"_txlock": {"immediate"},
	}.Encode()}
	db, err := sql.Open(driver, u.String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	var mode string
	var level int
	err = errors.Join(db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode),
		db.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&level))
	const full = 2
	if err == nil && (mode != "wal" || level != full) {
		err = fmt.Errorf("journal mode %s, synchronous %d", mode, level)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), db.Close())
	}
	return db, nil
}

// accept waits until the callback's group is committed.
func (n *naive) accept(ctx context.Context, c Callback) error {
	j := job{c, make(chan error, 1)}
	select {
	case n.jobs <- j:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run commits groups until ctx ends.
func (n *naive) run(ctx context.Context) error {
	defer n.db.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case first := <-n.jobs:
			group := n.gather(first)
			err := n.commit(ctx, group)
			for _, j := range group {
				j.done <- err
			}
		}
	}
}

func (n *naive) gather(first job) []job {
	group := append(make([]job, 0, groupRows), first)
	limit := time.NewTimer(groupWait)
	defer limit.Stop()
	for len(group) < groupRows {
		select {
		case j := <-n.jobs:
			group = append(group, j)
		case <-limit.C:
			return group
		}
	}
	return group
}

func (n *naive) commit(ctx context.Context, group []job) error {
	tx, err := n.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback()
	insert, err := tx.PrepareContext(ctx, `INSERT INTO callbacks (req, task, method, at, body)
		VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
	if err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	defer insert.Close()
	at := time.Now().UnixMicro()
	for _, j := range group {
		if _, err := insert.ExecContext(ctx, j.c.ReqCode, j.c.TaskCode, j.c.Method, at,
			j.c.Body); err != nil {
			return fmt.Errorf("insert: %w", err)
		}
	}
	return tx.Commit()
}
