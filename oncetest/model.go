package oncetest

import (
	"fmt"
	"time"

	"github.com/oncekit/once"
)

// model is what a store has to do, in its shortest form: no concurrency, no limits, time as a
// number that the walk moves. It answers in words, which are compared with the store's.
type model struct {
	now     time.Duration // since the walk began
	records map[int]*modelRecord
}

type modelState byte

const (
	modelInFlight modelState = iota
	modelCompleted
	modelReleased
	modelUnknown
)

type modelRecord struct {
	changed   bool // which of two requests it is of
	state     modelState
	hold      bool
	owner     once.Owner // zero: a person decided since
	fence     int64      // the highest that is known
	attempt   int
	everLost  bool
	leaseEnd  time.Duration
	retention time.Duration
	last      time.Duration // arrival that counts, or the end of the work
	outcome   once.Outcome
}

// The answers in words.
const (
	saysGranted   = "granted"
	saysTaken     = "granted as a takeover"
	saysMismatch  = "mismatch"
	saysInFlight  = "in flight"
	saysHeld      = "held"
	saysLeaseLost = "lease lost"
	saysNotFound  = "not found"
	saysState     = "not in this state"
	saysDone      = "done"
)

func saysReplay(o once.Outcome) string { return fmt.Sprintf("replay of %d %q", o.Kind, o.Data) }

func (r *modelRecord) lost(now time.Duration) bool {
	return r.state == modelUnknown || r.state == modelInFlight && now >= r.leaseEnd
}

func (r *modelRecord) mortal() bool {
	return r.state == modelCompleted || r.state == modelReleased
}

// forgettable reports whether a store may forget the record by a time, because its lease will have
// ended under retry for so long. The walk then says before that it is lost: so it stays.
func (r *modelRecord) forgettable(by time.Duration) bool {
	return r.state == modelInFlight && !r.hold && by >= r.leaseEnd+r.retention
}

// get returns the record of an identity; nil if it is absent or past its retention.
func (m *model) get(id int) *modelRecord {
	r := m.records[id]
	if r != nil && r.mortal() && m.now >= r.last+r.retention {
		delete(m.records, id)
		return nil
	}
	return r
}

func (m *model) claim(id int, changed bool, c once.Claim) string {
	r := m.get(id)
	says := saysGranted
	switch {
	case r == nil:
		r = &modelRecord{changed: changed}
		m.records[id] = r
	case r.changed != changed:
		return saysMismatch
	case r.state == modelCompleted:
		r.last = m.now
		return saysReplay(r.outcome)
	case r.state == modelReleased:
	case !r.lost(m.now):
		if r.owner == c.Owner {
			return saysGranted // the same; the walk compares it
		}
		return saysInFlight
	case r.hold || c.OnUnknown == once.Hold:
		r.hold = true
		return saysHeld
	default:
		says = saysTaken
		r.everLost = true
	}
	r.state, r.owner, r.hold = modelInFlight, c.Owner, c.OnUnknown == once.Hold
	r.leaseEnd, r.retention = m.now+c.Lease, c.Retention
	r.attempt++
	return says
}

// owned returns the record that a grant is of; nil if it is somebody else's by now.
func (m *model) owned(id int, g once.Grant) *modelRecord {
	r := m.get(id)
	if r == nil || r.owner != g.Owner || r.fence != g.Fence {
		return nil
	}
	return r
}

func (m *model) complete(id int, g once.Grant, o once.Outcome) string {
	r := m.owned(id, g)
	switch {
	case r == nil || r.state == modelReleased:
		return saysLeaseLost
	case r.state == modelCompleted:
		return saysDone
	case o.Kind == once.Unknown:
		r.state = modelUnknown
		return saysDone
	}
	r.state, r.outcome, r.last = modelCompleted, o, m.now
	return saysDone
}

func (m *model) release(id int, g once.Grant) string {
	r := m.owned(id, g)
	switch {
	case r == nil || r.state == modelCompleted:
		return saysLeaseLost
	case r.state == modelReleased:
		return saysDone
	}
	r.state, r.last = modelReleased, m.now
	return saysDone
}

// renew is asked only while it is clear whether the lease runs.
func (m *model) renew(id int, g once.Grant, lease time.Duration) string {
	r := m.owned(id, g)
	if r == nil || r.state != modelInFlight {
		return saysLeaseLost
	}
	r.leaseEnd = m.now + lease
	return saysDone
}

func (m *model) resolve(id int, res once.Resolution) string {
	r := m.get(id)
	if r == nil {
		return saysNotFound
	}
	possible := res.Decision == once.ReleaseDone && r.state == modelCompleted ||
		(res.Decision == once.RunAgain || res.Decision == once.AnswerWith) && r.lost(m.now)
	if !possible || res.Fence != 0 && res.Fence != r.fence {
		return saysState
	}
	r.everLost = r.everLost || res.Decision == once.RunAgain
	r.state, r.last, r.owner = modelReleased, m.now, once.Owner{}
	if res.Decision == once.AnswerWith {
		r.state, r.outcome = modelCompleted, res.Outcome
	}
	return saysDone
}

// state is what people see of a record; empty: it isn't there.
func (m *model) state(id int) once.RecordState {
	r := m.get(id)
	switch {
	case r == nil:
		return ""
	case r.state == modelCompleted:
		return once.Completed
	case r.state == modelReleased:
		return once.Released
	case !r.lost(m.now):
		return once.InFlight
	case r.hold:
		return once.Held
	}
	return once.Lost
}

// unclear reports whether a store could be of two minds now: near the end of a lease, or while it
// may remember a little longer than it has to.
func (m *model) unclear() bool {
	const near = time.Minute // above what a clock that moves by itself has moved meanwhile
	for _, r := range m.records {
		if r.state == modelInFlight && m.now > r.leaseEnd-near && m.now < r.leaseEnd+near {
			return true
		}
		end := r.last + r.retention
		if r.mortal() && m.now > end-near && m.now < end+r.retention/16+near {
			return true
		}
	}
	return false
}
