package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/oncekit/once/inbox"
)

// planVersion is raised when what a Plan holds changes its meaning.
const planVersion = 1

// Plan is what a store has to know of the file it was last served with, so that a later file can be
// compared with it. It is kept as JSON.
type Plan struct {
	Version      int                   `json:"version"`
	Sources      map[string]SourcePlan `json:"sources,omitempty"`
	Flows        map[string]FlowPlan   `json:"flows,omitempty"`
	Destinations []string              `json:"destinations,omitempty"`
	Gateway      *GatewayPlan          `json:"gateway,omitempty"`
}

// SourcePlan is what makes the identities of a source.
type SourcePlan struct {
	Key   [][]string `json:"key"` // the alternatives' expressions
	Scope string     `json:"scope,omitempty"`
	// Each finds the elements of a message: what `item` is in the key.
	Each string `json:"each,omitempty"`
	// Form: bodies are forms, whose values are texts: 1 there is another key than 1 in JSON.
	Form bool `json:"form,omitempty"`
}

// FlowPlan names what tasks and callbacks of a flow refer to, sorted.
type FlowPlan struct {
	States []string `json:"states"`
	Events []string `json:"events"`
}

// InUse is what a store still has, counted.
type InUse struct {
	// Identities are the remembered callbacks by source.
	Identities map[string]int64
	// Unfinished are the callbacks by source that wait for their work or for a person.
	Unfinished map[string]int64
	// States are the tasks by flow and state.
	States map[string]map[string]int64
	// Events are the unfinished callbacks by flow and event.
	Events map[string]map[string]int64
	// Destinations are the unfinished effects by destination.
	Destinations map[string]int64
	// Records are those of the gateway.
	Records int64
}

func (r *reader) planSource(s *inbox.Source, k sourceKey, each string) {
	if r.c.plan.Sources == nil {
		r.c.plan.Sources = map[string]SourcePlan{}
	}
	p := SourcePlan{Each: each, Form: s.Form}
	for _, alternative := range k.alternatives {
		texts := []string{}
		for _, e := range alternative {
			texts = append(texts, e.String())
		}
		p.Key = append(p.Key, texts)
	}
	if k.scope != nil {
		p.Scope = k.scope.String()
	}
	r.c.plan.Sources[s.Name] = p
}

// Plan returns the summary of the file. The caller may keep and change it.
func (c *Config) Plan() Plan {
	p := Plan{Version: planVersion, Sources: maps.Clone(c.plan.Sources)}
	for _, m := range c.Machines {
		states := map[string]bool{m.Initial: true}
		for _, s := range m.Final {
			states[s] = true
		}
		for _, ev := range m.Events {
			if ev.To != "" {
				states[ev.To] = true
			}
		}
		if p.Flows == nil {
			p.Flows = map[string]FlowPlan{}
		}
		p.Flows[m.Name] = FlowPlan{
			States: slices.Sorted(maps.Keys(states)), Events: slices.Sorted(maps.Keys(m.Events)),
		}
	}
	for _, d := range c.Destinations {
		p.Destinations = append(p.Destinations, d.Name)
	}
	slices.Sort(p.Destinations)
	if c.plan.Gateway != nil {
		p.Gateway = &GatewayPlan{Scope: slices.Clone(c.plan.Gateway.Scope),
			Records: c.plan.Gateway.Records}
	}
	return p
}

// ComparePlans compares the file (now) with what the store was last served with (old) and still has
// (use). Each thing in use that is gone and that `migrate` says nothing of is a problem whose text
// says what to write. The problems have no place; they are in the order sources, flows,
// destinations, gateway.
func ComparePlans(old, now Plan, use InUse, m Migrate) []Problem {
	c := &comparison{old: old, now: now, use: use, migrate: m}
	c.sources()
	c.flows()
	c.destinations()
	c.gateway()
	return c.found
}

type comparison struct {
	old, now Plan
	use      InUse
	migrate  Migrate
	found    []Problem
}

func (c *comparison) add(format string, args ...any) {
	c.found = append(c.found, Problem{Msg: fmt.Sprintf(format, args...)})
}

func (c *comparison) sources() {
	for _, name := range slices.Sorted(maps.Keys(c.now.Sources)) {
		before, known := c.old.Sources[name]
		n := c.use.Identities[name]
		if !known || n == 0 || c.migrate.KeyChanged[name] ||
			whatDiffers(before, c.now.Sources[name]) == "" {
			continue
		}
		c.add("the source %s has another %s than the %s that the store remembers;"+
			" a repeat of one of them would count as new. Restore the %[2]s, or write under"+
			" `migrate`: sources: {%[1]s: {key: changed}}", name,
			whatDiffers(before, c.now.Sources[name]), count(n, "callback"))
	}
	for _, name := range slices.Sorted(maps.Keys(c.use.Identities)) {
		_, there := c.now.Sources[name]
		if _, told := c.migrate.Sources[name]; !there && !told {
			c.goneSource(name)
		}
	}
}

