package oncesqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/oncekit/once"
)

const (
	// defaultMaxOutcome and largestOutcome bound the data of an outcome, in bytes. SQLite itself
	// takes no more than 1,000,000,000.
	defaultMaxOutcome = 16 << 20
	largestOutcome    = 512 << 20
	// sweepBytes bounds the data that one sweep frees, beside one record of any size: SQLite goes
	// through all of its pages.
	sweepBytes = 8 << 20
	// lapseLooks bounds the attempts in flight that a sweep looks at.
	lapseLooks = 256
)

// Sweep implements [once.Sweeper]. [Store.Sweep] does the same beside its own work: whoever calls
// that one need not call this one. Otherwise [once.RunSweeper] does it: without, the file keeps
// what is past its retention. One call removes at most 256 records.
func (r *Records) Sweep(ctx context.Context, limit int) (int, error) {
	if limit < 1 {
		return 0, fmt.Errorf("sweep records: limit %d, want at least 1", limit)
	}
	n := new(int)
	err := ctx.Err()
	if err == nil {
		err = r.s.do(ctx, &op{leave: true, run: func(t *txn) (err error) {
			*n, err = t.sweepRecords(min(limit, maxSweep))
			return err
		}})
	}
	if err != nil {
		return 0, fmt.Errorf("sweep records: %w", unavailable(err))
	}
	return *n, nil
}

// sweepRecords removes records past their retention, and writes which attempts are lost by now.
func (t *txn) sweepRecords(limit int) (int, error) {
	if limit < 1 {
		return 0, nil
	}
	if err := t.lapseRecords(); err != nil {
		return 0, err
	}
	type old struct {
		seq, fence int64
		state      recordState
		id         once.Identity
	}
	var records []old
	bytes := int64(0)
	err := t.c.query("SELECT seq, fence, state, identity, coalesce(length(outcome), 0) "+
		"FROM records WHERE expires_at <= ? ORDER BY expires_at LIMIT ?", func(r *stmt) error {
		if bytes >= sweepBytes {
			return nil
		}
		o := old{seq: r.int(0), fence: r.int(1), state: recordState(r.int(2))}
		copy(o.id[:], r.raw.ColumnRawBlob(3))
		records, bytes = append(records, o), bytes+r.int(4)
		return nil
	}, t.now, limit)
	if err != nil || len(records) == 0 {
		return 0, err
	}
	own := &t.s.records
	for _, o := range records {
		if err := t.c.exec("DELETE FROM records WHERE seq = ?", o.seq); err != nil {
			return 0, err
		}
		own.forgotten = max(own.forgotten, o.fence)
		t.countRecord(o.state, -1)
		t.forgetOutcome(o.id)
	}
	if err := t.setMeta(metaFence, own.forgotten); err != nil {
		return 0, err
	}
	return len(records), t.setMeta(metaClock, t.now)
}

// lapseRecords writes of some attempts that they are lost because their lease ended. Nothing
// follows from that but that the kept counters tell it, and that those in flight stay few.
func (t *txn) lapseRecords() error {
	own := &t.s.records
	var lapsed []*record
	looks := 0
	err := t.c.query("SELECT seq, lease_end, on_unknown FROM records "+
		"WHERE state <> 2 AND state = 1 AND seq > ? ORDER BY seq LIMIT ?", func(r *stmt) error {
		looks++
		own.lapse = r.int(0)
		if r.int(1) <= t.lap {
			lapsed = append(lapsed, &record{seq: r.int(0), onUnknown: once.OnUnknown(r.int(2))})
		}
		return nil
	}, own.lapse, lapseLooks)
	if looks < lapseLooks {
		own.lapse = 0
	}
	for _, row := range lapsed {
		if err == nil {
			state := lostState(row.onUnknown)
			t.countRecord(recInFlight, -1)
			t.countRecord(state, 1)
			err = t.c.exec("UPDATE records SET state = ? WHERE seq = ?", int64(state), row.seq)
		}
	}
	return err
}

// loseRecords ends the attempts of an earlier process. Whatever they had in their hands is lost.
func (t *txn) loseRecords() error {
	return t.c.query("UPDATE records SET state = 4 + on_unknown, finished_at = min(lease_end, ?) "+
		"WHERE state <> 2 AND state = 1 RETURNING state", func(r *stmt) error {
		t.countRecord(recInFlight, -1)
		t.countRecord(recordState(r.int(0)), 1)
		return nil
	}, t.now)
}

// loadRecords reads what is kept in memory of records.
func (s *Store) loadRecords() (err error) {
	s.records.forgotten, err = s.metaInt(metaFence)
	s.records.lapse = 0
	return err
}

func (t *txn) countRecord(state recordState, n int64) {
	t.count(counterKey{recordCounts, "", string(state.name())}, n)
}

// Counts returns how many records there are in each state, as of the last commit: counters that are
// kept, also of records that are past their retention and not swept. An attempt whose lease ended
// counts as in flight until it is asked for or a sweep has come to it.
func (r *Records) Counts() map[once.RecordState]int64 {
	c := &r.s.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	return recordsOf(c.n)
}

// micro is a span of microseconds.
func micro(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
