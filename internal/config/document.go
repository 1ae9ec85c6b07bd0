package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/expr"
	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/write"
)

// DocumentConfig is the document that a callback changes.
type DocumentConfig struct {
	// Database is the name of a DatabaseConfig.
	Database string
	Target   write.Target
	// Event makes what a callback changes; its id is still empty. The error says which field of the
	// file has no value of its kind.
	Event func(*inbox.Message) (write.Event, error)
}

// members are the fields of one kind of change, in the order of the file.
type members []member

type member struct {
	name  string
	value evaluator
	at    place // of the name
}

// document reads what a callback changes.
func (r *reader) document(to *object, source string, vars expr.VarSet) (*DocumentConfig, keyFn) {
	o := to.object("document")
	if o.n == nil {
		return nil, nil
	}
	c := &DocumentConfig{}
	var kind DatabaseKind
	if n := o.textNode("database", "the name of a database"); n != nil {
		o.out.put("database", nodeOut(n))
		if r.reference(n, "database", "database", r.databaseNames) {
			c.Database = n.text
			r.writesTo[source] = n.text
			kind = r.databaseKind(n.text)
		}
	} else if !o.has("database") {
		r.add(o.at(), "document has no `database`; expected the name of one under `databases`")
	}
	c.Target.Name = r.collection(o, kind)
	key := r.documentKey(o, c, kind, vars)
	set := r.members(o, "set", vars)
	onInsert := r.members(o, "set_on_insert", vars)
	inc := r.members(o, "inc", vars)
	r.increments(o)
	newer := r.newer(o)
	r.oncePerMember(c.Target.Key, kind, map[string]members{
		"set": set, "set_on_insert": onInsert, "inc": inc})
	if !o.has("set") && !o.has("inc") && !o.has("set_on_insert") {
		r.add(o.at(), "document changes nothing; expected `set`, `set_on_insert` or `inc`")
	}
	o.close("document")
	c.Event = eventFunc(c.Target.Name, key, change{set, onInsert, inc, newer})
	return c, key
}

// databaseKind is that of a declared database; empty: it was refused.
func (r *reader) databaseKind(name string) DatabaseKind {
	for _, d := range r.c.Databases {
		if d.Name == name {
			return d.Kind
		}
	}
	return ""
}

// maxCollection is how long the name of a collection or table may be, in bytes: MongoDB bounds it
// together with the database's at 255, PostgreSQL at 63.
const maxCollection = 120