// goneSource tells a source that isn't in the file any more. What is only remembered of one that
// was given up or moved in an earlier start is no matter.
func (c *comparison) goneSource(name string) {
	n, open := c.use.Identities[name], c.use.Unfinished[name]
	if _, known := c.old.Sources[name]; open == 0 && (n == 0 || !known) {
		return
	}
	declared := slices.Sorted(maps.Keys(c.now.Sources))
	c.add("the source %s is gone, but the store has %s of it, %d of them unfinished. Restore the"+
		" source, or write under `migrate`: sources: {%s: discard} (what is unfinished is given"+
		" up; what is remembered stays until the end of its retention), or sources: {%s: %s}"+
		" (what is unfinished is worked as callbacks of %s; a repeat that is sent there counts as"+
		" new)",
		name, count(n, "callback"), open, name, name, suggestion(name, declared),
		suggestion(name, declared))
}

// whatDiffers names the field that makes the identities of two plans differ; empty: none does.
func whatDiffers(a, b SourcePlan) string {
	switch {
	case !slices.EqualFunc(a.Key, b.Key, slices.Equal):
		return "key"
	case a.Scope != b.Scope:
		return "scope"
	case a.Each != b.Each:
		return "each"
	case a.Form != b.Form:
		return "content"
	}
	return ""
}

func (c *comparison) flows() {
	names := map[string]bool{}
	for name := range c.use.States {
		names[name] = true
	}
	for name := range c.use.Events {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		plan, there := c.now.Flows[name]
		m := c.migrate.Flows[name]
		if !there {
			n := sum(c.use.States[name]) + sum(c.use.Events[name])
			if n > 0 && !m.Discard {
				c.add("the flow %s is gone, but the store has %s and %s of it. Restore the flow,"+
					" or write under `migrate`: flows: {%s: discard}", name,
					count(sum(c.use.States[name]), "task"),
					count(sum(c.use.Events[name]), "unfinished callback"), name)
			}
			continue
		}
		c.gone(c.use.States[name], plan.States, m.States, func(state string, n int64) {
			c.add("the flow %s has no state %s any more, but %s in it. Restore the state, or write"+
				" under `migrate`: flows: {%s: {states: {%s: %s}}}", name, state, are(n, "task"),
				name, state, suggestion(state, plan.States))
		})
		c.gone(c.use.Events[name], plan.Events, m.Events, func(event string, n int64) {
			c.add("the flow %s has no event %s any more, but the store has %s of it. Restore the"+
				" event, or write under `migrate`: flows: {%s: {events: {%s: %s}}} (or a new name"+
				" in place of %s)", name, event, count(n, "unfinished callback"), name,
				yamlName(event), discard, discard)
		})
	}
}

func (c *comparison) destinations() {
	c.gone(c.use.Destinations, c.now.Destinations, c.migrate.Destinations,
		func(name string, n int64) {
			c.add("the destination %s is gone, but the store has %s for it. Restore it, or write"+
				" under `migrate`: destinations: {%s: %s} (or a new name in place of %s)", name,
				count(n, "unfinished effect"), name, discard, discard)
		})
}

// gone calls f with each name in use that is neither declared nor migrated to something that is.
func (c *comparison) gone(used map[string]int64, declared []string, migrated map[string]string,
	f func(name string, n int64),
) {
	for _, name := range slices.Sorted(maps.Keys(used)) {
		to := migrated[name]
		known := slices.Contains(declared, name) || slices.Contains(declared, to) || to == discard
		if n := used[name]; n > 0 && !known {
			f(name, n)
		}
	}
}

// IdleMigrations returns what `migrate` says of names that neither the store has nor the file that
// it was last served with, or of a gateway that has not changed: a mistake in writing, or done in
// an earlier start. For people, sorted.
func IdleMigrations(old, now Plan, use InUse, m Migrate) []string {
	list := idleGateway(old.Gateway, now.Gateway, m.Gateway)
	idle := func(what, name string, known bool, n int64) {
		if !known && n == 0 {
			list = append(list, fmt.Sprintf("there is no %s %s in the store, so nothing is done;"+
				" see that the name is right, and remove it from the file if it is", what, name))
		}
	}
	for name := range m.Sources {
		_, known := old.Sources[name]
		idle("source", name, known, use.Identities[name])
	}
	for name := range m.Destinations {
		idle("destination", name, slices.Contains(old.Destinations, name), use.Destinations[name])
	}
	for flow, f := range m.Flows {
		before, known := old.Flows[flow]
		if f.Discard {
			idle("flow", flow, known, sum(use.States[flow])+sum(use.Events[flow]))
		}
		for state := range f.States {
			idle("state", state+" of flow "+flow, slices.Contains(before.States, state),
				use.States[flow][state])
		}
		for event := range f.Events {
			idle("event", event+" of flow "+flow, slices.Contains(before.Events, event),
				use.Events[flow][event])
		}
	}
	slices.Sort(list)
	return list
}

func suggestion(name string, declared []string) string {
	if near := nearest(name, declared); near != "" {
		return near
	}
	return "NEW"
}

func sum(m map[string]int64) int64 {
	var n int64
	for _, v := range m {
		n += v
	}
	return n
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func are(n int64, what string) string {
	if n == 1 {
		return "1 " + what + " is"
	}
	return fmt.Sprintf("%d %ss are", n, what)
}
