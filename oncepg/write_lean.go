package oncepg

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// The statement of statement.go answers whatever an event comes to, and its parts cost more to set
// up than to carry out. A single event is tried with a lean one first, which does the one thing
// that is likely: to change a row that is there, or to make one. If it does nothing it brings no
// row back, and the other statement finds out why.

// given are the columns whose values the lean statement takes: an update needs none of those on
// insert.
func (f *form) given(insert bool) []int {
	var list []int
	for i := range f.columns {
		if insert || f.parts[i] != partOnInsert {
			list = append(list, i)
		}
	}
	return list
}

// lean writes the statement that updates a row, or with insert makes one, and records the event.
// Its arguments are those of statement, of one event.
func (f *form) lean(events string, insert bool) string {
	given := f.given(insert)
	arg := func(i int) string {
		return fmt.Sprintf("$%d::text::%s", plainArgs+slices.Index(given, i)+1, f.columns[i].typ)
	}
	key := "$5::text::" + f.table.key.typ
	fresh := "NOT EXISTS (SELECT 1 FROM " + events + " v WHERE v.id = $1::text)"
	var b strings.Builder
	if insert {
		names, values := []string{f.key()}, []string{key}
		for _, i := range given {
			names = append(names, quoteColumn(f.columns[i].name))
			values = append(values, arg(i))
		}
		fmt.Fprintf(&b, "WITH w AS (INSERT INTO %s AS t (%s) SELECT %s\nWHERE %s "+
			"AND NOT EXISTS (SELECT 1 FROM %s x WHERE x.%s = %s)\n"+
			"ON CONFLICT (%s) DO NOTHING", f.table.quoted, strings.Join(names, ", "),
			strings.Join(values, ", "), fresh, f.table.quoted, f.key(), key, f.key())
	} else {
		fmt.Fprintf(&b, "WITH w AS (UPDATE %s AS t SET %s\nWHERE t.%s = %s AND %s%s",
			f.table.quoted, f.assignments(arg), f.key(), key, fresh,
			f.conditions(arg, plainArgs+len(given)+1))
	}
	id := "$1::text"
	if insert { // a row that got another key than the event's, by a trigger perhaps, is undone
		id = "CASE WHEN w.k = " + key + " THEN $1::text END"
	}
	fmt.Fprintf(&b, " RETURNING t.%s AS k, %s AS nums)\n"+
		"INSERT INTO %s (id, digest, owner, target, key, outcome, numbers, at)\n"+
		"SELECT %s, $2::bytea, $3::bytea, %s, $4::text, "+
		"'applied', w.nums, clock_timestamp() FROM w RETURNING numbers",
		f.key(), f.numbers(), events, id, literal(f.table.name))
	return b.String()
}

// leanQuery is the lean statement of one event, with its arguments.
func (v *solver) leanQuery(j *job, insert bool) query {
	f, kind := j.change.form, leanUpdate
	if insert {
		kind = leanInsert
	}
	q := query{
		sql:  f.texts.get(kind, func() string { return f.lean(v.events, insert) }),
		args: make([]any, 0, plainArgs+len(f.columns)+1),
	}
	q.args = append(q.args, j.ID, j.digest[:], j.owner[:], j.ekey, keyText(j.Key))
	for i, value := range j.change.values {
		if insert || f.parts[i] != partOnInsert {
			q.args = append(q.args, value)
		}
	}
	if f.state >= 0 {
		q.args = append(q.args, f.fromText())
	}
	return q
}

// fromText are the states from which a transition starts, as an array.
func (f *form) fromText() string {
	from := make([]*string, len(f.from))
	for i := range f.from {
		from[i] = &f.from[i]
	}
	return arrayText(from)
}

// hints remember of forms whether the last event made a row that was not there.
type hints struct {
	mu      sync.Mutex
	inserts map[string]bool
}

// maxHints bounds them; a hint that is forgotten costs a round trip.
const maxHints = 1024

// insert tells which lean statement is likely to be the right one.
func (h *hints) insert(f *form) bool {
	if !f.updates || !f.inserts {
		return f.inserts
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inserts[f.name]
}

// wrong notes that it was the other one.
func (h *hints) wrong(f *form) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inserts == nil || len(h.inserts) >= maxHints {
		h.inserts = map[string]bool{}
	}
	h.inserts[f.name] = !h.inserts[f.name]
}
