package oncesqlite

import (
	"sync"
)

// bells tell who works a lane that rows became due. Safe for concurrent use.
type bells struct {
	mu     sync.Mutex
	byLane map[string]chan struct{}
}

func (b *bells) lane(name string) chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byLane == nil {
		b.byLane = map[string]chan struct{}{}
	}
	if b.byLane[name] == nil {
		b.byLane[name] = make(chan struct{}, 1)
	}
	return b.byLane[name]
}

func (b *bells) ring(name string) {
	select {
	case b.lane(name) <- struct{}{}:
	default: // it rings already
	}
}

// Notify returns the bell of a lane.
func (s *Store) Notify(lane string) <-chan struct{} { return s.bells.lane(lane) }
