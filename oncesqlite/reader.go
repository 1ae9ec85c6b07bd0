package oncesqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// Reader tells what a store holds without having it: a server may go on with it meanwhile, and
// nothing is written. It is safe for concurrent use.
type Reader struct{ s *Store }

// OpenReader opens a store to read from. It returns [once.ErrNotFound] if there is none, and an
// error that says what to do for a file that is no store or a newer one, or a place where none can
// be.
func OpenReader(path string) (*Reader, error) {
	if err := checkPlace(path); err != nil {
		return nil, fmt.Errorf("read store %s: %w", path, err)
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read store %s: %w", path, once.ErrNotFound)
	}
	s := &Store{
		cfg: Config{Path: path, NoCreate: true, readOnly: true}, quit: make(chan struct{}),
		readers: make(chan *conn, 1),
	}
	empty, err := s.inspect()
	if err == nil && empty {
		err = errors.New("the file is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("read store %s: %w", path, err)
	}
	if err := makeFiles(path, false); err != nil && !errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("read store %s: %w", path, err)
	}
	c, err := openReader(s.dsn(), initReader)
	if err != nil {
		return nil, fmt.Errorf("read store %s: %w", path, err)
	}
	s.readers <- c
	s.opened = 1
	return &Reader{s}, nil
}

// Plan is [Store.Plan].
func (r *Reader) Plan(ctx context.Context) ([]byte, error) { return r.s.Plan(ctx) }

// EventInUse is [Store.EventInUse].
func (r *Reader) EventInUse(ctx context.Context, flow, event string) (bool, error) {
	return r.s.EventInUse(ctx, flow, event)
}

// Counts returns the counters that the store keeps, as of its last commit.
func (r *Reader) Counts(ctx context.Context) (queue.Counts, error) {
	n := map[counterKey]int64{}
	err := r.s.read(ctx, func(c *conn) error { return readCounts(c, n) })
	return countsOf(n), err
}

// RecordCounts is [Store.RecordCounts], as of the last commit.
func (r *Reader) RecordCounts(ctx context.Context) (map[once.RecordState]int64, error) {
	n := map[counterKey]int64{}
	err := r.s.read(ctx, func(c *conn) error { return readCounts(c, n) })
	return recordsOf(n), err
}

// Close lets go of the file. It is safe to call twice.
func (r *Reader) Close() error { return r.s.Close() }
