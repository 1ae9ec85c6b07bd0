package onceredis

import (
	"time"

	"github.com/oncekit/once"
)

// Advance moves the store's clock: what is added to the server's time.
func (s *Store) Advance(d time.Duration) { s.offset.Add(d.Microseconds()) }

// KeepClock gives a store the clock of the one before it.
func (s *Store) KeepClock(before *Store) { s.offset.Store(before.offset.Load()) }

// Key is the name of a record.
func (s *Store) Key(id once.Identity) string { return s.key(id) }
