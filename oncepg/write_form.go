package oncepg

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oncekit/once/write"
)

// form is the shape of a change: what events have in common that one statement carries out, each
// with values of its own.
type form struct {
	table *table
	// columns that get a value, in the order of the statement's arguments.
	columns []column
	// What is done with them: indexes of columns.
	set, onInsert, add []int
	// list is the one that is appended to, state that of a transition, newer the one that orders
	// events: an index of columns, or -1.
	list, state, newer int
	// updates and inserts are the ways that the change may take.
	updates, inserts bool
	from             []string
}

// formed is a change with its form and its values, as texts in the order of the form's columns.
type formed struct {
	*form
	values []*string
}

// give finds the form of a change. The error is a *write.ShapeError.
func give(t *table, change write.Change) (formed, error) {
	f := formed{form: &form{table: t, list: -1, state: -1, newer: -1}}
	switch ch := change.(type) {
	case write.Insert:
		f.inserts = true
		return f, f.take(&f.set, ch.Set)
	case write.Upsert:
		f.updates, f.inserts = true, true
		if err := f.take(&f.set, ch.Set); err != nil {
			return f, err
		}
		if err := f.order(ch.Newer); err != nil {
			return f, err
		}
		if err := f.take(&f.onInsert, ch.SetOnInsert); err != nil {
			return f, err
		}
		return f, f.takeNumbers(ch.Increment)
	case write.Increment:
		f.updates, f.inserts = true, true
		if err := f.take(&f.onInsert, ch.SetOnInsert); err != nil {
			return f, err
		}
		return f, f.takeNumbers(ch.By)
	case write.Append:
		f.updates, f.inserts = true, true
		if err := f.take(&f.onInsert, ch.SetOnInsert); err != nil {
			return f, err
		}
		return f, f.takeList(ch)
	case write.Transition:
		f.updates, f.from = true, ch.From
		if err := f.take(&f.set, ch.Set); err != nil {
			return f, err
		}
		if err := f.order(ch.Newer); err != nil {
			return f, err
		}
		return f, f.takeState(ch)
	}
	return f, &write.ShapeError{In: t.name, Reason: fmt.Sprintf("%T is not known", change)}
}

// take adds a part of a change.
func (f *formed) take(part *[]int, fields write.Fields) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		c, err := f.table.column(name)
		if err != nil {
			return err
		}
		text, err := f.table.bind(c, fields[name])
		if err != nil {
			return err
		}
		*part = append(*part, f.push(c, text))
	}
	return nil
}

func (f *formed) push(c column, text *string) int {
	f.columns = append(f.columns, c)
	f.values = append(f.values, text)
	return len(f.columns) - 1
}

func (f *formed) takeNumbers(fields write.Fields) error {
	if err := f.take(&f.add, fields); err != nil {
		return err
	}
	for _, i := range f.add {
		if c := f.columns[i]; c.kind != kindNumber {
			return f.wrong(c, "holds "+c.takes()+", not a number")
		}
	}
	return nil
}

// order notes the column that orders events, which is one of set.
func (f *formed) order(newer string) error {
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

func (f *formed) takeList(ch write.Append) error {
	c, err := f.table.column(ch.To)
	if err != nil {
		return err
	}
	if c.kind != kindJSON && c.kind != kindArray {
		return f.wrong(c, "is no list: an event appends to json, jsonb and arrays")
	}
	text, err := f.table.bind(c, ch.Values)
	if err != nil {
		return err
	}
	f.list = f.push(c, text)
	return nil
}

func (f *formed) takeState(ch write.Transition) error {
	c, err := f.table.column(ch.Field)
	if err != nil {
		return err
	}
	if c.kind != kindText {
		return f.wrong(c, "holds "+c.takes()+", not a state, which is a text")
	}
	f.state = f.push(c, &ch.To)
	return nil
}

func (f *formed) wrong(c column, reason string) error {
	return &write.ShapeError{In: f.table.name, Field: c.name, Reason: reason}
}

// name tells the forms of one batch apart.
func (f *form) name() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %v %v %v %v %v %q", f.table.quoted, f.updates, f.inserts,
		f.list, f.state, f.newer, f.from)
	for _, part := range [][]int{f.set, f.onInsert, f.add} {
		fmt.Fprintf(&b, " %v", part)
	}
	for _, c := range f.columns {
		fmt.Fprintf(&b, " %q", c.name)
	}
	return b.String()
}
