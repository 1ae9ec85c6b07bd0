package flow

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Problem is something in the declaration of flows that `once config check` refuses.
type Problem struct {
	// Path leads to the place in the configuration: flows, transport, events, station, from, 0.
	Path []string
	// Msg says what is wrong and what is expected, for people.
	Msg string
}

// Error returns the path and the text.
func (p Problem) Error() string { return strings.Join(p.Path, ".") + ": " + p.Msg }

// Check returns what is wrong with the machines and the kinds of resources, in the order of their
// paths. Resources of kinds that are not declared are fine: they do nothing on release.
func Check(machines []*Machine, kinds []ResourceKind) []Problem {
	c := &checker{}
	seen := make(map[string]bool)
	for _, m := range machines {
		at := []string{"flows", m.Name}
		c.name(at, "a flow", m.Name, seen)
		(&machineCheck{checker: c, m: m, at: at, reach: reachable(m)}).run()
	}
	seen = make(map[string]bool)
	for _, k := range kinds {
		at := []string{"resources", k.Kind}
		c.name(at, "a kind of resource", k.Kind, seen)
		c.effects(below(at, "on_release"), k.OnRelease)
	}
	slices.SortStableFunc(c.found, func(a, b Problem) int { return slices.Compare(a.Path, b.Path) })
	return c.found
}

type checker struct{ found []Problem }

func (c *checker) add(at []string, format string, args ...any) {
	c.found = append(c.found, Problem{slices.Clone(at), fmt.Sprintf(format, args...)})
}

func (c *checker) name(at []string, what, name string, seen map[string]bool) {
	switch {
	case name == "":
		c.add(at, "%s needs a name", what)
	case strings.Contains(name, "/"):
		c.add(at, "the name of %s can't hold a slash", what)
	case seen[name]:
		c.add(at, "%s of this name is there already", what)
	}
	seen[name] = true
}

func (c *checker) effects(at []string, list []Effect) {
	for i, ef := range list {
		here := below(at, strconv.Itoa(i))
		switch {
		case ef.Name == "":
			c.add(here, "an effect needs a name")
		case ef.Destination == "":
			c.add(here, "effect %s needs a destination", ef.Name)
		case ef.Build == nil:
			c.add(here, "effect %s needs something to send", ef.Name)
		}
	}
}

// below returns a longer path without touching the array of the shorter one.
func below(at []string, more ...string) []string { return slices.Concat(at, more) }

// machineCheck looks at one machine.
type machineCheck struct {
	*checker
	m     *Machine
	at    []string
	reach map[string]map[string]bool
}

func (c *machineCheck) run() {
	m := c.m
	if m.Initial == "" {
		c.add(below(c.at, "initial"), "a flow needs an initial state")
	} else if slices.Contains(m.Final, m.Initial) {
		c.add(below(c.at, "initial"), "state %s can't be initial and final", m.Initial)
	}
	if len(m.Events) == 0 {
		c.add(below(c.at, "events"), "a flow needs at least one event")
	}
	for i, s := range m.Final {
		if !c.entered(s) {
			c.add(below(c.at, "final", strconv.Itoa(i)), "no event leads to state %q", s)
		}
	}
	for i, name := range m.Starts {
		at := below(c.at, "starts", strconv.Itoa(i))
		if ev := m.Events[name]; ev == nil {
			c.add(at, "there is no event %q", name)
		} else if !slices.Contains(ev.From, m.Initial) {
			c.add(at, "event %s can't create a task: its `from` lacks the initial state %s",
				name, m.Initial)
		}
	}
	if m.Initial != "" && len(m.Events) > 0 && !c.used(m.Initial) {
		c.add(below(c.at, "initial"), "no event has the initial state %q in its `from`", m.Initial)
	}
	for state, o := range m.Overdue {
		at := below(c.at, "overdue", state)
		switch {
		case !c.known(state):
			c.add(at, "there is no state %q", state)
		case slices.Contains(m.Final, state):
			c.add(at, "state %s is final, a task may stay in it", state)
		case o.After <= 0:
			c.add(at, "want a time above 0")
		}
		c.effects(below(c.at, "overdue", "effects"), o.Effects)
	}
	c.effects(below(c.at, "busy", "effects"), m.Busy.Effects)
	for _, name := range slices.Sorted(maps.Keys(m.Events)) {
		at := below(c.at, "events", name)
		if m.Events[name] == nil {
			c.add(at, "the event is empty")
			continue
		}
		c.event(at, m.Events[name])
	}
}

