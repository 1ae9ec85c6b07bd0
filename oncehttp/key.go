package oncehttp

import (
	"fmt"
	"net/http"
	"strings"
)

// The headers that can bear a key, in their canonical spelling.
const (
	HeaderKey  = "Idempotency-Key"
	HeaderXKey = "X-Idempotency-Key"
)

// The headers that tell of an answer.
const (
	// HeaderReplayed is "true" on replays only.
	HeaderReplayed = "Idempotent-Replayed"
	// HeaderStored is "false" where the answer could not be kept.
	HeaderStored = "Idempotency-Stored"
)

// MaxKey is the longest key of a request in bytes, without its quotes.
const MaxKey = 255

// requestKey returns the key of a request, empty if it bears none. A key that can't be read is a
// problem: to ignore it would leave the client without the protection that it asked for.
func requestKey(h http.Header) (string, *Problem) {
	lines, xlines := h[HeaderKey], h[HeaderXKey]
	if len(lines) == 0 && len(xlines) == 0 {
		return "", nil
	}
	key, problem := keyOfLines(HeaderKey, lines)
	if problem != nil {
		return "", problem
	}
	xkey, problem := keyOfLines(HeaderXKey, xlines)
	switch {
	case problem != nil:
		return "", problem
	case key == "":
		return xkey, nil
	case xkey != "" && xkey != key:
		return "", keyProblem("%s and %s hold different keys; send one of them", HeaderKey,
			HeaderXKey)
	}
	return key, nil
}

// keyOfLines reads the field lines of one header. More than one is refused, as the draft demands
// of a header that is an Item (draft-ietf-httpapi-idempotency-key-header-07, section 2.1): a proxy
// may have added one.
func keyOfLines(name string, lines []string) (string, *Problem) {
	switch len(lines) {
	case 0:
		return "", nil
	case 1:
		return parseKey(name, lines[0])
	}
	return "", keyProblem("%s is sent %d times; send it once", name, len(lines))
}

// parseKey reads a key, quoted as a String of structured fields (RFC 9651, section 3.3.3) or bare.
// Both spellings are one key.
func parseKey(name, line string) (string, *Problem) {
	line = strings.Trim(line, " \t")
	key := line
	if strings.HasPrefix(line, `"`) {
		var ok bool
		if key, ok = unquote(line); !ok {
			return "", keyProblem("%s begins with a quote and is no quoted text; send \"KEY\" of "+
				"printable ASCII characters, with \\ before \\ and \"", name)
		}
	} else if i := indexNotBare(line); i >= 0 {
		return "", keyProblem("%s has a character at %d that a key without quotes can't have; use "+
			"letters, digits and -._~:/+=, or send \"KEY\"", name, i+1)
	}
	if len(key) > MaxKey {
		p := keyProblem("%s is %d bytes long, at most %d", name, len(key), MaxKey)
		p.Limit = MaxKey
		return "", p
	}
	if strings.Trim(key, " ") == "" {
		return "", nil // nothing that could tell two requests apart
	}
	return key, nil
}

// indexNotBare finds the first byte that can't stand in a key without quotes: of blanks, of what is
// not printable ASCII, and of the quotes and separators of header fields. -1: there is none.
func indexNotBare(line string) int {
	for i := range len(line) {
		switch c := line[i]; {
		case c <= ' ', c > '~', c == '"', c == ',', c == ';', c == '\\':
			return i
		}
	}
	return -1
}

// unquote reads a String of structured fields that fills the whole line.
func unquote(line string) (string, bool) {
	inner := line[1:]
	if end := strings.IndexAny(inner, `"\`); end >= 0 && end == len(inner)-1 && inner[end] == '"' {
		return inner[:end], isPrintable(inner[:end])
	}
	var key strings.Builder
	for i := 0; i < len(inner); i++ {
		c := inner[i]
		switch {
		case c == '"':
			return key.String(), i == len(inner)-1
		case c == '\\':
			if i++; i == len(inner) || inner[i] != '"' && inner[i] != '\\' {
				return "", false
			}
			c = inner[i]
		case c < ' ' || c > '~':
			return "", false
		}
		key.WriteByte(c)
	}
	return "", false
}

func isPrintable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func keyProblem(format string, args ...any) *Problem {
	p := problem(ProblemKeyInvalid, http.StatusBadRequest, "The idempotency key can't be used")
	p.Detail = fmt.Sprintf(format, args...)
	return p
}
