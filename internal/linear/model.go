package linear

import (
	"github.com/anishathalye/porcupine"

	"github.com/oncekit/once"
)

// operation is what was asked.
type operation string

const (
	opClaim       operation = "claim"
	opComplete    operation = "complete"
	opLose        operation = "lose"
	opRelease     operation = "release"
	opRenew       operation = "renew"
	opRunAgain    operation = "let run again"
	opAnswer      operation = "answer"
	opReleaseDone operation = "release what is done"
)

// The answers.
const (
	saysDone      = "done"
	saysReplay    = "replay"
	saysMismatch  = "mismatch"
	saysInFlight  = "in flight"
	saysHeld      = "held"
	saysLeaseLost = "lease lost"
	saysNotFound  = "not found"
	saysState     = "not in this state"
)

type input struct {
	op       operation
	identity int
	owner    once.Owner
	fence    int64 // of the grant; none of a claim
	data     string

	fingerprint once.Fingerprint // of a claim
	hold        bool             // of a claim
}

type output struct {
	says  string
	data  string     // of a replay
	grant once.Grant // of a claim
	err   error      // for people
}

// record is the state of one identity. It compares by ==. Its leases don't end.
type record struct {
	state       state
	fingerprint once.Fingerprint
	hold        bool
	owner       once.Owner // zero: a person decided since
	fence       int64
	attempt     int
	takeover    bool // of the latest grant
	lost        bool // an attempt was lost at some time
	data        string
}

type state byte

const (
	absent state = iota
	inFlight
	completed
	released
	unknown
)

var model = porcupine.Model{
	Init: func() any { return record{} },
	Step: func(s, in, out any) (bool, any) {
		ok, next := step(s.(record), in.(input), out.(output))
		return ok, next
	},
}

// partition splits a history by identity: records don't know each other.
func partition(history []porcupine.Operation) [][]porcupine.Operation {
	var parts [][]porcupine.Operation
	place := map[int]int{}
	for _, op := range history {
		id := op.Input.(input).identity
		i, ok := place[id]
		if !ok {
			i = len(parts)
			place[id] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], op)
	}
	return parts
}

// step tells whether a record in a state can have answered an input like that, and its next state.
func step(r record, in input, out output) (bool, record) {
	switch in.op {
	case opClaim:
		return claim(r, in, out)
	case opRunAgain, opAnswer, opReleaseDone:
		return decide(r, in, out)
	}
	if r.state == absent || r.owner != in.owner || r.fence != in.fence {
		return out.says == saysLeaseLost, r
	}
	next, allowed := r, true
	switch in.op {
	case opRenew:
		allowed = r.state == inFlight
	case opComplete:
		allowed = r.state != released
		if r.state == inFlight || r.state == unknown {
			next.state, next.data = completed, in.data
		}
	case opLose:
		allowed = r.state != released
		if r.state == inFlight {
			next.state = unknown
		}
	case opRelease:
		allowed = r.state != completed
		next.state = released
	}
	if !allowed {
		return out.says == saysLeaseLost, r
	}
	return out.says == saysDone, next
}

func claim(r record, in input, out output) (bool, record) {
	switch {
	case r.state == absent:
		r.fingerprint = in.fingerprint
	case r.fingerprint != in.fingerprint:
		return out.says == saysMismatch, r
	case r.state == completed:
		return out.says == saysReplay && out.data == r.data, r
	case r.state == inFlight && r.owner == in.owner:
		same := out.grant.Fence == r.fence && out.grant.Attempt == r.attempt &&
			out.grant.Takeover == r.takeover
		return out.says == saysDone && same, r
	case r.state == inFlight:
		return out.says == saysInFlight, r
	case r.state == unknown && (r.hold || in.hold):
		r.hold = true
		return out.says == saysHeld, r
	}
	taken := r.state == unknown
	r.lost = r.lost || taken
	g := out.grant
	ok := out.says == saysDone && g.Owner == in.owner && g.Fence > r.fence &&
		g.Attempt == r.attempt+1 && (g.Takeover || !taken) && (!g.Takeover || r.lost)
	r.state, r.hold, r.owner = inFlight, in.hold, in.owner
	r.fence, r.attempt, r.takeover = g.Fence, g.Attempt, g.Takeover
	return ok, r
}

func decide(r record, in input, out output) (bool, record) {
	switch {
	case r.state == absent:
		return out.says == saysNotFound, r
	case in.op == opReleaseDone && r.state != completed,
		in.op != opReleaseDone && r.state != unknown:
		return out.says == saysState, r
	}
	next := r
	next.state, next.owner, next.lost = released, once.Owner{}, true
	if in.op == opAnswer {
		next.state, next.data = completed, in.data
	}
	return out.says == saysDone, next
}
