package oncesqlite

import (
	"errors"
	"time"

	"github.com/ncruces/go-sqlite3"
)

const (
	// checkpointEvery is how often the WAL's length is looked at.
	checkpointEvery = 100 * time.Millisecond
	// checkpointPages is the length from which it is written back, beside the writer.
	checkpointPages = 32000
	// checkpointForce is the length from which the writer itself writes the rest back, so that
	// the WAL starts anew: under a load without a pause there is always a rest.
	checkpointForce = 64 << 10
	// restartWait bounds the writer's wait for readers then; acknowledgements wait as long.
	restartWait = 100 * time.Millisecond
	// busyWait is the wait for a lock otherwise. Nobody but a program of somebody else has one.
	busyWait = 10 * time.Second
)

// checkpoint writes the WAL back on a connection of its own, so that no acknowledgement waits for
// it.
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
		c = s.writeBack(c)
	}
}

// writeBack writes the WAL back over a connection, which it opens if there is none, and returns the
// connection for the next time; nil: it is closed.
func (s *Store) writeBack(c *conn) *conn {
	if c == nil {
		var err error
		if c, err = openReader(s.writerDSN(), s.initCheckpoint); err != nil {
			s.logIf("open the checkpoint connection", err)
			return nil
		}
	}
	s.writesBack.Lock()
	defer s.writesBack.Unlock()
	if s.flusher.hole.Load() { // what is behind it must not come into the file
		return c
	}
	total, back, err := c.raw.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE)
	switch {
	case errors.Is(err, sqlite3.BUSY): // somebody else writes it back: looked at again
	case err != nil:
		s.logIf("checkpoint", err)
		s.logIf("close the checkpoint connection", c.close())
		return nil
	case total == back:
		s.walPages.Store(0) // unless it grew meanwhile, the next transaction starts it anew
	}
	return c
}

func (s *Store) initCheckpoint(c *sqlite3.Conn) error {
	err := pragmas(c, []string{"PRAGMA busy_timeout=1000", "PRAGMA cache_size=-512"})
	if err != nil {
		return err
	}
	if s.cfg.Synchronous != "FULL" {
		return nil // it is not our VFS
	}
	f, err := paceOf(c)
	if err != nil {
		return err
	}
	f.hurry = func() bool { // the WAL grows faster than that
		return s.walPages.Load() > 2*s.cfg.checkpointPages || s.closing()
	}
	return nil
}

// forceCheckpoint is called by the writer between two transactions. Where somebody always reads,
// the WAL would never start anew by itself: so the writer waits a moment for those who read what is
// in it. Those who begin meanwhile read the file. One who reads for long, such as a backup, is not
// waited for again before the WAL has grown by a part.
func (s *Store) forceCheckpoint() {
	pages := s.walPages.Load()
	if pages < s.cfg.forcePages {
		s.forceAt = s.cfg.forcePages
	}
	if s.damaged || s.flusher.hole.Load() || pages < s.forceAt || !s.writesBack.TryLock() {
		return
	}
	defer s.writesBack.Unlock()
	s.logIf("shorten the wait for readers", s.w.raw.BusyTimeout(restartWait))
	_, _, err := s.w.raw.WALCheckpoint("main", sqlite3.CHECKPOINT_RESTART)
	s.logIf("lengthen the wait for readers", s.w.raw.BusyTimeout(busyWait))
	switch {
	case err == nil:
		s.walPages.Store(0)
		return
	case !errors.Is(err, sqlite3.BUSY):
		s.logIf("checkpoint", err)
	}
	s.forceAt = pages + s.cfg.forcePages/8
}

func (s *Store) logIf(what string, err error) {
	if err != nil {
		s.cfg.Logger.Warn(what, "error", err)
	}
}
