package oncemongo

import "github.com/oncekit/once/queue"

// phase is a row's state as the work sees it. It splits pending into what is due and what is not,
// so that the index of work selects by it alone. The texts are stored and never change.
type phase string

const (
	phaseReady     phase = "ready"   // pending, due now
	phaseDelayed   phase = "delayed" // pending, due at next_at
	phaseInLine    phase = "in line" // pending, behind an earlier row of its order key
	phaseWorking   phase = "working" // running or sending
	phaseParked    phase = "parked"
	phaseHeld      phase = "held"
	phaseDead      phase = "dead"
	phaseStale     phase = "stale"
	phaseUnrouted  phase = "unrouted"
	phaseExpired   phase = "expired"
	phaseDiscarded phase = "discarded"
	phaseDone      phase = "done"
)

// unfinished are the phases of rows that are never swept.
var unfinished = []phase{phaseReady, phaseDelayed, phaseInLine, phaseWorking, phaseParked,
	phaseHeld, phaseDead}

// busyPhases are those of rows that are due, running or wait for another try.
var busyPhases = []phase{phaseReady, phaseDelayed, phaseInLine, phaseWorking}

// state returns the state that people see.
func (p phase) state(k queue.Kind) queue.State {
	switch p {
	case phaseReady, phaseDelayed, phaseInLine:
		return queue.Pending
	case phaseWorking:
		return k.Working()
	}
	return queue.State(p)
}

// settledPhase returns the phase of a row that a settlement puts into state s.
func settledPhase(s queue.State) phase {
	if s == queue.Pending {
		return phaseReady
	}
	return phase(s)
}