// entered reports whether an event leads to the state.
func (c *machineCheck) entered(s string) bool {
	for _, ev := range c.m.Events {
		if ev != nil && s != "" && ev.To == s {
			return true
		}
	}
	return false
}

func (c *machineCheck) known(s string) bool { return s == c.m.Initial || c.entered(s) }

// used reports whether an event is legal in the state.
func (c *machineCheck) used(s string) bool {
	for _, ev := range c.m.Events {
		if ev != nil && slices.Contains(ev.From, s) {
			return true
		}
	}
	return false
}

func (c *machineCheck) event(at []string, ev *Event) {
	if len(ev.From) == 0 {
		c.add(below(at, "from"), "an event needs at least one state")
	}
	open, known := false, len(ev.From) > 0
	for i, f := range ev.From {
		here := below(at, "from", strconv.Itoa(i))
		switch {
		case !c.known(f):
			c.add(here, "there is no state %q: it is neither initial nor the `to` of an event", f)
			known = false
		case slices.Contains(c.m.Final, f):
			c.add(here, "state %s is final: no event is legal in it", f)
			known = false
		case f == c.m.Initial || c.reach[c.m.Initial][f]:
			open = true
		}
	}
	if known && !open {
		c.add(at, "the event can never come: none of its states can be reached from %s",
			c.m.Initial)
	}
	if ev.To != "" && !slices.Contains(c.m.Final, ev.To) && !c.used(ev.To) {
		c.add(below(at, "to"), "state %q is not final, and no event is legal in it", ev.To)
	}
	c.repeats(at, ev)
	c.fields(below(at, "set"), ev.Set)
	c.fields(below(at, "max"), ev.Max)
	c.effects(below(at, "effects"), ev.Effects)
}

// repeats refuses what leaves open whether a second event is a repeat.
func (c *machineCheck) repeats(at []string, ev *Event) {
	switch ev.Again {
	case AgainUnset, AgainStale, AgainPark:
	default:
		c.add(below(at, "again"), "want %s or %s", AgainStale, AgainPark)
	}
	if ev.Again == AgainPark && ev.staysLegal() {
		c.add(below(at, "again"), "the event is legal again at once and can't wait; want %s, or "+
			"`newer`", AgainStale)
	}
	if ev.Newer != nil {
		return
	}
	if ev.To == "" {
		if len(ev.Effects) > 0 && len(ev.Max) == 0 {
			c.add(below(at, "effects"), "an event without `to` that has effects needs `max` or "+
				"`newer`: a repeat would send them again")
		}
		if ev.Again == AgainUnset && len(ev.Max) == 0 && leavesAndReturns(c.reach, ev) {
			c.add(at, "the task can leave the event's states and come back to them; `newer`, "+
				"`max` or `again` has to say what a repeat is that comes meanwhile")
		}
		return
	}
	if ev.Again == AgainUnset && (ev.staysLegal() || comesAgain(c.reach, ev.To, ev)) {
		c.add(at, "the event can come again after it was taken; `newer` or `again` has to say "+
			"what a repeat is")
	}
}

func (c *machineCheck) fields(at []string, list []Field) {
	seen := make(map[string]bool)
	for _, f := range list {
		here := below(at, f.Name)
		switch {
		case f.Name == "id" || f.Name == "state" || f.Name == "version":
			c.add(here, "the task has a %s of its own; choose another name", f.Name)
		case f.Name == "" || seen[f.Name]:
			c.add(here, "a field needs a name of its own")
		case f.Value == nil:
			c.add(here, "a field needs a value")
		}
		seen[f.Name] = true
	}
}
