package flow

import "slices"

// reachable returns for each state the states that can follow it over one or more transitions. An
// event without To adds no edge, and no edge leaves a final state.
func reachable(m *Machine) map[string]map[string]bool {
	next := make(map[string][]string)
	for _, ev := range m.Events {
		if ev == nil || ev.To == "" {
			continue
		}
		for _, f := range ev.From {
			if !slices.Contains(m.Final, f) {
				next[f] = append(next[f], ev.To)
			}
		}
	}
	out := make(map[string]map[string]bool, len(next))
	for start := range next {
		seen := make(map[string]bool)
		todo := slices.Clone(next[start])
		for len(todo) > 0 {
			s := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if !seen[s] {
				seen[s] = true
				todo = append(todo, next[s]...)
			}
		}
		out[start] = seen
	}
	return out
}

// comesAgain reports whether one of the event's states can follow s over one or more transitions.
func comesAgain(reach map[string]map[string]bool, s string, ev *Event) bool {
	return slices.ContainsFunc(ev.From, func(f string) bool { return reach[s][f] })
}

// leavesAndReturns reports whether a task can go from one of the event's states to one in which the
// event is not legal, and from there to one in which it is.
func leavesAndReturns(reach map[string]map[string]bool, ev *Event) bool {
	for _, f := range ev.From {
		for s := range reach[f] {
			if !slices.Contains(ev.From, s) && comesAgain(reach, s, ev) {
				return true
			}
		}
	}
	return false
}

// staysLegal reports whether the event is legal again at once after it was taken.
func (ev *Event) staysLegal() bool { return ev.To == "" || slices.Contains(ev.From, ev.To) }
