package oncepg

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Columns of a statement's answer.
const (
	atWhat = iota // new, old or not
	atID
	atOutcome // or, for what was not written, why
	atNumbers // or the state
	atTime
	atDigest
	atOwner
	atTarget
	atKey
	// What comes last has nothing to say: see standbyBarrier. A repeat is not told of an event that
	// a fail-over may forget.
)

// What an answer's row says of its event.
const (
	isNew = "new" // it was written now
	isOld = "old" // it was written before
	isNot = "not" // it was not written
)

// Why an event was not written.
const (
	notExists  = "exists"
	notMissing = "missing"
	notState   = "state"
	notShape   = "shape"
)

// plainArgs are the arguments before the columns' values: id, digest, owner, key as written, key.
const plainArgs = 5

// statement writes the one statement that carries out all events of a form, of which no two have
// the same id or the same key. Its arguments are arrays, an element an event: plainArgs, the
// columns' values, and for a transition the states from which it starts.
//
//	d      the events
//	old    the records of those that are recorded
//	fresh  the others, with the values in the columns' types
//	u      updates those rows that are there
//	i      inserts the others
//	hits   what came of each: applied or stale
//	e      records it
//
// OFFSET 0 has records looked up one by one by their index: rather than look up a hundred, the
// planner would read thousands. NOT IN has it think that half of the events are new, so that it
// joins what follows by hash; with NOT EXISTS it expects none, and compares all with all.
//
// Rows that are there are updated and only others inserted, rather than by ON CONFLICT DO UPDATE:
// that would check NOT NULL and CHECK against a row which is not to be. Records come last, because
// they hold the numbers that came out: a rival with the same event then breaks their unique index,
// which undoes the statement. All parts see the same snapshot, and an update that waited for a
// rival goes on with the newer row. An event for which no row comes back met a rival: it is tried
// again.
//
// followed tells that events after it are for the same rows: if one met a rival, all is undone, or
// the later ones would be written before it.
func (f *form) statement(events string, followed bool) string {
	var b strings.Builder
	b.WriteString("WITH ")
	f.writeEvents(&b, len(f.columns))
	fmt.Fprintf(&b, "old AS MATERIALIZED (SELECT v.* FROM d, "+
		"LATERAL (SELECT * FROM %s v WHERE v.id = d.eid OFFSET 0) v),\n", events)
	f.writeFresh(&b)
	f.writeUpdate(&b)
	f.writeInsert(&b)
	f.writeHits(&b, followed)
	fmt.Fprintf(&b, "e AS (INSERT INTO %s "+
		"(id, digest, owner, target, key, outcome, numbers, at)\n"+
		"SELECT h.eid, h.dig, h.own, %s, h.ekey, h.outcome, "+
		"h.nums, clock_timestamp() FROM hits h\n"+
		"RETURNING id, outcome, numbers, at)\n", events, literal(f.table.name))
	f.writeAnswer(&b)
	return b.String()
}

// writeEvents makes rows of the arguments: plainArgs, and the values of some columns.
func (f *form) writeEvents(b *strings.Builder, columns int) {
	names := []string{"eid", "dig", "own", "ekey", "k"}
	for i := range columns {
		names = append(names, fmt.Sprintf("c%d", i))
	}
	b.WriteString("d AS MATERIALIZED (SELECT * FROM unnest(")
	for i := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		typ := "text"
		if i == 1 || i == 2 {
			typ = "bytea"
		}
		fmt.Fprintf(b, "$%d::text::%s[]", i+1, typ)
	}
	fmt.Fprintf(b, ") AS d(%s)),\n", strings.Join(names, ", "))
}

// writeFresh leaves one of several keys that are one, where a key has several spellings: the others
// come again.
func (f *form) writeFresh(b *strings.Builder) {
	b.WriteString("fresh AS MATERIALIZED (SELECT ")
	if !f.table.hasPlainKey() {
		fmt.Fprintf(b, "DISTINCT ON (d.k::%s) ", f.table.key.typ)
	}
	fmt.Fprintf(b, "d.eid, d.dig, d.own, d.ekey, d.k::%s AS k", f.table.key.typ)
	for i, c := range f.columns {
		fmt.Fprintf(b, ", d.c%d::%s AS c%d", i, c.typ, i)
	}
	b.WriteString("\nFROM d WHERE d.eid NOT IN (SELECT old.id FROM old)),\n")
}

func (f *form) key() string { return quoteColumn(f.table.key.name) }

// argument writes the event's value of a column, by the column's index.
type argument func(i int) string

// ofFresh is the argument of a row of fresh.
func ofFresh(i int) string { return fmt.Sprintf("f.c%d", i) }

