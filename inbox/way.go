package inbox

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/oncekit/once/internal/value"
)

const (
	// maxWays bounds the lists of a message that are tried.
	maxWays = 8

	// maxTexts is how deep texts that are JSON are looked into: a robot's text holds a list, whose
	// elements may have such texts of their own.
	maxTexts = 2
)

// way leads from a message's body to a list in it, step by step.
type way []step

// step goes to a member of an object, to an element of a list, or into a text that is JSON.
type step struct {
	name  string // of the member
	index int    // of the element
	text  bool   // it goes into a text
	tree  any    // the value of that text
}

// waysTo returns the ways to lists that hold all items in their order: first to those that hold the
// items themselves, then to those that hold equal ones, also inside texts that are JSON.
func waysTo(body any, items []any) []way {
	s := search{items: items, same: isSame}
	s.walk(body, 0)
	if len(s.found) == 0 {
		s.same, s.texts = value.Equal, true
		s.walk(body, 0)
	}
	return s.found
}

// search looks for lists in a value.
type search struct {
	items []any
	same  func(a, b any) bool
	texts bool // look into texts, too
	at    way
	found []way
}

func (s *search) walk(v any, inTexts int) {
	if len(s.found) >= maxWays {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			s.into(step{name: name}, v[name], inTexts)
		}
	case []any:
		if s.holds(v) {
			s.found = append(s.found, slices.Clone(s.at))
		}
		for i := range v {
			s.into(step{index: i}, v[i], inTexts)
		}
	case string:
		if !s.texts || inTexts >= maxTexts || !looksLikeJSON(v) {
			return
		}
		tree, err := value.Decode([]byte(v), value.Limits{Depth: value.MaxDepth})
		if err == nil {
			s.into(step{text: true, tree: tree}, tree, inTexts+1)
		}
	}
}

func (s *search) into(next step, v any, inTexts int) {
	switch v.(type) {
	case map[string]any, []any, string:
		s.at = append(s.at, next)
		s.walk(v, inTexts)
		s.at = s.at[:len(s.at)-1]
	}
}

// holds reports whether a list has all items in their order; it may have others between them.
func (s *search) holds(list []any) bool {
	n := 0
	for _, v := range list {
		if n < len(s.items) && s.same(v, s.items[n]) {
			n++
		}
	}
	return n == len(s.items)
}

// looksLikeJSON reports whether a text may be a JSON object or list.
func looksLikeJSON(s string) bool {
	s = strings.TrimLeft(s, " \t\r\n")
	return s != "" && (s[0] == '{' || s[0] == '[')
}

// isSame reports whether two values are one: objects and lists that are the same in memory, equal
// scalars.
func isSame(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && reflect.ValueOf(x).Pointer() == reflect.ValueOf(y).Pointer()
	case []any:
		y, ok := b.([]any)
		return ok && len(x) == len(y) && (len(x) == 0 || &x[0] == &y[0])
	}
	return value.Equal(a, b)
}

// errWay is told where a way leads nowhere, which can't be: it was found in this value.
var errWay = errors.New("the way leads to nothing")

// with returns a copy of v in which the list at the end of the way holds only item. What is beside
// the way is shared with v.
func (w way) with(v, item any) (any, error) {
	if len(w) == 0 {
		return []any{item}, nil
	}
	next := w[0]
	if next.text {
		tree, err := w[1:].with(next.tree, item)
		if err != nil {
			return nil, err
		}
		b, err := value.Encode(tree)
		return string(b), err
	}
	switch v := v.(type) {
	case map[string]any:
		below, err := w[1:].with(v[next.name], item)
		if err != nil {
			return nil, err
		}
		v = maps.Clone(v)
		v[next.name] = below
		return v, nil
	case []any:
		if next.index >= len(v) {
			return nil, errWay
		}
		below, err := w[1:].with(v[next.index], item)
		if err != nil {
			return nil, err
		}
		v = slices.Clone(v)
		v[next.index] = below
		return v, nil
	}
	return nil, errWay
}

// length returns how many elements the list at the end of the way has; 0: there is none.
func (w way) length(v any) int {
	for _, next := range w {
		switch at := v.(type) {
		case map[string]any:
			v = at[next.name]
		case []any:
			if next.index >= len(at) {
				return 0
			}
			v = at[next.index]
		default:
			v = next.tree
		}
	}
	list, _ := v.([]any)
	return len(list)
}
