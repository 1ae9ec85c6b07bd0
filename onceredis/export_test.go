package onceredis

import (
	"time"

	"github.com/oncekit/once"
)

// Advance moves the store's clock: what is added to the server's time.
func (s *Store) Advance(d time.Duration) { s.offset.Add(d.Microseconds()) }

// Key is the name of a record.
func (s *Store) Key(id once.Identity) string { return s.key(id) }