func (f *form) writeUpdate(b *strings.Builder) {
	if !f.updates {
		return
	}
	fmt.Fprintf(b, "u AS (UPDATE %s AS t SET %s\nFROM fresh f WHERE t.%s = f.k%s\n"+
		"RETURNING f.eid, f.dig, f.own, f.ekey, %s AS nums),\n",
		f.table.quoted, f.assignments(ofFresh), f.key(),
		f.conditions(ofFresh, f.fromArg()), f.numbers())
}

// fromArg is the number of the argument with a transition's states.
func (f *form) fromArg() int { return plainArgs + len(f.columns) + 1 }

// assignments are those of a row that is there, t.
func (f *form) assignments(arg argument) string {
	var sets []string
	assign := func(i int, text string) {
		sets = append(sets, quoteColumn(f.columns[i].name)+" = "+text)
	}
	for _, i := range f.set {
		assign(i, arg(i))
	}
	for _, i := range f.add {
		assign(i, "coalesce(t."+quoteColumn(f.columns[i].name)+", 0) + "+arg(i))
	}
	if f.list >= 0 {
		assign(f.list, f.appended(arg))
	}
	if f.state >= 0 {
		assign(f.state, arg(f.state))
	}
	if len(sets) == 0 { // the row has to be there, and that is all
		return f.key() + " = t." + f.key()
	}
	return strings.Join(sets, ", ")
}

// conditions are those under which a row that is there, t, is changed.
func (f *form) conditions(arg argument, from int) string {
	var all string
	if f.state >= 0 {
		all += " AND " + f.startable("t", from)
	}
	if f.newer >= 0 {
		all += " AND " + f.isNewer("t", arg)
	}
	if f.list >= 0 {
		all += " AND " + f.isList("t")
	}
	return all
}

// appended is the list with the event's values at its end.
func (f *form) appended(arg argument) string {
	c := f.columns[f.list]
	name := "t." + quoteColumn(c.name)
	if c.kind == kindArray {
		return fmt.Sprintf("coalesce(%s, '{}') || %s", name, arg(f.list))
	}
	return fmt.Sprintf("(coalesce(%s::jsonb, '[]') || %s::jsonb)::%s", name, arg(f.list), c.typ)
}

// isList tells whether what a row has can be appended to.
func (f *form) isList(row string) string {
	c := f.columns[f.list]
	if c.kind == kindArray {
		return "true"
	}
	return fmt.Sprintf("coalesce(jsonb_typeof(%s.%s::jsonb) = 'array', true)",
		row, quoteColumn(c.name))
}

// startable tells whether a row is in a state from which the transition starts.
func (f *form) startable(row string, from int) string {
	return fmt.Sprintf("coalesce(%s.%s::text = ANY ($%d::text::text[]), false)",
		row, quoteColumn(f.columns[f.state].name), from)
}

// isNewer tells whether the event is newer than a row.
func (f *form) isNewer(row string, arg argument) string {
	c := f.columns[f.newer]
	there, mine := row+"."+quoteColumn(c.name), arg(f.newer)
	if c.kind == kindText {
		there, mine = there+`::text COLLATE "C"`, mine+`::text COLLATE "C"`
	}
	if c.kind == kindTime || c.kind == kindNumber { // as exactly as the column keeps it
		mine += "::" + c.full
	}
	return fmt.Sprintf("coalesce(%s < %s, true)", there, mine)
}

// numbers is what the columns that were added to hold now, as write.EncodeNumbers writes it.
func (f *form) numbers() string {
	if len(f.add) == 0 {
		return "NULL::text"
	}
	var b strings.Builder
	before := "{"
	for _, i := range f.add {
		name := f.columns[i].name
		member, _ := json.Marshal(name) // a text can always be written
		b.WriteString(literal(before + string(member) + ":"))
		fmt.Fprintf(&b, " || coalesce(t.%s::text, 'null') || ", quoteColumn(name))
		before = ","
	}
	return b.String() + "'}'"
}

func (f *form) writeInsert(b *strings.Builder) {
	if !f.inserts {
		return
	}
	names, values := []string{f.key()}, []string{"f.k"}
	for i, c := range f.columns {
		names = append(names, quoteColumn(c.name))
		values = append(values, fmt.Sprintf("f.c%d", i))
	}
	fmt.Fprintf(b, "i AS (INSERT INTO %s AS t (%s)\nSELECT %s FROM fresh f\nWHERE ",
		f.table.quoted, strings.Join(names, ", "), strings.Join(values, ", "))
	if f.updates { // nearly always all were
		b.WriteString("(SELECT count(*) FROM u) < (SELECT count(*) FROM fresh) AND ")
	}
	fmt.Fprintf(b, "NOT EXISTS (SELECT 1 FROM %s x WHERE x.%s = f.k)\n", f.table.quoted, f.key())
	fmt.Fprintf(b, "ON CONFLICT (%s) DO NOTHING RETURNING t.%s AS k, %s AS nums),\n",
		f.key(), f.key(), f.numbers())
}

