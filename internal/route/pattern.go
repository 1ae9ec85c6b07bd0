// Package route decides which route a request takes. Patterns are a method and a path, of which the
// most specific one counts, and a path is compared as the origin will read it: net/http's ServeMux
// would redirect //payments, and takes /payments%2F7 for something else than many origins do.
package route

import (
	"cmp"
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

// methods are the registered ones (IANA, "HTTP Method Registry"). A route for another one, which is
// mostly a slip, would guard nothing.
var methods = []string{"POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS", "TRACE",
	"CONNECT", "QUERY", "ACL", "BASELINE-CONTROL", "BIND", "CHECKIN", "CHECKOUT", "COPY", "LABEL",
	"LINK", "LOCK", "MERGE", "MKACTIVITY", "MKCALENDAR", "MKCOL", "MKREDIRECTREF", "MKWORKSPACE",
	"MOVE", "ORDERPATCH", "PROPFIND", "PROPPATCH", "REBIND", "REPORT", "SEARCH", "UNBIND",
	"UNCHECKOUT", "UNLINK", "UNLOCK", "UPDATE", "UPDATEREDIRECTREF", "VERSION-CONTROL"}

// Methods returns the methods that a pattern can have, the usual ones first.
func Methods() []string { return slices.Clone(methods) }

// MethodError refuses a pattern of a method that is not registered.
type MethodError struct{ Method string }

// Error tells what would have been right.
func (e *MethodError) Error() string {
	return "expected a registered method, such as POST, PUT, PATCH or DELETE: " + e.Method +
		" is none"
}

// maxSegments bounds a pattern.
const maxSegments = 64

// Parse reads a pattern. The error says what is wrong with the text, and doesn't repeat it.
func Parse(text string) (Pattern, error) {
	method, path, found := strings.Cut(text, " ")
	if found && (method == "*" || method == "ANY") {
		return Pattern{}, fmt.Errorf("expected one method, such as POST %s: no word stands for"+
			" all of them; write a route for each", path)
	}
	if !found || method == "" || !isToken(method) || !strings.HasPrefix(path, "/") {
		return Pattern{}, errors.New("expected a method and a path such as POST /payments")
	}
	if strings.ToUpper(method) != method {
		return Pattern{}, fmt.Errorf("expected %s: methods are written in capitals",
			strings.ToUpper(method)+" "+path)
	}
	if !slices.Contains(methods, method) {
		return Pattern{}, &MethodError{Method: method}
	}
	if i := strings.IndexAny(path, "?#\\ \t"); i >= 0 {
		return Pattern{}, fmt.Errorf("expected a path without %q", path[i])
	}
	p := Pattern{text: text, method: method}
	parts := strings.Split(path[1:], "/")
	if len(parts) > maxSegments {
		return Pattern{}, fmt.Errorf("expected at most %d segments", maxSegments)
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
		return segment{}, errors.New("expected single slashes: a doubled slash never" +
			" comes, as paths are compared without")
	case part == "." || part == "..":
		return segment{}, fmt.Errorf("expected a path without the segment %s: it never"+
			" comes, as paths are compared without", part)
	case part == "{$}" && last:
		return segment{kind: literal}, nil
	case strings.ContainsAny(part, "{}"):
		return parseWildcard(part, last)
	}
	switch {
	case strings.Contains(part, "*"):
		return segment{}, errors.New("expected {id} for one segment, or {rest...} at the end for" +
			" all that follow: a * would be compared as it stands (%2A if that is meant)")
	case part[0] == ':':
		return segment{}, fmt.Errorf("expected {%s}: a segment that begins with : would be"+
			" compared as it stands (%%3A if that is meant)", cmp.Or(part[1:], "id"))
	}
	text, err := url.PathUnescape(part)
	if err != nil {
		return segment{}, errors.New("expected two hex digits after a %")
	}
	return segment{kind: literal, text: text}, nil
}

func parseWildcard(part string, last bool) (segment, error) {
	name, opened := strings.CutPrefix(part, "{")
	name, closed := strings.CutSuffix(name, "}")
	if !opened || !closed || strings.ContainsAny(name, "{}") {
		return segment{}, errors.New("expected a segment that is {name} as a whole")
	}
	name, many := strings.CutSuffix(name, "...")
	if name == "$" || name == "" || strings.ContainsAny(name, ". ") {
		return segment{}, errors.New("expected a name in {}, such as {id} or {rest...}")
	}
	if !many {
		return segment{kind: any}, nil
	}
	if !last {
		return segment{}, fmt.Errorf("expected {%s...} at the end only", name)
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
