package value

import (
	"fmt"
	"strconv"
	"strings"
)

// maxIndexTokens bounds the tokens of a pointer that may be an index or a name: each one doubles
// the paths.
const maxIndexTokens = 6

// ParsePointer reads a JSON pointer (RFC 6901) such as /items/0/sent_at. A token of digits names an
// element or a member, which only the value tells: such a pointer is several paths.
func ParsePointer(text string) ([]Path, error) {
	rest, ok := strings.CutPrefix(text, "/")
	if !ok {
		return nil, fmt.Errorf("pointer %q doesn't begin with /", shorten(text))
	}
	tokens := strings.Split(rest, "/")
	if len(tokens) > maxPathSteps {
		return nil, fmt.Errorf("pointer has more than %d steps", maxPathSteps)
	}
	paths := []Path{{}}
	indexes := 0
	for _, token := range tokens {
		name, ok := unescape(token)
		if !ok {
			return nil, fmt.Errorf("pointer %q: ~ stands before 0 or 1 only", shorten(text))
		}
		if name == "" {
			return nil, fmt.Errorf("pointer %q has an empty name", shorten(text))
		}
		also := []Path(nil)
		if n, err := strconv.Atoi(token); err == nil && strconv.Itoa(n) == token && n >= 0 {
			if indexes++; indexes > maxIndexTokens {
				return nil, fmt.Errorf("pointer has more than %d numbers", maxIndexTokens)
			}
			for _, p := range paths {
				also = append(also, p.with(step{index: n}))
			}
		}
		for i, p := range paths {
			paths[i] = p.with(step{name: name})
		}
		paths = append(paths, also...)
	}
	return paths, nil
}

func (p Path) with(s step) Path { return Path{append(append([]step(nil), p.steps...), s)} }

// unescape reads a token: ~1 is a slash, ~0 a tilde.
func unescape(token string) (string, bool) {
	for i := 0; i < len(token); i++ {
		if token[i] == '~' && (i+1 == len(token) || token[i+1] != '0' && token[i+1] != '1') {
			return "", false
		}
	}
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~"), true
}
