package oncepg

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/oncekit/once/write"
)

// form is the shape of a change: what events have in common that one statement carries out, each
// with values of its own.
type form struct {
	table *table
	name  string // tells it apart from other forms, also of other tables
	// columns that get a value, in the order of the statement's arguments, and the part of a change
	// that has each one's.
	columns []column
	parts   []part
	// What is done with them: indexes of columns.
	set, onInsert, add []int
	// list is the one that is appended to, state that of a transition, newer the one that orders
	// events: an index of columns, or -1.
	list, state, newer int
	// updates and inserts are the ways that the change may take.
	updates, inserts bool
	from             []string

	texts formTexts
}

// part is one of a change.
type part int

const (
	partSet part = iota
	partOnInsert
	partAdd
	partList
	partState
	partCount
)

// formed is a change with its form and its values, as texts in the order of the form's columns.
type formed struct {
	*form
	values []*string
}

// spread is a change laid out by its parts.
type spread struct {
	kind             byte
	updates, inserts bool
	fields           [partCount]write.Fields
	newer            string
	from             []string
	// The column that is appended to, or that of the state, with its value.
	column string
	value  any
}

// spreadOut lays a change out; ok is false for one that is not known.
func spreadOut(change write.Change) (s spread, ok bool) {
	switch ch := change.(type) {
	case write.Insert:
		s = spread{kind: 'i', inserts: true}
		s.fields[partSet] = ch.Set
	case write.Upsert:
		s = spread{kind: 'u', updates: true, inserts: true, newer: ch.Newer}
		s.fields[partSet], s.fields[partOnInsert] = ch.Set, ch.SetOnInsert
		s.fields[partAdd] = ch.Increment
	case write.Increment:
		s = spread{kind: 'n', updates: true, inserts: true}
		s.fields[partOnInsert], s.fields[partAdd] = ch.SetOnInsert, ch.By
	case write.Append:
		s = spread{kind: 'a', updates: true, inserts: true, column: ch.To, value: ch.Values}
		s.fields[partOnInsert] = ch.SetOnInsert
	case write.Transition:
		s = spread{
			kind: 't', updates: true, newer: ch.Newer, from: ch.From,
			column: ch.Field, value: ch.To,
		}
		s.fields[partSet] = ch.Set
	default:
		return s, false
	}
	return s, true
}

// appendName writes the name of the change's form: whatever decides the text of its statement.
func (s *spread) appendName(b []byte) []byte {
	b = append(b, s.kind)
	b = strconv.AppendQuote(b, s.column)
	b = strconv.AppendQuote(b, s.newer)
	for _, state := range s.from {
		b = strconv.AppendQuote(b, state)
	}
	var room [8]string
	for p := range partList {
		b = append(b, '|')
		for _, name := range sortedNames(room[:0], s.fields[p]) {
			b = strconv.AppendQuote(b, name)
		}
	}
	return b
}

// sortedNames appends the names of fields in their order.
func sortedNames(names []string, fields write.Fields) []string {
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// maxForms bounds the forms that a table remembers.
const maxForms = 1024

// forms are those of a table that were seen. Safe for concurrent use.
type forms struct {
	mu     sync.Mutex
	byName map[string]*form
}

func (f *forms) get(name []byte) *form {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byName[string(name)]
}

func (f *forms) put(one *form) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byName == nil || len(f.byName) >= maxForms {
		f.byName = map[string]*form{}
	}
	f.byName[one.name] = one
}

// give finds the form of a change. The error is a *write.ShapeError.
func give(t *table, change write.Change) (formed, error) {
	s, ok := spreadOut(change)
	if !ok {
		return formed{}, &write.ShapeError{
			In: t.name, Reason: fmt.Sprintf("%T is not known", change),
		}
	}
	var room [256]byte
	name := s.appendName(append(room[:0], t.quoted...))
	f := t.forms.get(name)
	if f == nil {
		var err error
		if f, err = newForm(t, &s, string(name)); err != nil {
			return formed{}, err
		}
		t.forms.put(f)
	}
	values := make([]*string, len(f.columns))
	for i, c := range f.columns {
		v := s.value
		if p := f.parts[i]; p < partList {
			v = s.fields[p][c.name]
		}
		text, err := t.bind(c, v)
		if err != nil {
			return formed{}, err
		}
		values[i] = text
	}
	return formed{f, values}, nil
}

func newForm(t *table, s *spread, name string) (*form, error) {
	f := &form{
		table: t, name: name, list: -1, state: -1, newer: -1,
		updates: s.updates, inserts: s.inserts, from: slices.Clone(s.from),
	}
	for p, into := range []*[]int{&f.set, &f.onInsert, &f.add} {
		for _, name := range sortedNames(nil, s.fields[p]) {
			i, err := f.push(name, part(p))
			if err != nil {
				return nil, err
			}
			*into = append(*into, i)
		}
	}
	for _, i := range f.add {
		if c := f.columns[i]; c.kind != kindNumber {
			return nil, f.wrong(c, "holds "+c.takes()+", not a number")
		}
	}
	if err := f.order(s.newer); err != nil {
		return nil, err
	}
	var err error
	switch s.kind {
	case 'a':
		f.list, err = f.push(s.column, partList)
		if err != nil {
			return nil, err
		}
		if c := f.columns[f.list]; c.kind != kindJSON && c.kind != kindArray {
			return nil, f.wrong(c, "is no list: an event appends to json, jsonb and arrays")
		}
	case 't':
		f.state, err = f.push(s.column, partState)
		if err != nil {
			return nil, err
		}
		if c := f.columns[f.state]; c.kind != kindText {
			return nil, f.wrong(c, "holds "+c.takes()+", not a state, which is a text")
		}
	}
	return f, nil
}

func (f *form) push(name string, p part) (int, error) {
	c, err := f.table.column(name)
	if err != nil {
		return 0, err
	}
	f.columns, f.parts = append(f.columns, c), append(f.parts, p)
	return len(f.columns) - 1, nil
}

// order notes the column that orders events, which is one of set.
func (f *form) order(newer string) error {
	if newer == "" {
		return nil
	}
	f.newer = slices.IndexFunc(f.columns, func(c column) bool { return c.name == newer })
	switch c := f.columns[f.newer]; c.kind {
	case kindNumber, kindText, kindTime:
		return nil
	default:
		return f.wrong(c, "holds "+c.takes()+", which has no order here")
	}
}

func (f *form) wrong(c column, reason string) error {
	return &write.ShapeError{In: f.table.name, Field: c.name, Reason: reason}
}

// formTexts are the statements of a form, which cost more to write than to carry out.
type formTexts struct {
	mu    sync.Mutex
	texts [textCount]string
}

// Kinds of statements.
const (
	leanUpdate = iota
	leanInsert
	leanUpdates
	leanInserts
	whole
	wholeFollowed
	textCount
)

// get returns a text, which is written at the first time.
func (t *formTexts) get(kind int, write func() string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.texts[kind] == "" {
		t.texts[kind] = write()
	}
	return t.texts[kind]
}
