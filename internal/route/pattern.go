// Package route decides which route a request takes. Patterns are a method and a path, of which the
// most specific one counts, and a path is compared as the origin will read it: net/http's ServeMux
// would redirect //payments, and takes /payments%2F7 for something else than many origins do.
package route

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Pattern is a method and a path:
//
//   - POST /payments is that path alone;
//   - POST /payments/ and POST /payments/{rest...} are all paths below it;
//   - POST /payments/{id} is one segment, whatever it holds;
//   - POST /payments/{$} is the path with the slash at its end alone;
//   - POST / is every path.
type Pattern struct {
	text     string
	method   string
	segments []segment
}

type segment struct {
	kind kind
	text string // of a literal, percent-decoded
}

// kind orders the kinds of segments by how much they say.
type kind byte

const (
	rest    kind = iota + 1 // what remains, nothing too
	any                     // one segment that isn't empty
	literal                 // this one
)

// maxSegments bounds a pattern.
const maxSegments = 64

// Parse reads a pattern. The error says what is wrong with the text, and doesn't repeat it.
func Parse(text string) (Pattern, error) {
	method, path, found := strings.Cut(text, " ")
	if !found || method == "" || !isToken(method) || !strings.HasPrefix(path, "/") {
		return Pattern{}, errors.New("expected a method and a path such as POST /payments")
	}
	if strings.ToUpper(method) != method {
		return Pattern{}, fmt.Errorf("methods are written in capitals: %s", strings.ToUpper(method))
	}
	if i := strings.IndexAny(path, "?#\\ \t"); i >= 0 {
		return Pattern{}, fmt.Errorf("a path has no %q", path[i])
	}
	p := Pattern{text: text, method: method}
	parts := strings.Split(path[1:], "/")
	if len(parts) > maxSegments {
		return Pattern{}, fmt.Errorf("at most %d segments", maxSegments)
	}
	for i, part := range parts {
		s, err := parseSegment(part, i == len(parts)-1)
		if err != nil {
			return Pattern{}, err
		}
		p.segments = append(p.segments, s)
	}
	return p, nil
}

func isToken(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return true
}

func parseSegment(part string, last bool) (segment, error) {
	switch {
	case part == "" && last:
		return segment{kind: rest}, nil
	case part == "":
		return segment{}, errors.New("a doubled slash never comes: paths are compared without")
	case part == "." || part == "..":
		return segment{}, fmt.Errorf("the segment %s never comes: paths are compared without", part)
	case part == "{$}" && last:
		return segment{kind: literal}, nil
	case strings.ContainsAny(part, "{}"):
		return parseWildcard(part, last)
	}
	text, err := url.PathUnescape(part)
	if err != nil {
		return segment{}, errors.New("a % is followed by two hex digits")
	}
	return segment{kind: literal, text: text}, nil
}

func parseWildcard(part string, last bool) (segment, error) {
	name, opened := strings.CutPrefix(part, "{")
	name, closed := strings.CutSuffix(name, "}")
	if !opened || !closed || strings.ContainsAny(name, "{}") {
		return segment{}, errors.New("a {name} is a segment as a whole")
	}
	name, many := strings.CutSuffix(name, "...")
	if name == "$" || name == "" || strings.ContainsAny(name, ". ") {
		return segment{}, errors.New("expected a name in {}, such as {id} or {rest...}")
	}
	if !many {
		return segment{kind: any}, nil
	}
	if !last {
		return segment{}, fmt.Errorf("{%s...} stands at the end", name)
	}
	return segment{kind: rest}, nil
}

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.text }

// Method returns its method.
func (p Pattern) Method() string { return p.method }

// Same reports whether two patterns name the same requests.
func (p Pattern) Same(q Pattern) bool {
	return p.method == q.method && slices.Equal(p.segments, q.segments)
}

// compare orders patterns of which one path can take several: the one that says more of the path,
// from its beginning, comes first.
func (p Pattern) compare(q Pattern) int {
	for i := range min(len(p.segments), len(q.segments)) {
		if a, b := p.segments[i].kind, q.segments[i].kind; a != b {
			return int(b) - int(a)
		}
	}
	return len(q.segments) - len(p.segments)
}

// matches compares the segments of a path. A slash at the end of the path is passed over where
// slash says so.
func (p Pattern) matches(path []string, slash bool) bool {
	for i, s := range p.segments {
		if s.kind == rest {
			return i < len(path)
		}
		if i >= len(path) || s.kind == any && path[i] == "" ||
			s.kind == literal && path[i] != s.text {
			return false
		}
	}
	n := len(p.segments)
	return len(path) == n || slash && len(path) == n+1 && path[n] == ""
}
