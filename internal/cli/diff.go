package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// difference is where the later of two contents differs from the first one. An empty text: it has
// nothing there.
type difference struct{ path, first, later string }

// String writes the place and both sides.
func (d difference) String() string {
	switch {
	case d.path == "":
		return d.first
	case d.first == "":
		return d.path + ": added " + d.later
	case d.later == "":
		return d.path + ": was " + d.first + ", is missing"
	}
	return d.path + ": " + d.first + " → " + d.later
}

// maxDifferences bounds how many are told.
const maxDifferences = 100

// differences compares two contents: JSON by its structure, with the paths that expressions have
// (body.data.roadway), other text by its lines.
func differences(first, later []byte) []difference {
	a, aok := decodeJSON(first)
	b, bok := decodeJSON(later)
	var d differ
	switch {
	case aok && bok:
		d.values("body", a, b)
	default:
		d.lines(first, later)
	}
	switch {
	case len(d.found) == 0 && bytes.Equal(first, later):
		return []difference{{first: "the same bytes"}}
	case len(d.found) == 0:
		return []difference{{first: "the same values, written in another way"}}
	case len(d.found) > maxDifferences:
		return append(d.found[:maxDifferences], difference{first: "… and more"})
	}
	return d.found
}

// decodeJSON reads one JSON value with its numbers as they are written.
func decodeJSON(b []byte) (v any, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return nil, false
	}
	_, err := dec.Token()
	return v, err == io.EOF
}

type differ struct{ found []difference }

func (d *differ) add(path string, first, later *any) {
	if len(d.found) <= maxDifferences {
		d.found = append(d.found, difference{path, shown(first), shown(later)})
	}
}

func shown(v *any) string {
	if v == nil {
		return ""
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(*v); err != nil {
		return fmt.Sprint(*v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (d *differ) values(path string, a, b any) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			d.objects(path, x, y)
			return
		}
	case []any:
		if y, ok := b.([]any); ok {
			d.lists(path, x, y)
			return
		}
	default:
		if a == b {
			return
		}
	}
	d.add(path, &a, &b)
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (d *differ) objects(path string, a, b map[string]any) {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		at := path + "." + name
		if !plainName.MatchString(name) {
			at = fmt.Sprintf("%s[%q]", path, name)
		}
		x, inA := a[name]
		y, inB := b[name]
		switch {
		case inA && inB:
			d.values(at, x, y)
		case inA:
			d.add(at, &x, nil)
		default:
			d.add(at, nil, &y)
		}
	}
}

func (d *differ) lists(path string, a, b []any) {
	for i := range max(len(a), len(b)) {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case i < len(a) && i < len(b):
			d.values(at, a[i], b[i])
		case i < len(a):
			d.add(at, &a[i], nil)
		default:
			d.add(at, nil, &b[i])
		}
	}
}

// lines leaves out what is the same at the beginning and at the end.
func (d *differ) lines(first, later []byte) {
	a, b := bytes.Split(first, []byte("\n")), bytes.Split(later, []byte("\n"))
	from := 0
	for len(a) > 0 && len(b) > 0 && bytes.Equal(a[0], b[0]) {
		a, b, from = a[1:], b[1:], from+1
	}
	for len(a) > 0 && len(b) > 0 && bytes.Equal(a[len(a)-1], b[len(b)-1]) {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	for i := range max(len(a), len(b)) {
		var x, y any
		one := difference{path: fmt.Sprintf("line %d", from+i+1)}
		if i < len(a) {
			x = string(a[i])
			one.first = shown(&x)
		}
		if i < len(b) {
			y = string(b[i])
			one.later = shown(&y)
		}
		if len(d.found) <= maxDifferences {
			d.found = append(d.found, one)
		}
	}
}
