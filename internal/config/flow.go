package config

import (
	"slices"
	"time"

	"github.com/oncekit/once/flow"
	"github.com/oncekit/once/internal/expr"
)

// The defaults of a flow.
const (
	defaultEarly = 24 * time.Hour
	defaultBusy  = 10 * time.Minute
)

// FlowSettings is what the file says of a flow beside what the flow's engine takes.
type FlowSettings struct {
	Name string
	// Block keeps later events of a task waiting behind a dead one (on_dead: block).
	Block bool

	task *expr.Program
	node *node
}

// flows reads the state machines.
func (r *reader) flows(o *object) {
	n := o.get("flows")
	shown := &out{byKey: map[string]*out{}}
	r.each(n, "flows", func(key, value *node) {
		f := r.object(value, "the flow "+quote(key.text))
		if f.n != nil {
			r.flow(key, f)
		}
		shown.put(key.text, f.out)
	})
	if n != nil {
		o.out.put("flows", shown)
	}
}

func (r *reader) flow(key *node, o *object) {
	what := "the flow " + quote(key.text)
	m := &flow.Machine{Name: key.text}
	s := FlowSettings{Name: key.text, node: o.n}
	item, whyNot := r.itemOf(key.text)
	r.item = item
	defer r.withoutItem(whyNot)()
	task := o.exprNode("task")
	if task == nil && !o.has("task") {
		r.add(key.at, "%s has no `task`; expected an expression that names the task, such as"+
			" \"body.taskCode\"", what)
	}
	s.task = r.expression(task, "task", varsMessage|r.item)
	states := r.states(o)
	m.Initial = r.initial(key, o)
	for _, n := range r.stateList(o, "final", "names of states") {
		m.Final = append(m.Final, n.text)
	}
	m.Events = r.events(key, o, states)
	for _, n := range o.texts("starts", "names of events") {
		if r.reference(n, "starts", "event", eventList(o)) {
			m.Starts = append(m.Starts, n.text)
		}
	}
	early := o.object("early")
	m.Early = early.duration("park", defaultEarly)
	early.close("early")
	m.Busy = r.busy(o)
	m.Overdue = r.overdue(o, states)
	if m.Retention = o.duration("retention", 0); m.Retention == 0 {
		// checkFlows writes it, when the retentions of all sources are known.
		o.out.put("retention", lineOut(formatDuration(defaultRetention)))
	}
	s.Block = o.choice("on_dead", "continue", "continue", "block") == "block"
	o.close(what)
	r.c.Machines = append(r.c.Machines, m)
	r.c.FlowSettings = append(r.c.FlowSettings, s)
}

// states are the names that a flow's states can have: the initial one, the final ones and those
// that an event leads to.
func (r *reader) states(o *object) []string {
	var list []string
	add := func(n *node) {
		if n != nil && n.kind == textKind && !slices.Contains(list, n.text) {
			list = append(list, n.text)
		}
	}
	add(o.n.member("initial"))
	if events := o.n.member("events"); events != nil {
		for _, e := range events.entries {
			add(e.value.member("to"))
		}
	}
	if final := o.n.member("final"); final != nil {
		add(final)
		for _, n := range final.items {
			add(n)
		}
	}
	return list
}

// eventList are the names of a flow's events, in the order of the file.
func eventList(o *object) []string {
	var list []string
	if events := o.n.member("events"); events != nil {
		for _, e := range events.entries {
			list = append(list, e.key.text)
		}
	}
	return list
}

func eventNames(m *flow.Machine) map[string]bool {
	known := make(map[string]bool, len(m.Events))
	for name := range m.Events {
		known[name] = true
	}
	return known
}

func (r *reader) initial(key *node, o *object) string {
	n := o.textNode("initial", "the name of the first state")
	if n == nil {
		if !o.has("initial") {
			r.add(key.at, "the flow %s has no `initial`; expected the name of its first state",
				quote(key.text))
		}
		return ""
	}
	o.out.put("initial", nodeOut(n))
	r.checkName(n, "initial")
	return n.text
}

// stateList reads names of states.
func (r *reader) stateList(o *object, field, want string) []*node {
	var list []*node
	for _, n := range o.texts(field, want) {
		if r.checkName(n, field) {
			list = append(list, n)
		}
	}
	return list
}

func (r *reader) busy(o *object) flow.Busy {
	b := o.object("busy")
	busy := flow.Busy{Refuse: b.has("refuse") && b.boolean("refuse", false)}
	switch {
	case !busy.Refuse:
		busy.Wait = b.duration("wait", defaultBusy)
	case b.get("wait") != nil:
		r.add(b.get("wait").pos(), "wait has no meaning with refuse: true; expected one of the two")
	}
	// the resource is the one that is taken
	busy.Effects = r.effects(b, "effects", varsEffect|expr.Resource|r.item)
	b.close("busy")
	return busy
}

// overdue reads how long a task may stay in its states. Its effects are the same for all of them.
func (r *reader) overdue(o *object, states []string) map[string]flow.Overdue {
	d := o.optional("overdue")
	if d == nil || d.n == nil {
		return nil
	}
	all := map[string]flow.Overdue{}
	for _, e := range d.n.entries {
		if e.key.raw == "effects" {
			continue
		}
		if !r.reference(e.key, "overdue", "state", states) {
			d.get(e.key.raw)
			continue
		}
		if after := d.duration(e.key.raw, 0); after > 0 {
			all[e.key.text] = flow.Overdue{After: after}
		}
	}
	defer r.withoutItem("an alarm has no message")()
	effects := r.effects(d, "effects", varsNoCause)
	for state, v := range all {
		v.Effects = effects
		all[state] = v
	}
	d.close("overdue")
	return all
}
