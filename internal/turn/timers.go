package turn

import (
	"github.com/oncekit/once/queue"
)

// timersPerCommit bounds the rows whose time has come, in one batch.
const timersPerCommit = 256

// Housekeep does what is due by time, before what a batch is asked for.
func (t *Batch) Housekeep() error {
	if at := t.state.Timer; at == 0 || at > t.now {
		return nil
	}
	if err := t.fireTimers(); err != nil {
		return err
	}
	if err := t.endLeases(); err != nil {
		return err
	}
	if err := t.goOnWaking(); err != nil {
		return err
	}
	next, err := t.nextTimer()
	if err != nil {
		return err
	}
	t.set(func(s *State) { s.Timer = next })
	return nil
}

// fireTimers makes rows due whose backoff ended or whose wait came to its limit.
func (t *Batch) fireTimers() error {
	rows, err := t.selectRows(RowQuery{NextBy: t.now, By: ByNext}, timersPerCommit)
	if err != nil {
		return err
	}
	for _, r := range rows {
		t.change(r)
		if r.Phase == Parked {
			if t.now < t.state.WaitsEnd {
				r.NextAt = t.state.WaitsEnd
				continue
			}
			r.LimitPassed = true
			t.count(RowCounter(r.Kind(), r.Source, queue.Parked), -1)
			t.count(RowCounter(r.Kind(), r.Source, queue.Pending), 1)
		}
		r.SetPhase(Ready)
		r.NextAt = 0
		t.ring(r.Lane)
	}
	return nil
}

// endLeases makes rows due again whose leases ended.
func (t *Batch) endLeases() error {
	rows, err := t.selectRows(RowQuery{LeaseBy: t.now, By: ByLease}, timersPerCommit)
	for _, r := range rows {
		if err := t.backToDue(r, "its lease ended before its worker said more"); err != nil {
			return err
		}
	}
	return err
}

// nextTimer is when something is due by time; 0: nothing waits for a time. What is left of a wake
// has no time: it is due.
func (t *Batch) nextTimer() (next Stamp, err error) {
	if len(t.state.Wakes) > 0 {
		return 1, nil
	}
	earlier := func(at Stamp) {
		if at != 0 && (next == 0 || at < next) {
			next = at
		}
	}
	const ever = Stamp(1) << 47 // in the year 6429: a database holds it
	r, err := t.selectOne(RowQuery{NextBy: ever, By: ByNext})
	if err != nil {
		return 0, err
	}
	if r != nil {
		earlier(r.NextAt)
	}
	r, err = t.selectOne(RowQuery{LeaseBy: ever, By: ByLease})
	if err != nil {
		return 0, err
	}
	if r != nil {
		earlier(r.LeaseUntil + 1)
	}
	return next, nil
}
