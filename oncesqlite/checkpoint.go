package oncesqlite

import (
	"time"

	"github.com/ncruces/go-sqlite3"
)

const (
	// checkpointEvery is how often the WAL's length is looked at.
	checkpointEvery = 100 * time.Millisecond
	// checkpointPages is the length from which it is written back, beside the writer.
	checkpointPages = 12000
	// checkpointForce is the length from which the writer itself writes the rest back, so that
	// the WAL starts anew: under a load without a pause there is always a rest.
	checkpointForce = 64 << 10
)

// checkpoint writes the WAL back on a connection of its own, so that no acknowledgement waits for it.
func (s *Store) checkpoint() {
	var c *conn
	defer func() {
		if c != nil {
			s.logIf("close the checkpoint connection", c.close())
		}
	}()
	tick := time.NewTicker(checkpointEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-tick.C:
		}
		if s.walPages.Load() < s.cfg.checkpointPages {
			continue
		}
		if c == nil {
			var err error
			if c, err = openReader(s.dsn(), checkpointPragmas); err != nil {
				s.logIf("open the checkpoint connection", err)
				continue
			}
		}
		total, back, err := c.raw.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE)
		if err != nil {
			s.logIf("checkpoint", err)
			s.logIf("close the checkpoint connection", c.close())
			c = nil
			continue
		}
		if total == back {
			s.walPages.Store(0) // the next transaction starts the WAL anew
		}
	}
}

func checkpointPragmas(c *sqlite3.Conn) error {
	return pragmas(c, []string{"PRAGMA busy_timeout=1000", "PRAGMA cache_size=-512"})
}

// forceCheckpoint is called by the writer between two transactions.
func (s *Store) forceCheckpoint() {
	if s.damaged || s.walPages.Load() < checkpointForce {
		return
	}
	_, _, err := s.w.raw.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE)
	s.logIf("checkpoint", err)
}

func (s *Store) logIf(what string, err error) {
	if err != nil {
		s.cfg.Logger.Warn(what, "error", err)
	}
}