// writeHits brings an event whose row got another key than the event's (by a trigger, perhaps)
// without its id, and with followed one that met a rival twice. Neither can be recorded, so that
// the statement is undone.
func (f *form) writeHits(b *strings.Builder, followed bool) {
	var parts []string
	if f.updates {
		parts = append(parts, "SELECT u.*, 'applied' AS outcome FROM u")
	}
	if f.inserts {
		parts = append(parts,
			"SELECT f.eid, f.dig, f.own, f.ekey, i.nums, 'applied' AS outcome "+
				"FROM i LEFT JOIN fresh f ON f.k = i.k")
	}
	if f.newer >= 0 {
		parts = append(parts, fmt.Sprintf("SELECT f.eid, f.dig, f.own, f.ekey, "+
			"NULL::text AS nums, 'stale' AS outcome\n"+
			"FROM fresh f JOIN %s x ON x.%s = f.k WHERE NOT %s",
			f.table.quoted, f.key(), f.isNewer("x", ofFresh)))
	}
	if followed {
		parts = append(parts, "SELECT f.eid, f.dig, f.own, f.ekey, "+
			"NULL::text AS nums, 'missed' AS outcome\nFROM (VALUES (1), (2)) twice, "+
			f.freshRows()+"\nWHERE "+f.isMissed())
	}
	fmt.Fprintf(b, "hits AS MATERIALIZED (%s),\n", strings.Join(parts, "\nUNION ALL "))
}

// micros is a time as a whole number of microseconds since 1970.
const micros = "(extract(epoch FROM %s.at) * 1000000)::bigint::text"

func (f *form) writeAnswer(b *strings.Builder) {
	fmt.Fprintf(b, "SELECT '"+isNew+"', id, outcome, numbers, "+micros+
		", NULL, NULL, NULL, NULL, NULL FROM e\n", "e")
	fmt.Fprintf(b, "UNION ALL SELECT '"+isOld+"', v.id, v.outcome, v.numbers, "+micros+
		", encode(v.digest, 'hex'), encode(v.owner, 'hex'), v.target, v.key, "+standbyBarrier+"\n"+
		"FROM old v\n", "v")
	why, state := f.whyNot(), "NULL"
	if why == "" {
		return
	}
	if f.state >= 0 {
		state = "x." + quoteColumn(f.columns[f.state].name) + "::text"
	}
	fmt.Fprintf(b, "UNION ALL SELECT '"+isNot+"', f.eid, CASE %s END, %s, "+
		"NULL, NULL, NULL, NULL, NULL, NULL\nFROM %s\n"+
		"WHERE NOT EXISTS (SELECT 1 FROM e WHERE e.id = f.eid)", why, state, f.freshRows())
}

// whyNot are the conditions under which an event is not written, as those of a CASE; empty if there
// are none.
func (f *form) whyNot() string {
	switch {
	case f.state >= 0:
		return fmt.Sprintf("WHEN x.%s IS NULL THEN '"+notMissing+"' WHEN NOT %s THEN '"+
			notState+"'", f.key(), f.startable("x", f.fromArg()))
	case f.list >= 0:
		return fmt.Sprintf("WHEN x.%s IS NOT NULL AND NOT %s THEN '"+notShape+"'",
			f.key(), f.isList("x"))
	case !f.updates:
		return fmt.Sprintf("WHEN x.%s IS NOT NULL THEN '"+notExists+"'", f.key())
	}
	return ""
}

// freshRows are the events, with their rows as they were before the statement.
func (f *form) freshRows() string {
	return fmt.Sprintf("fresh f LEFT JOIN %s x ON x.%s = f.k", f.table.quoted, f.key())
}

// isMissed tells that an event did nothing although nothing is against it: it met a rival.
func (f *form) isMissed() string {
	all := "true"
	if f.updates {
		all += " AND NOT EXISTS (SELECT 1 FROM u WHERE u.eid = f.eid)"
	}
	if f.inserts {
		all += " AND NOT EXISTS (SELECT 1 FROM i WHERE i.k = f.k)"
	}
	if f.newer >= 0 {
		all += fmt.Sprintf(" AND (x.%s IS NULL OR %s)", f.key(), f.isNewer("x", ofFresh))
	}
	if why := f.whyNot(); why != "" {
		all += " AND CASE " + why + " END IS NULL"
	}
	return all
}

// literal quotes a text, whatever standard_conforming_strings is.
func literal(s string) string {
	s = strings.ReplaceAll(s, "'", "''")
	if strings.Contains(s, `\`) {
		return " E'" + strings.ReplaceAll(s, `\`, `\\`) + "'"
	}
	return "'" + s + "'"
}
