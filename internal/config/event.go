package config

import (
	"slices"
	"strings"

	"github.com/oncekit/once/flow"
	"github.com/oncekit/once/internal/expr"
)

// events reads a flow's moves.
func (r *reader) events(flowKey *node, o *object, states []string) map[string]*flow.Event {
	all := map[string]*flow.Event{}
	n := o.get("events")
	if n == nil && !o.has("events") {
		r.add(flowKey.at, "the flow %s has no `events`; expected at least one",
			quote(flowKey.text))
		return all
	}
	shown := &out{byKey: map[string]*out{}}
	if n != nil && n.kind == mapKind {
		for _, e := range n.entries {
			ev := r.object(e.value, "the event "+quote(e.key.text))
			if ev.n != nil {
				all[e.key.text] = r.event(e.key, ev, states)
			}
			shown.put(e.key.text, ev.out)
		}
	} else if n != nil && n.kind != badKind {
		r.add(n.at, "events is %s; expected a map of events by name", n.what())
	}
	o.out.put("events", shown)
	return all
}

func (r *reader) event(key *node, o *object, states []string) *flow.Event {
	what := "the event " + quote(key.text)
	ev := &flow.Event{}
	if key.text == "" || len(key.text) > 256 {
		r.add(key.at, "an event's name is empty or too long; expected 1 to 256 bytes")
	}
	if !o.has("from") {
		r.add(key.at, "%s has no `from`; expected the states in which it is legal", what)
	}
	for _, n := range o.texts("from", "names of states") {
		if r.reference(n, "from", "state", states) {
			ev.From = append(ev.From, n.text)
		}
	}
	if n := o.textNode("to", "the name of a state"); n != nil && r.checkName(n, "to") {
		o.out.put("to", nodeOut(n))
		ev.To = n.text
	}
	ev.Set = r.fields(o, "set")
	ev.Max = r.fields(o, "max")
	if p := r.expression(o.exprNode("newer"), "newer", varsFlow|r.item); p != nil {
		ev.Newer = flowExpr(p)
	}
	switch o.choice("again", "", "stale", "park") {
	case "stale":
		ev.Again = flow.AgainStale
	case "park":
		ev.Again = flow.AgainPark
	}
	r.acquire(o, ev)
	r.release(o, ev)
	ev.Effects = r.effects(o, "effects", varsEffect|r.item)
	o.close(what)
	return ev
}

// fields reads assignments, in the order of the file.
func (r *reader) fields(o *object, name string) []flow.Field {
	n := o.get(name)
	if n == nil || n.kind == badKind {
		return nil
	}
	if n.kind != mapKind {
		r.add(n.at, "%s is %s; expected a map of field names to values", name, n.what())
		return nil
	}
	o.out.put(name, nodeOut(n))
	var list []flow.Field
	for _, e := range n.entries {
		if !r.checkName(e.key, "a field of "+name) {
			continue
		}
		t := r.tree(e.value, name+" "+e.key.text, varsFlow|r.item, expr.TemplateOptions{})
		if t != nil {
			list = append(list, flow.Field{Name: e.key.text, Value: flowExpr(t)})
		}
	}
	return list
}

const wantResource = "texts such as \"station/${task.station}\""

func (r *reader) acquire(o *object, ev *flow.Event) {
	var reads []string
	whole := false
	for _, n := range o.texts("acquire", wantResource) {
		t := r.resource(n, "acquire")
		if t == nil {
			continue
		}
		ev.Acquire = append(ev.Acquire, flowExpr(t))
		for _, ref := range t.References() {
			if field, ok := strings.CutPrefix(ref, "task."); ok {
				reads = append(reads, field)
			} else if ref == "task" {
				whole = true
			}
		}
	}
	if len(ev.Acquire) > 0 && !whole {
		ev.AcquireReads = append([]string{}, reads...)
	}
}

func (r *reader) release(o *object, ev *flow.Event) {
	if n := o.get("release"); n != nil && n.kind == textKind && n.text == "all" {
		o.out.put("release", lineOut("all"))
		ev.ReleaseAll = true
		return
	}
	for _, n := range o.texts("release", "`all`, or "+wantResource) {
		if t := r.resource(n, "release"); t != nil {
			ev.Release = append(ev.Release, flowExpr(t))
		}
	}
}

// resource compiles the text of a resource. Its kind has to stand in the text itself, so that it
// can be compared with the kinds that are declared.
func (r *reader) resource(n *node, what string) *expr.Template {
	kind, _, found := strings.Cut(n.template, "/")
	dynamic := strings.Contains(kind, "${")
	literal := literalPart(n.template)
	switch {
	case !strings.Contains(literal, "/"):
		r.add(n.at, "%s holds %s; expected KIND/NAME with the slash in the text itself, such as"+
			" \"station/${task.station}\"", what, n.show())
		return nil
	case !found || kind == "":
		r.add(n.at, "%s holds %s, without a kind; expected KIND/NAME", what, n.show())
		return nil
	case !dynamic && !slices.Contains(r.kindNames, kind):
		if near := nearest(kind, r.kindNames); near != "" && !n.filled {
			r.add(n.at, "%s holds the kind of resource %s, which isn't declared; did you mean"+
				" %s? (declare `%s: {}` under `resources` if it is another one)", what,
				quote(kind), quote(near), kind)
			return nil
		}
	}
	return r.template(n, what, varsFlow|r.item, expr.TemplateOptions{})
}

// literalPart is a text without its ${…}.
func literalPart(s string) string {
	var b strings.Builder
	for s != "" {
		part := nextPart(s)
		if !strings.HasPrefix(part, "${") {
			b.WriteString(part)
		}
		s = s[len(part):]
	}
	return b.String()
}
