package oncesqlite

import (
	"time"

	"github.com/oncekit/once/queue"
)

// Bounds of what is done beside the operations of a transaction.
const (
	// timersPerCommit bounds the rows whose time has come.
	timersPerCommit = 256
	// idleTick is how often the writer looks around when nothing happens.
	idleTick = time.Second
	// mendEvery is how often a store is tried that can't be written, while nobody asks for it.
	mendEvery = 250 * time.Millisecond
)

// untilHousekeeping returns how long the writer may sleep.
func (s *Store) untilHousekeeping() time.Duration {
	if s.damaged || s.present.gone.Load() {
		return mendEvery
	}
	now := s.clock.now()
	wait := idleTick
	if s.nextTimer != 0 {
		wait = min(wait, time.Duration(s.nextTimer-now)*time.Microsecond)
	}
	if since := s.notes.oldest(); since != 0 {
		wait = min(wait, notesDelay-time.Duration(now-since)*time.Microsecond)
	}
	return max(wait, 0)
}

// housekeep does what is due, in the transaction of whatever else is done.
func (s *Store) housekeep(t *txn) error {
	if s.mended {
		if err := t.reconcile(); err != nil {
			return err
		}
	}
	if s.nextTimer != 0 && s.nextTimer <= t.now {
		if err := t.fireTimers(); err != nil {
			return err
		}
		if err := t.goOnWaking(); err != nil {
			return err
		}
	}
	for _, seq := range s.expired(t.lap) {
		err := t.backToDue(seq, true, "its lease ended before its worker said more")
		if err != nil {
			return err
		}
	}
	if s.notes.due(t.now) {
		return s.notes.flush(t, notesPerCommit)
	}
	return nil
}

// oldest returns when the oldest repeat came that is not written; 0: there is none.
func (n *notes) oldest() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.order) == 0 {
		return 0
	}
	return n.bySeq[n.order[0]].first[0].at
}

// due reports whether repeats have waited long enough, or are many.
func (n *notes) due(now int64) bool {
	since := n.oldest()
	return since != 0 && now-since >= notesDelay.Microseconds() || n.len() > maxNotes/2
}

// fireTimers makes rows due whose backoff ended or whose wait came to its limit.
func (t *txn) fireTimers() error {
	t.timers = true
	type timed struct {
		seq, lane int64
		phase     phase
		kind      queue.Kind
		source    string
	}
	var rows []timed
	err := t.c.query("SELECT seq, lane, phase, kind, source FROM rows WHERE next_at <= ? "+
		"ORDER BY next_at LIMIT ?", func(r *stmt) error {
		rows = append(rows, timed{r.int(0), r.int(1), r.phase(2), queue.Kind(r.int(3)), r.text(4)})
		return nil
	}, t.now, timersPerCommit)
	if err != nil {
		return err
	}
	for _, r := range rows {
		flag := 0
		if r.phase == phaseParked && t.now < t.s.waitsEnd {
			err := t.c.exec("UPDATE rows SET next_at = ? WHERE seq = ?", t.s.waitsEnd, r.seq)
			if err != nil {
				return err
			}
			continue
		}
		if r.phase == phaseParked {
			flag = flagLimitPassed
			t.count(rowCounter(r.kind, r.source, queue.Parked), -1)
			t.count(rowCounter(r.kind, r.source, queue.Pending), 1)
		}
		err := t.c.exec("UPDATE rows SET phase = 0, next_at = NULL, flags = flags | ? "+
			"WHERE seq = ?", flag, r.seq)
		if err != nil {
			return err
		}
		t.ring(r.lane)
	}
	return nil
}

// firstTimer is the time of the next timer. What is left of a wake has no time: it is due.
const firstTimer = `SELECT CASE WHEN EXISTS (SELECT 1 FROM wakes) THEN 1
	ELSE (SELECT min(next_at) FROM rows WHERE next_at IS NOT NULL) END`

// loadTimers finds the time of the next timer.
func (s *Store) loadTimers() {
	if err := s.loadTimersErr(); err != nil {
		s.cfg.Logger.Error("read the next timer", "error", err)
		s.nextTimer = s.clock.now() + time.Second.Microseconds()
	}
}

func (s *Store) loadTimersErr() (err error) {
	s.nextTimer, err = s.w.int(firstTimer)
	return err
}
