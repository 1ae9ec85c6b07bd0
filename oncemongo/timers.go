package oncemongo

import (
	"github.com/oncekit/once/queue"
)

// timersPerCommit bounds the rows of a kind whose time has come, in one batch.
const timersPerCommit = 256

// housekeep does what is due by time, before what a batch is asked for.
func (t *txn) housekeep() error {
	if at := t.state.Timer; at == 0 || at > t.now {
		return nil
	}
	for _, k := range []queue.Kind{queue.Callback, queue.Effect} {
		if err := t.fireTimers(k); err != nil {
			return err
		}
		if err := t.endLeases(k); err != nil {
			return err
		}
	}
	if err := t.goOnWaking(); err != nil {
		return err
	}
	next, err := t.nextTimer()
	if err != nil {
		return err
	}
	t.set(func(s *turnState) { s.Timer = next })
	return nil
}

// fireTimers makes rows due whose backoff ended or whose wait came to its limit.
func (t *txn) fireTimers(k queue.Kind) error {
	rows, err := t.selectRows(rowQuery{Kind: k, NextBy: t.now, By: "next_at"}, timersPerCommit)
	if err != nil {
		return err
	}
	for _, r := range rows {
		t.change(r)
		if r.Phase == phaseParked {
			if t.now < t.state.WaitsEnd {
				r.NextAt = t.state.WaitsEnd
				continue
			}
			r.LimitPassed = true
			t.count(rowCounter(k, r.Source, queue.Parked), -1)
			t.count(rowCounter(k, r.Source, queue.Pending), 1)
		}
		r.setPhase(phaseReady)
		r.NextAt = 0
		t.ring(r.Lane)
	}
	return nil
}

// endLeases makes rows due again whose leases ended.
func (t *txn) endLeases(k queue.Kind) error {
	rows, err := t.selectRows(rowQuery{Kind: k, LeaseBy: t.now, By: "lease_until"},
		timersPerCommit)
	for _, r := range rows {
		if err := t.backToDue(r, "its lease ended before its worker said more"); err != nil {
			return err
		}
	}
	return err
}

// nextTimer is when something is due by time; 0: nothing waits for a time. What is left of a wake
// has no time: it is due.
func (t *txn) nextTimer() (next stamp, err error) {
	if len(t.state.Wakes) > 0 {
		return 1, nil
	}
	earlier := func(at stamp) {
		if at != 0 && (next == 0 || at < next) {
			next = at
		}
	}
	const ever = stamp(1) << 50
	for _, k := range []queue.Kind{queue.Callback, queue.Effect} {
		r, err := t.selectOne(rowQuery{Kind: k, NextBy: ever, By: "next_at"})
		if err != nil {
			return 0, err
		}
		if r != nil {
			earlier(r.NextAt)
		}
		r, err = t.selectOne(rowQuery{Kind: k, LeaseBy: ever, By: "lease_until"})
		if err != nil {
			return 0, err
		}
		if r != nil {
			earlier(r.LeaseUntil + 1)
		}
	}
	return next, nil
}
