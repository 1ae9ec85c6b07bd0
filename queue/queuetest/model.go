package queuetest

import (
	"slices"
	"time"

	"github.com/oncekit/once/queue"
)

// maxLost is how many workers a row of the model may lose.
const maxLost = 3

// modelRow is a row as the model has it.
type modelRow struct {
	name     string
	id       string // its public id, as the store gave it
	key      string
	version  int
	state    queue.State
	cause    queue.Cause
	block    bool
	attempt  int
	lost     int
	conflict int64
	repeats  int64     // equal arrivals
	renews   bool      // its repeats are new after a while, and are counted at once
	last     time.Time // when the last arrival came
	tries    int       // that ended, or were lost, with no good result
	next     time.Time // due then, limit of the wait, or end of the lease; zero: now
	waits    []string
	passed   bool
	fence    int64
	suspect  bool
}

// model is a lane of rows in memory, as simple as it can be.
type model struct {
	now  time.Time
	rows []*modelRow // in the order of acceptance
}

// notice does what is due by time: ends of leases, of pauses and of waits.
func (m *model) notice() {
	for _, r := range m.rows {
		switch {
		case r.state == queue.Running && r.next.Before(m.now):
			m.lose(r)
		case r.state == queue.Pending && !r.next.After(m.now):
			r.next = time.Time{}
		case r.state == queue.Parked && !r.next.After(m.now):
			r.state, r.next, r.passed = queue.Pending, time.Time{}, true
		}
	}
}

// lose takes a row from a worker that is gone.
func (m *model) lose(r *modelRow) {
	r.state, r.next, r.suspect = queue.Pending, time.Time{}, false
	r.lost++
	r.tries++
}

// behind reports whether a row has to wait for another one of its key.
func (m *model) behind(r *modelRow) bool {
	if r.key == "" {
		return false
	}
	earlier := true
	for _, o := range m.rows {
		if o == r {
			earlier = false
			continue
		}
		if o.key != r.key {
			continue
		}
		if o.state == queue.Running || earlier && (o.state == queue.Pending || o.block) {
			return true
		}
	}
	return false
}

// lease takes up to max due rows.
func (m *model) lease(max int, d time.Duration) (out []*modelRow) {
	inHand := 0
	for _, r := range m.rows {
		if r.state == queue.Running {
			inHand++
			if r.suspect {
				return nil
			}
		}
	}
	for i := 0; i < len(m.rows) && len(out) < max; i++ {
		r := m.rows[i]
		if r.state != queue.Pending || !r.next.IsZero() || m.behind(r) {
			continue
		}
		if r.lost >= maxLost {
			m.giveUp(r, queue.Dead)
			r.cause = queue.CausePoison
			i = -1 // a row of its key, or a woken one, may be due before this place
			continue
		}
		if r.lost > 0 && len(out)+inHand > 0 {
			return out
		}
		r.state, r.next, r.suspect = queue.Running, m.now.Add(d), r.lost > 0
		r.attempt++
		out = append(out, r)
		if r.lost > 0 {
			return out
		}
	}
	return out
}

// settle applies what came of a try.
func (m *model) settle(r *modelRow, s *queue.Settlement) {
	r.suspect, r.next = false, time.Time{}
	if s.RetryIn > 0 {
		r.next = m.now.Add(s.RetryIn)
	}
	if s.NotTried {
		r.state, r.attempt = queue.Pending, r.attempt-1
		return
	}
	r.state, r.lost, r.cause = s.State, 0, s.DeadCause
	switch s.State {
	case queue.Pending, queue.Dead, queue.Held:
		r.tries++
	}
	if s.State == queue.Pending {
		return
	}
	r.block = s.Block && (s.State == queue.Dead || s.State == queue.Held)
	r.waits, r.passed = nil, false
	if s.State == queue.Parked {
		r.waits, r.next = s.Park.Waits, m.now.Add(s.Park.Limit)
	}
}

// giveUp ends a row that nobody works. A woken one hands its turn on.
func (m *model) giveUp(r *modelRow, s queue.State) {
	var turns []string
	if r.state == queue.Pending {
		turns = r.waits
	}
	r.state, r.next, r.waits, r.passed = s, time.Time{}, nil, false
	r.lost, r.block, r.cause = 0, false, ""
	for _, w := range turns {
		m.wake(w, true)
	}
}

// wake makes the parked rows of a wait due, or the first of them.
func (m *model) wake(wait string, first bool) {
	for _, r := range m.rows {
		if r.state == queue.Parked && slices.Contains(r.waits, wait) {
			r.state, r.next = queue.Pending, time.Time{}
			if first {
				return
			}
		}
	}
}

// makeDue makes a row due with its tries counted anew.
func (m *model) makeDue(r *modelRow) {
	r.state, r.next, r.passed = queue.Pending, time.Time{}, false
	r.attempt, r.lost, r.block, r.cause = 0, 0, false, ""
}

// newest returns the latest row of a name; nil: there is none.
func (m *model) newest(name string) *modelRow {
	for _, r := range slices.Backward(m.rows) {
		if r.name == name {
			return r
		}
	}
	return nil
}

// rowOf returns the row with a public id; nil: there is none.
func (m *model) rowOf(id string) *modelRow {
	i := slices.IndexFunc(m.rows, func(r *modelRow) bool { return r.id == id })
	if i < 0 {
		return nil
	}
	return m.rows[i]
}

// receive is what an arrival has to be told, and the row that it belongs to.
func (m *model) receive(name, key string, version int, replace bool, newAfter time.Duration) (
	*modelRow, queue.Outcome, bool) {
	r := m.newest(name)
	if r == nil || newAfter > 0 && m.now.Sub(r.last) > newAfter {
		r = &modelRow{name: name, key: key, version: version, state: queue.Pending, last: m.now}
		m.rows = append(m.rows, r)
		return r, queue.Accepted, false
	}
	r.last, r.renews = m.now, r.renews || newAfter > 0
	o, revived := m.repeat(r, version, replace)
	return r, o, revived
}

// repeat is what a repeat of a row has to be told.
func (m *model) repeat(r *modelRow, version int, replace bool) (queue.Outcome, bool) {
	switch {
	case r.version == version:
		r.repeats++
		revive := r.state == queue.Dead && r.cause == queue.CauseTransient
		if revive {
			m.makeDue(r)
		}
		return queue.Duplicate, revive
	case replace && r.state == queue.Dead && r.cause != queue.CausePoison &&
		r.cause != queue.CauseTransient && r.tries <= 1:
		m.makeDue(r)
		r.version = version
		r.conflict++
		return queue.Accepted, true
	}
	r.conflict++
	return queue.Conflict, false
}

// kill takes the rows from the workers of a process that is gone.
func (m *model) kill() {
	for _, r := range m.rows {
		if r.state == queue.Running {
			m.lose(r)
		}
	}
}
