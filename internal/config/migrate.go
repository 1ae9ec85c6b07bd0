package config

import "slices"

// discard is written where what the store still has is given up.
const discard = "discard"

// Migrate says what becomes of things in the store that the file no longer names.
type Migrate struct {
	Flows map[string]FlowMigration
	// Destinations by old name: the new name, or "discard".
	Destinations map[string]string
	// Sources by old name: the new name, or "discard".
	Sources map[string]string
	// KeyChanged names the sources whose changed key is meant: what was remembered under the old
	// one is no longer found.
	KeyChanged map[string]bool
	// Gateway says which changes of the gateway are meant.
	Gateway GatewayMigration
}

// GatewayMigration names the changes of the gateway by which every key counts as new.
type GatewayMigration struct{ Scope, Records bool }

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
	r.c.Migrate = Migrate{Flows: map[string]FlowMigration{}, Sources: map[string]string{},
		KeyChanged: map[string]bool{}}
	flows := m.get("flows")
	shown := &out{byKey: map[string]*out{}}
	r.each(flows, "flows", func(key, value *node) {
		shown.put(key.text, r.migrateFlow(key, value))
	})
	if flows != nil {
		m.out.put("flows", shown)
	}
	r.c.Migrate.Destinations = r.renames(m, "destinations", r.destinationNames, true)
	r.migrateSources(m)
	r.migrateGateway(m)
	m.close("migrate")
}

// migrateGateway reads which changes of the gateway are meant.
func (r *reader) migrateGateway(m *object) {
	g := m.optional("gateway")
	if g == nil || g.n == nil {
		return
	}
	if r.c.Gateway == nil {
		r.add(g.at(), "gateway: the file has no gateway; expected no such line")
	}
	r.c.Migrate.Gateway = GatewayMigration{
		Scope:   g.choice("scope", "", "changed") == "changed",
		Records: g.choice("records", "", "changed") == "changed",
	}
	g.close("gateway")
}

// migrateSources reads what becomes of sources: one that is gone has a word, one that is there a
// map.
func (r *reader) migrateSources(m *object) {
	sources := m.get("sources")
	shown := &out{byKey: map[string]*out{}}
	r.each(sources, "sources", func(key, value *node) {
		if value.kind != mapKind {
			if to, ok := r.rename("sources", key, value, r.sourceNames,
				append([]string{discard}, r.sourceNames...)); ok {
				r.c.Migrate.Sources[key.text] = to
			}
			shown.put(key.text, nodeOut(value))
			return
		}
		s := r.object(value, "the source "+quote(key.text))
		if r.reference(key, "migrate", "source", r.sourceNames) &&
			s.choice("key", "", "changed") == "changed" {
			r.c.Migrate.KeyChanged[key.text] = true
		}
		s.get("key")
		s.close("the source " + quote(key.text))
		shown.put(key.text, s.out)
	})
	if sources != nil {
		m.out.put("sources", shown)
	}
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
		if to, ok := r.rename(field, e.key, e.value, names, allowed); ok {
			list[e.key.text] = to
		}
	}
	return list
}

// rename reads one new name, or what else is allowed in its place.
func (r *reader) rename(field string, key, value *node, names, allowed []string) (string, bool) {
	switch {
	case value.kind == badKind:
	case value.kind != textKind || !slices.Contains(allowed, value.text):
		r.add(value.at, "%s: %s is no new name; %s", field, value.shown(),
			oneOf(value.text, allowed))
	case slices.Contains(names, key.text):
		r.add(key.at, "%s: %s is still in the file; expected a name that is gone", field,
			quote(key.text))
	default:
		return value.text, true
	}
	return "", false
}
