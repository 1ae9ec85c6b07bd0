package oncesqlite

import (
	"context"
	"fmt"
	"sync"
	"time"
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
