package oncesqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// health remembers how the last transaction that wrote went.
type health struct {
	mu  sync.Mutex
	at  int64
	err error
}

// noteHealth remembers how a transaction went, and logs when the store is lost or found again. One
// that wrote nothing says nothing good: a full disk doesn't hinder it.
func (s *Store) noteHealth(err error, operations int, wrote bool) {
	if err == nil && !wrote {
		return
	}
	h := &s.health
	h.mu.Lock()
	before := h.err
	h.at, h.err = s.clock.now(), err
	h.mu.Unlock()
	switch {
	case err != nil && before == nil:
		s.cfg.Logger.Error("the store can't be written", "error", err, "operations", operations)
	case err == nil && before != nil:
		s.cfg.Logger.Info("the store can be written again")
	}
}

// littleRoom is the room on a disk, in bytes, below which it counts as full.
const littleRoom = 1 << 20

// withRoom adds to an error of the disk that it is full, if it is: SQLite calls that an I/O error.
func withRoom(path string, err error) error {
	if !storeFault(err) {
		return err
	}
	var disk unix.Statfs_t
	if unix.Statfs(filepath.Dir(path), &disk) != nil {
		return err
	}
	free := disk.Bavail * uint64(disk.Bsize)
	if free >= littleRoom {
		return err
	}
	return fmt.Errorf("%w: the disk is full (%d KiB free)", err, free>>10)
}

// pingAfter is how old the last good transaction may be before Ping writes one of its own.
const pingAfter = time.Second

// Ping reports whether the store can be written: nil, or an error wrapping once.ErrUnavailable.
func (s *Store) Ping(ctx context.Context) error {
	s.health.mu.Lock()
	at, err := s.health.at, s.health.err
	s.health.mu.Unlock()
	if err == nil && !s.closing() && s.clock.now()-at < pingAfter.Microseconds() {
		return nil
	}
	err = s.do(ctx, &op{run: func(t *txn) error { return t.setMeta(metaClock, t.now) }})
	if err != nil {
		return fmt.Errorf("write to the store: %w", unavailable(err))
	}
	return nil
}
