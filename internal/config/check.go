package config

import (
	"strconv"
	"strings"

	"github.com/oncekit/once/flow"
)

// checkFlows looks at what only whole flows show: whether a repeat of each event is decided,
// whether each state can be reached and left, how long tasks have to be kept.
func (r *reader) checkFlows() {
	for _, p := range flow.Check(r.c.Machines, r.c.Kinds) {
		r.add(r.placeOf(p.Path), "%s: %s", strings.Join(lastTwo(p.Path), " "), p.Msg)
	}
	for _, m := range r.c.Machines {
		fed := r.feeds[m.Name]
		n := r.root.member("flows").member(m.Name).member("retention")
		switch {
		case m.Retention == 0:
			m.Retention = max(fed, defaultRetention)
			shown := r.c.effective.byKey["flows"].byKey[m.Name]
			shown.put("retention", lineOut(formatDuration(m.Retention)))
		case m.Retention < fed:
			r.add(n.pos(), "retention is below the %s of a source that feeds the flow; expected at"+
				" least as long, or a repeat would find no task", formatDuration(fed))
		}
	}
}

// lastTwo names a place for people: "event finish", "state running".
func lastTwo(path []string) []string {
	if len(path) >= 4 && path[0] == "flows" && path[2] == "events" {
		return []string{"the event", quote(path[3])}
	}
	if len(path) >= 2 && path[0] == "flows" {
		return []string{"the flow", quote(path[1])}
	}
	return path
}

// placeOf finds the node that a path leads to, or the last one on the way. A map that is meant as
// a whole is told at its name.
func (r *reader) placeOf(path []string) place {
	n := r.root
	at := n.at
	for _, step := range path {
		switch n.kind {
		case mapKind:
			next := (*node)(nil)
			for _, e := range n.entries {
				if e.key.raw == step {
					next, at = e.value, e.value.at
					if e.value.kind == mapKind {
						at = e.key.at
					}
				}
			}
			if next == nil {
				return at
			}
			n = next
		case listKind:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(n.items) {
				return at
			}
			n = n.items[i]
			at = n.at
		default:
			return at
		}
	}
	return at
}
