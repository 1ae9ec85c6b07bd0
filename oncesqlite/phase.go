package oncesqlite

import "github.com/oncekit/once/queue"

// phase is a row's state as it is stored. It splits pending into what is due and what is not, so
// that the index of work selects by state alone. The numbers stand in the queries and never change:
// 0 to 2 are pending, 0 to 6 unfinished. Done is NULL.
type phase int64

const (
	phaseReady     phase = 0 // pending, due now
	phaseDelayed   phase = 1 // pending, due at next_at
	phaseInLine    phase = 2 // pending, behind an earlier row of its order key
	phaseWorking   phase = 3 // running or sending
	phaseParked    phase = 4
	phaseHeld      phase = 5
	phaseDead      phase = 6
	phaseStale     phase = 7
	phaseUnrouted  phase = 8
	phaseExpired   phase = 9
	phaseDiscarded phase = 10
	phaseDone      phase = -1 // in Go only
)

// state returns the state that people see.
func (p phase) state(k queue.Kind) queue.State {
	switch p {
	case phaseReady, phaseDelayed, phaseInLine:
		return queue.Pending
	case phaseWorking:
		return k.Working()
	case phaseParked:
		return queue.Parked
	case phaseHeld:
		return queue.Held
	case phaseDead:
		return queue.Dead
	case phaseStale:
		return queue.Stale
	case phaseUnrouted:
		return queue.Unrouted
	case phaseExpired:
		return queue.Expired
	case phaseDiscarded:
		return queue.Discarded
	}
	return queue.Done
}

// phases returns the phases that make up a state, or nil for done.
func phases(s queue.State) []phase {
	switch s {
	case queue.Pending:
		return []phase{phaseReady, phaseDelayed, phaseInLine}
	case queue.Running, queue.Sending:
		return []phase{phaseWorking}
	case queue.Parked:
		return []phase{phaseParked}
	case queue.Held:
		return []phase{phaseHeld}
	case queue.Dead:
		return []phase{phaseDead}
	case queue.Stale:
		return []phase{phaseStale}
	case queue.Unrouted:
		return []phase{phaseUnrouted}
	case queue.Expired:
		return []phase{phaseExpired}
	case queue.Discarded:
		return []phase{phaseDiscarded}
	}
	return nil
}

// settledPhase returns the phase of a row that a settlement puts into state s.
func settledPhase(s queue.State) phase {
	if s == queue.Done {
		return phaseDone
	}
	if s == queue.Pending {
		return phaseReady
	}
	return phases(s)[0]
}
