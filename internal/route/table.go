package route

import (
	"fmt"
	"slices"
	"strings"
)

// Table finds the route of a request. It is safe for concurrent use.
type Table struct {
	strict   bool
	byMethod map[string][]entry // the most specific ones first
}

type entry struct {
	Pattern
	n int // in the order in which they were given
}

// NewTable makes a table. If strict is true, paths are compared in their normal form ([Clean]), and
// sent so; a slash at the end doesn't count where no pattern asks for it. Otherwise they are
// compared and sent as they come. It refuses two patterns that name the same requests.
func NewTable(patterns []Pattern, strict bool) (*Table, error) {
	t := &Table{strict: strict, byMethod: map[string][]entry{}}
	for i, p := range patterns {
		for _, q := range patterns[:i] {
			if p.Same(q) {
				return nil, fmt.Errorf("%s and %s name the same requests", q, p)
			}
		}
		t.byMethod[p.method] = append(t.byMethod[p.method], entry{p, i})
	}
	for _, list := range t.byMethod {
		slices.SortStableFunc(list, func(a, b entry) int { return a.compare(b.Pattern) })
	}
	return t, nil
}

// Find returns the number of the pattern that a request matches most specifically, -1 for none, and
// the path to send, both escaped. The error is [ErrAmbiguous], with strict only.
func (t *Table) Find(method, escaped string) (n int, path string, err error) {
	if !t.strict {
		return t.find(method, escaped), escaped, nil
	}
	path = Clean(escaped)
	n = t.find(method, path)
	if other, differs := otherReading(path); differs && t.find(method, other) != n {
		return -1, "", ErrAmbiguous
	}
	// An origin that doesn't tell post from POST would run it.
	if upper := strings.ToUpper(method); upper != method && t.find(upper, path) >= 0 {
		return -1, "", ErrAmbiguous
	}
	return n, path, nil
}

func (t *Table) find(method, escaped string) int {
	list := t.byMethod[method]
	if len(list) == 0 {
		return -1
	}
	segments := split(escaped)
	for i := range list {
		if list[i].matches(segments, t.strict) {
			return list[i].n
		}
	}
	return -1
}
