package oncesqlite

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// health remembers how the last transaction went.
type health struct {
	mu  sync.Mutex
	at  int64
	err error
}

func (h *health) note(at int64, err error) {
	h.mu.Lock()
	h.at, h.err = at, err
	h.mu.Unlock()
}

// pingAfter is how old the last good transaction may be before Ping writes one of its own.
const pingAfter = time.Second

// Ping reports whether the store can be written: nil, or an error wrapping once.ErrUnavailable.
func (s *Store) Ping(ctx context.Context) error {
	s.health.mu.Lock()
	at, err := s.health.at, s.health.err
	s.health.mu.Unlock()
	if err == nil && s.clock.now()-at < pingAfter.Microseconds() {
		return nil
	}
	err = s.do(ctx, &op{run: func(t *txn) error { return t.setMeta(metaClock, t.now) }})
	if err != nil {
		return fmt.Errorf("write to the store: %w", unavailable(err))
	}
	return nil
}