// collection reads the name of the collection or table.
func (r *reader) collection(o *object, kind DatabaseKind) string {
	n := o.textNode("in", "the name of a collection or table")
	if n == nil {
		if !o.has("in") {
			r.add(o.at(), "document has no `in`; expected the name of a collection or table")
		}
		return ""
	}
	o.out.put("in", nodeOut(n))
	const want = "expected the name of a collection or table, up to 120 bytes without $ and" +
		" control characters"
	switch {
	case n.text == "" || len(n.text) > maxCollection || strings.Contains(n.text, "$") ||
		strings.ContainsFunc(n.text, isControl):
		r.add(n.at, "in is %s; %s", n.show(), want)
	case strings.HasPrefix(n.text[strings.LastIndex(n.text, ".")+1:], ownPrefix):
		r.add(n.at, "in is %s; what begins with %s belongs to once, expected another name",
			n.show(), ownPrefix)
	case kind == MongoDB && strings.HasPrefix(n.text, "system."):
		r.add(n.at, "in is %s, which belongs to MongoDB itself; %s", n.show(), want)
	}
	return n.text
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// keyFn makes the key of the document.
type keyFn func(*expr.Vars) (any, error)

// documentKey reads by what the document is found: `id: VALUE`, or `key: {MEMBER: VALUE}`.
func (r *reader) documentKey(o *object, c *DocumentConfig, kind DatabaseKind,
	vars expr.VarSet,
) keyFn {
	const want = "such as {payment_id: \"${body.id}\"}, or `id` for the member %s"
	id, key := o.get("id"), o.get("key")
	switch {
	case o.has("id") == o.has("key"):
		r.add(o.at(), "document has one of `id` and `key`; expected the member by which documents"+
			" are found, and its value, "+want, kind.defaultKey())
		return nil
	case id != nil:
		o.out.put("id", nodeOut(id))
		c.Target.Key = kind.defaultKey()
		r.oneKeyPerTarget(c, id.at)
		return r.keyValue(id, "id", vars)
	case key == nil || key.kind == badKind:
		return nil
	case key.kind != mapKind || len(key.entries) != 1:
		r.add(key.at, "key is %s; expected one member, by which there is a unique index, "+want,
			severalOr(key), kind.defaultKey())
		return nil
	}
	o.out.put("key", nodeOut(key))
	e := key.entries[0]
	if r.memberName(e.key, "key") {
		c.Target.Key = e.key.text
		r.oneKeyPerTarget(c, e.key.at)
	}
	return r.keyValue(e.value, "key", vars)
}

func severalOr(n *node) string {
	if n.kind == mapKind {
		return "a map of " + strconv.Itoa(len(n.entries)) + " members"
	}
	return n.what()
}

// targetKey is the member by which the documents of a collection are found, and where it was named.
type targetKey struct {
	name string
	at   place
}

// oneKeyPerTarget refuses a second source that finds the documents of a collection otherwise.
func (r *reader) oneKeyPerTarget(c *DocumentConfig, at place) {
	target := [2]string{c.Database, c.Target.Name}
	first, known := r.targetKeys[target]
	if !known {
		r.targetKeys[target] = targetKey{c.Target.Key, at}
		return
	}
	if first.name != c.Target.Key {
		r.add(at, "the documents of %s are found by %s here, and by %s in line %d; expected one"+
			" member for all sources", quote(c.Target.Name), quote(c.Target.Key),
			quote(first.name), first.at.line)
	}
}

// keyValue reads the value of a key.
func (r *reader) keyValue(n *node, what string, vars expr.VarSet) keyFn {
	if n.kind != badKind && n.kind != textKind && n.kind != numberKind {
		r.add(n.at, "%s is %s; expected a text such as \"${body.id}\", or a whole number", what,
			n.what())
		return nil
	}
	t := r.tree(n, what, vars, expr.TemplateOptions{})
	if t == nil {
		return nil
	}
	return func(v *expr.Vars) (any, error) {
		got, err := t.Eval(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		key, err := documentKeyOf(got)
		if err != nil {
			return nil, fmt.Errorf("%s %s %w", what, quote(n.raw), err)
		}
		return key, nil
	}
}

// documentKeyOf takes a text or a whole number as a key; what is neither would find no document, or
// all of them the same.
func documentKeyOf(v any) (any, error) {
	switch v := v.(type) {
	case string:
		switch {
		case v == "":
			return nil, errors.New("is empty")
		case len(v) > write.MaxID:
			return nil, fmt.Errorf("is longer than %d bytes", write.MaxID)
		}
		return v, nil
	case int64:
		return v, nil
	case float64: // 7.0 is the number 7
		if i := int64(v); math.Abs(v) < 1<<53 && float64(i) == v {
			return i, nil
		}
	case nil:
		return nil, errors.New("is null")
	}
	if v == expr.Absent {
		return nil, errors.New("is missing")
	}
	switch v.(type) {
	case uint64, float64, value.Number:
		return nil, errors.New("is a number, but no whole one of 64 bits")
	}
	return nil, errors.New("is " + value.KindOf(v) + ", no text or whole number")
}

// members reads a map of members to values.
func (r *reader) members(o *object, field string, vars expr.VarSet) members {
	n := o.get(field)
	if n == nil || n.kind == badKind {
		return nil
	}
	if n.kind != mapKind || len(n.entries) == 0 {
		what := n.what()
		if n.kind == mapKind {
			what = "empty"
		}
		r.add(n.at, "%s is %s; expected a map of members or columns to values", field, what)
		return nil
	}
	o.out.put(field, nodeOut(n))
	var list members
	for _, e := range n.entries {
		if !r.memberName(e.key, field) || r.hiddenMember(e.key, e.value) {
			continue
		}
		what := field + " " + e.key.text
		if t := r.tree(e.value, what, vars, expr.TemplateOptions{}); t != nil {
			list = append(list, member{e.key.text, t, e.key.at})
		}
	}
	return list
}

// hiddenMember tells a value that was hidden when the file was printed.
func (r *reader) hiddenMember(key, value *node) bool {
	if !secretField(key.text) || value.text != masked {
		return false
	}
	r.add(value.at, "%s is %s, which stands for a secret that was hidden; expected the value"+
		" itself", quote(key.text), masked)
	return true
}

// memberName tells a name that reaches into a document or that a database takes for an operator.
func (r *reader) memberName(n *node, field string) bool {
	switch {
	case n.kind == badKind:
		return false
	case n.raw == "" || len(n.raw) > write.MaxName || strings.ContainsFunc(n.raw, isControl):
		r.add(n.at, "%s names a member without a name, or with one that is too long; expected 1"+
			" to %d bytes without control characters", field, write.MaxName)
	case strings.Contains(n.raw, ".") || strings.HasPrefix(n.raw, "$"):
		r.add(n.at, "%s names the member %s; expected a name without a dot, which would reach into"+
			" it, and without a $ in front, which would be an operator", field, quote(n.raw))
	default:
		return true
	}
	return false
}

// increments tells what can't be added.
func (r *reader) increments(o *object) {
	n := o.n.member("inc")
	if n == nil || n.kind != mapKind {
		return
	}
	for _, e := range n.entries {
		if e.value.kind == badKind || e.value.isNumber() ||
			e.value.kind == textKind && !e.value.filled && onlyReference(e.value) {
			continue
		}
		r.add(e.value.at, "inc %s is %s; expected a number, or \"${…}\" alone, which keeps the"+
			" type of its value", quote(e.key.text), e.value.what())
	}
}

// newer reads the member that has to grow.
func (r *reader) newer(o *object) string {
	n := o.textNode("newer", "a member of `set`")
	if n == nil {
		return ""
	}
	o.out.put("newer", nodeOut(n))
	set := o.n.member("set")
	switch {
	case set == nil:
		r.add(n.at, "newer names the member %s, and there is no `set`; expected a member of it",
			n.show())
	case set.kind == mapKind && set.member(n.text) == nil:
		var names []string
		for _, e := range set.entries {
			names = append(names, e.key.text)
		}
		r.add(n.at, "newer names the member %s, which `set` doesn't have; %s", n.show(),
			oneOf(n.text, names))
	}
	return n.text
}

// ownMember of a document, and collections and tables that begin with ownPrefix, are where a
// database keeps what makes a write happen once, and a store what it holds.
const ownMember, ownPrefix = "_once", "once_"

// oncePerMember tells a member that would be changed twice, or by which documents are found.
func (r *reader) oncePerMember(key string, kind DatabaseKind, all map[string]members) {
	first := map[string]string{}
	for _, field := range []string{"set", "set_on_insert", "inc"} {
		for _, m := range all[field] {
			switch before, known := first[m.name]; {
			case m.name == key:
				r.add(m.at, "%s names %s, by which the document is found; expected other members",
					field, quote(m.name))
			case kind == MongoDB && m.name == ownMember:
				r.add(m.at, "%s names %s, in which once keeps the ids of events under way;"+
					" expected other members", field, quote(m.name))
			case known:
				r.add(m.at, "%s names the member %s, which `%s` changes already; expected each"+
					" member once", field, quote(m.name), before)
			default:
				first[m.name] = field
			}
		}
	}
}

// change is what a callback does to its document.
type change struct {
	set, onInsert, inc members
	newer              string
}

// eventFunc makes a DocumentConfig's Event.
func eventFunc(in string, key keyFn, c change) func(*inbox.Message) (write.Event, error) {
	return func(m *inbox.Message) (write.Event, error) {
		vars := messageVars(m)
		e := write.Event{In: in}
		var err error
		if e.Key, err = key(&vars); err != nil {
			return e, err
		}
		var set, onInsert, inc write.Fields
		for _, part := range []struct {
			field string
			from  members
			to    *write.Fields
		}{{"set", c.set, &set}, {"set_on_insert", c.onInsert, &onInsert}, {"inc", c.inc, &inc}} {
			if *part.to, err = part.from.eval(part.field, &vars); err != nil {
				return e, err
			}
		}
		e.Change = write.Upsert{
			Set: set, SetOnInsert: onInsert, Increment: inc, Newer: c.newer,
		}
		if len(c.set) == 0 && len(c.inc) > 0 {
			e.Change = write.Increment{By: inc, SetOnInsert: onInsert}
		}
		return e, nil
	}
}

// eval makes the values; a member whose value is absent is left out.
func (list members) eval(field string, vars *expr.Vars) (write.Fields, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make(write.Fields, len(list))
	for _, m := range list {
		v, err := m.value.Eval(vars)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", field, m.name, err)
		}
		if v != expr.Absent {
			out[m.name] = written(v)
		}
	}
	return out, nil
}

// written gives a value the types of package write: the numbers that no Go type holds keep their
// literal.
func written(v any) any {
	switch v := v.(type) {
	case uint64:
		return json.Number(strconv.FormatUint(v, 10))
	case value.Number:
		return json.Number(string(v))
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = written(v[i])
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for name := range v {
			m[name] = written(v[name])
		}
		return m
	}
	return v
}
