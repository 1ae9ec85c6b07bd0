package oncepg

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The statement of statement.go answers whatever an event comes to, and its parts cost more to set
// up than to carry out. A single event is tried with a lean one first, which does the one thing
// that is likely: to change a row that is there, or to make one. If it does nothing it brings no
// row back, and the other statement finds out why.

// isPlain tells whether several events can be tried with a lean statement: nothing but their rows'
// being there decides what comes of them, and a key has one spelling.
func (f *form) isPlain() bool {
	return f.state < 0 && f.newer < 0 && f.list < 0 && f.table.hasPlainKey()
}

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

// leanMany writes the lean statement of several events, of which no two have the same id or the
// same key. Its arguments are those of statement.
//
//	d  the events
//	g  how many of them are recorded, and how many of their rows are there
//	w  the rows that are updated, or made
//	e  the records
//
// It does all or nothing, unless it meets a rival: if an event is recorded, or a row isn't as it
// has to be, it says so (old, there) and changes nothing. Records and rows are looked up one by one
// by their indexes, which is what OFFSET 0 and planLean are for.
func (f *form) leanMany(events string, insert bool) string {
	given := f.given(insert)
	var b strings.Builder
	b.WriteString("WITH ")
	f.writeEvents(&b, len(given))
	there := "(SELECT count(*) FROM d)"
	if insert {
		there = "0"
	}
	fmt.Fprintf(&b, "g AS MATERIALIZED (SELECT old, there, old = 0 AND there = %s AS go FROM\n"+
		"(SELECT count(*) AS old FROM d, "+
		"LATERAL (SELECT 1 FROM %s v WHERE v.id = d.eid OFFSET 0) v) v,\n"+
		"(SELECT count(*) AS there FROM d, "+
		"LATERAL (SELECT 1 FROM %s x WHERE x.%s = d.k::%s OFFSET 0) x) x),\n",
		there, events, f.table.quoted, f.key(), f.table.key.typ)
	arg := func(i int) string {
		return fmt.Sprintf("d.c%d::%s", slices.Index(given, i), f.columns[i].typ)
	}
	const goes = "(SELECT go FROM g)"
	if insert {
		names, values := []string{f.key()}, []string{"d.k::" + f.table.key.typ}
		for _, i := range given {
			names = append(names, quoteColumn(f.columns[i].name))
			values = append(values, arg(i))
		}
		fmt.Fprintf(&b, "i AS (INSERT INTO %s AS t (%s)\nSELECT %s FROM d WHERE %s\n"+
			"ON CONFLICT (%s) DO NOTHING RETURNING t.%s AS k, %s AS nums),\n"+
			"w AS (SELECT d.*, i.nums FROM i LEFT JOIN d ON d.k::%s = i.k),\n",
			f.table.quoted, strings.Join(names, ", "), strings.Join(values, ", "), goes,
			f.key(), f.key(), f.numbers(), f.table.key.typ)
	} else {
		fmt.Fprintf(&b, "w AS (UPDATE %s AS t SET %s\nFROM d WHERE t.%s = d.k::%s AND %s\n"+
			"RETURNING d.eid, d.dig, d.own, d.ekey, %s AS nums),\n",
			f.table.quoted, f.assignments(arg), f.key(), f.table.key.typ, goes, f.numbers())
	}
	fmt.Fprintf(&b, "e AS (INSERT INTO %s (id, digest, owner, target, key, outcome, numbers, at)\n"+
		"SELECT w.eid, w.dig, w.own, %s, w.ekey, 'applied', w.nums, clock_timestamp() FROM w\n"+
		"RETURNING id, numbers)\nSELECT id, numbers, NULL, NULL FROM e\n"+
		"UNION ALL SELECT NULL, NULL, old::text, there::text FROM g WHERE NOT go",
		events, literal(f.table.name))
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

// leanManyQuery is the lean statement of several events, with its arguments.
func (v *solver) leanManyQuery(jobs []*job, insert bool) query {
	f, kind := jobs[0].change.form, leanUpdates
	if insert {
		kind = leanInserts
	}
	return query{
		sql:  f.texts.get(kind, func() string { return f.leanMany(v.events, insert) }),
		args: lists(jobs, f.given(insert)),
	}
}

// planLean, for this transaction only, has the lean statement of several events planned once, by
// the indexes of the tables and not by how small they are: the plan is kept while they grow.
const planLean = "SELECT set_config('plan_cache_mode', 'force_generic_plan', true), " +
	"set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), " +
	"set_config('enable_mergejoin', 'off', true)"

// Columns of the answer of leanMany.
const (
	leanID = iota // nil: nothing was done
	leanNumbers
	leanOld
	leanThere
)

// readLean gives events what the answer of a lean statement says. If it says nothing of one,
// another statement has to.
func (p *plan) readLean(rows []row) {
	jobs := p.jobs[0]
	if p.lean == leanOne {
		if len(rows) == 1 {
			jobs[0].applied(rows[0][0])
		}
		return
	}
	byID := byID(jobs)
	for _, r := range rows {
		if r[leanID] == nil {
			there := *r[leanThere]
			p.blocked = true
			p.twin = *r[leanOld] == "0" && (there == "0" || there == strconv.Itoa(len(jobs)))
		} else if j := byID[*r[leanID]]; j != nil {
			j.applied(r[leanNumbers])
		}
	}
}

// hints remember of forms what became of the last events.
type hints struct {
	mu     sync.Mutex
	byForm map[string]hint
}

// hint is what is likely to come next.
type hint struct {
	inserts bool // a row that was not there
	mixed   int  // for so many batches: not all events new, or not all rows alike
}

const (
	// maxHints bounds them; a hint that is forgotten costs a round trip.
	maxHints = 1024
	// mixedLast is how many batches are not tried with a lean statement after one for which it did
	// nothing.
	mixedLast = 16
)

// insert tells which lean statement is likely to be the right one.
func (h *hints) insert(f *form) bool {
	if !f.updates || !f.inserts {
		return f.inserts
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byForm[f.name].inserts
}

// isMixed tells whether the next batch is likely to be one for which a lean statement does nothing.
func (h *hints) isMixed(f *form) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	hint := h.byForm[f.name]
	if hint.mixed == 0 {
		return false
	}
	hint.mixed--
	h.byForm[f.name] = hint
	return true
}

// wrong notes that the other lean statement was the right one.
func (h *hints) wrong(f *form) {
	h.change(f, func(hint *hint) { hint.inserts = !hint.inserts })
}

// mixed notes that a lean statement did nothing for a batch.
func (h *hints) mixed(f *form) { h.change(f, func(hint *hint) { hint.mixed = mixedLast }) }

func (h *hints) change(f *form, change func(*hint)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byForm == nil || len(h.byForm) >= maxHints {
		h.byForm = map[string]hint{}
	}
	hint := h.byForm[f.name]
	change(&hint)
	h.byForm[f.name] = hint
}
