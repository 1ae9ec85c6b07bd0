package config

import "slices"

// discard is written where what the store still has is given up.
const discard = "discard"

// Migrate says what becomes of things in the store that the file no longer names.
type Migrate struct {
	Flows map[string]FlowMigration
	// Destinations by old name: the new name, or "discard".
	Destinations map[string]string
	// KeyChanged names the sources whose changed key is meant: what was remembered under the old
	// one is no longer found.
	KeyChanged map[string]bool
}

// FlowMigration is the part of one flow.
type FlowMigration struct {
	// Discard gives up a flow that is gone, with its tasks.
	Discard bool
	// States by old name: the new name.
	States map[string]string
	// Events by old name: the new name, or "discard".
	Events map[string]string
}

// migrate reads `migrate`.
func (r *reader) migrate(o *object) {
	m := o.optional("migrate")
	if m == nil || m.n == nil {
		return
	}
	r.c.Migrate = Migrate{Flows: map[string]FlowMigration{}, KeyChanged: map[string]bool{}}
	flows := m.get("flows")
	shown := &out{byKey: map[string]*out{}}
	r.each(flows, "flows", func(key, value *node) {
		shown.put(key.text, r.migrateFlow(key, value))
	})
	if flows != nil {
		m.out.put("flows", shown)
	}
	r.c.Migrate.Destinations = r.renames(m, "destinations", r.destinationNames, true)
	sources := m.get("sources")
	shown = &out{byKey: map[string]*out{}}
	r.each(sources, "sources", func(key, value *node) {
		s := r.object(value, "the source "+quote(key.text))
		if s.choice("key", "", "changed") == "changed" {
			r.c.Migrate.KeyChanged[key.text] = true
		}
		s.close("the source " + quote(key.text))
		shown.put(key.text, s.out)
	})
	if sources != nil {
		m.out.put("sources", shown)
	}
	m.close("migrate")
}

func (r *reader) migrateFlow(key, value *node) *out {
	if value.kind == textKind && value.text == discard {
		if slices.Contains(r.flowNames, key.text) {
			r.add(value.at, "the flow %s is in the file; expected to discard only one that is gone",
				quote(key.text))
		}
		r.c.Migrate.Flows[key.text] = FlowMigration{Discard: true}
		return lineOut(discard)
	}
	o := r.object(value, "the flow "+quote(key.text))
	if !r.reference(key, "migrate", "flow", r.flowNames) {
		return o.out
	}
	flow := r.root.member("flows").member(key.text)
	f := r.object(flow, "")
	r.c.Migrate.Flows[key.text] = FlowMigration{
		States: r.renames(o, "states", r.states(f), false),
		Events: r.renames(o, "events", eventList(f), true),
	}
	o.close("the flow " + quote(key.text))
	return o.out
}

// renames reads a map of old names, which must be gone, to new ones, which must be there.
func (r *reader) renames(o *object, field string, names []string, canDiscard bool,
) map[string]string {
	n := o.get(field)
	if n == nil || n.kind == badKind {
		return nil
	}
	if n.kind != mapKind {
		r.add(n.at, "%s is %s; expected a map of old names to new ones", field, n.what())
		return nil
	}
	o.out.put(field, nodeOut(n))
	list := map[string]string{}
	allowed := names
	if canDiscard {
		allowed = append(append([]string(nil), names...), discard)
	}
	for _, e := range n.entries {
		switch {
		case e.value.kind == badKind:
		case e.value.kind != textKind || !slices.Contains(allowed, e.value.text):
			r.add(e.value.at, "%s: %s is no new name; %s", field, e.value.shown(),
				oneOf(e.value.text, allowed))
		case slices.Contains(names, e.key.text):
			r.add(e.key.at, "%s: %s is still in the file; expected a name that is gone", field,
				quote(e.key.text))
		default:
			list[e.key.text] = e.value.text
		}
	}
	return list
}
