package turn

import "github.com/oncekit/once/queue"

// Phase is a row's state as the work sees it. It splits pending into what is due and what is not,
// so that the index of work selects by it alone. The texts are stored and never change.
type Phase string

// The phases.
const (
	Ready     Phase = "ready"   // pending, due now
	Delayed   Phase = "delayed" // pending, due at next_at
	InLine    Phase = "in line" // pending, behind an earlier row of its order key
	Working   Phase = "working" // running or sending
	Parked    Phase = "parked"
	Held      Phase = "held"
	Dead      Phase = "dead"
	Stale     Phase = "stale"
	Unrouted  Phase = "unrouted"
	Expired   Phase = "expired"
	Discarded Phase = "discarded"
	Done      Phase = "done"
)

// Unfinished are the phases of rows that are never swept.
var Unfinished = []Phase{Ready, Delayed, InLine, Working, Parked,
	Held, Dead}

// busyPhases are those of rows that are due, running or wait for another try.
var busyPhases = []Phase{Ready, Delayed, InLine, Working}

// State returns the state that people see.
func (p Phase) State(k queue.Kind) queue.State {
	switch p {
	case Ready, Delayed, InLine:
		return queue.Pending
	case Working:
		return k.Working()
	}
	return queue.State(p)
}

// settledPhase returns the phase of a row that a settlement puts into state s.
func settledPhase(s queue.State) Phase {
	if s == queue.Pending {
		return Ready
	}
	return Phase(s)
}

// Phases are all of them.
var Phases = []Phase{Ready, Delayed, InLine, Working, Parked, Held, Dead, Stale, Unrouted, Expired,
	Discarded, Done}
