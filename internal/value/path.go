package value

import (
	"fmt"
	"strconv"
	"strings"
)

// maxPathSteps bounds a path: it is written by hand.
const maxPathSteps = defaultDepth

// Path names a place in a value: members and list elements, from the top down. The zero value
// names the value as a whole.
type Path struct{ steps []step }

// step is a member's name or, if name is empty, a list index. A member of an empty name can't be
// written in a path.
type step struct {
	name  string
	index int
}

// ParsePath reads a path such as body.items[0].t: names separated by dots, list indexes in
// brackets; a name with other characters is written ['like this']. The prefix body is dropped.
// Errors tell the byte at which reading stopped.
func ParsePath(text string) (Path, error) {
	pos := 0
	if text == "body" || strings.HasPrefix(text, "body.") || strings.HasPrefix(text, "body[") {
		pos = len("body")
	}
	var p Path
	for pos < len(text) {
		if len(p.steps) == maxPathSteps {
			return Path{}, fmt.Errorf("path has more than %d steps", maxPathSteps)
		}
		s, n, err := parseStep(text[pos:], pos == 0)
		if err != nil {
			return Path{}, fmt.Errorf("path %q: %w at %d", shorten(text), err, pos)
		}
		p.steps = append(p.steps, s)
		pos += n
	}
	if len(p.steps) == 0 {
		return Path{}, fmt.Errorf("path %q names no member", shorten(text))
	}
	return p, nil
}

type pathError string

func (e pathError) Error() string { return string(e) }

// parseStep reads one step and returns its length in bytes. Only the first one needs no dot.
func parseStep(s string, first bool) (step, int, error) {
	if s[0] == '[' {
		return parseBracket(s)
	}
	start := 0
	if s[0] == '.' && !first {
		start = 1
	} else if !first {
		return step{}, 0, pathError("expected . or [")
	}
	end := start
	for end < len(s) && isNameByte(s[end]) {
		end++
	}
	if end == start {
		return step{}, 0, pathError("expected a name")
	}
	return step{name: s[start:end]}, end, nil
}

// isNameByte accepts what senders use in names; bytes above 0x7f are parts of letters.
func isNameByte(c byte) bool {
	return c == '_' || c == '-' || c == '$' || c == ':' || c >= 0x80 ||
		'0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func needsQuotes(r rune) bool { return r < 0x80 && !isNameByte(byte(r)) }

func parseBracket(s string) (step, int, error) {
	if len(s) > 1 && (s[1] == '\'' || s[1] == '"') {
		end := strings.Index(s[2:], string(s[1])+"]")
		if end <= 0 {
			return step{}, 0, pathError("expected a name in quotes and ]")
		}
		return step{name: s[2 : 2+end]}, end + 4, nil
	}
	inside, _, found := strings.Cut(s[1:], "]")
	n, err := strconv.ParseUint(inside, 10, 31)
	if !found || err != nil {
		return step{}, 0, pathError("expected a list index and ]")
	}
	return step{index: int(n)}, len(inside) + 2, nil
}

// String returns the path as it is written, without the prefix body.
func (p Path) String() string {
	var b strings.Builder
	for _, s := range p.steps {
		switch {
		case s.name == "":
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case strings.IndexFunc(s.name, needsQuotes) >= 0:
			b.WriteString("['" + s.name + "']")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.name)
		}
	}
	return b.String()
}
