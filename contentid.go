package once

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxContentDepth bounds the nesting of a content: it is walked by recursion.
const maxContentDepth = 256

// ContentID returns an id made of what an event says, for producers that give their events none:
// the text of a fingerprint ([Fingerprint.String]), 66 characters. Equal contents have equal ids.
//
// A []byte or a string counts as its bytes ([FingerprintRawV1]). A json.RawMessage, and anything
// else after encoding/json has written it, counts as a JSON value ([FingerprintJSONV1]): members in
// any order, white space ignored, numbers by their exact decimal value. The error is for what is no
// JSON, a name that is there twice, texts that are not valid UTF-8, a number with an absurd
// exponent, and nesting deeper than 256.
//
// Two events that say the same are one event to it: put in what tells them apart (a time, a
// number), or use ids of their own.
func ContentID(content any) (string, error) {
	var text []byte
	switch c := content.(type) {
	case []byte:
		return FingerprintRaw(c).String(), nil
	case string:
		return FingerprintRaw([]byte(c)).String(), nil
	case json.RawMessage:
		text = c
	default:
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(content); err != nil {
			return "", fmt.Errorf("content id: %w", err)
		}
		text = b.Bytes()
		if bytes.Contains(text, []byte(`\ufffd`)) { // what encoding/json makes of a wrong byte
			return "", errors.New("content id: a text is not valid UTF-8")
		}
	}
	if !json.Valid(text) || !utf8.Valid(text) {
		return "", errors.New("content id: not valid JSON")
	}
	c := canonicalizer{src: text}
	out := c.value(make([]byte, 0, len(text)), 0)
	if c.err != nil {
		return "", fmt.Errorf("content id: %w", c.err)
	}
	return NewFingerprint(FingerprintJSONV1, sha256.Sum256(out)).String(), nil
}

// canonicalizer writes a valid JSON text in its canonical form and keeps the first error.
type canonicalizer struct {
	src []byte
	pos int
	err error
}

func (c *canonicalizer) fail(reason string) {
	if c.err == nil {
		c.err = errors.New(reason)
	}
	c.pos = len(c.src)
}

// next skips white space and returns the byte at pos; 0 after an error.
func (c *canonicalizer) next() byte {
	for ; c.pos < len(c.src); c.pos++ {
		switch b := c.src[c.pos]; b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}

func (c *canonicalizer) value(dst []byte, depth int) []byte {
	if depth > maxContentDepth {
		c.fail("nested too deep")
		return dst
	}
	switch c.next() {
	case 0:
		return dst
	case '{':
		return c.object(dst, depth)
	case '[':
		return c.list(dst, depth)
	case '"':
		return appendQuoted(dst, c.text())
	}
	start := c.pos
	for c.pos < len(c.src) && bytes.IndexByte([]byte(",]} \t\r\n"), c.src[c.pos]) < 0 {
		c.pos++
	}
	literal := string(c.src[start:c.pos])
	switch literal {
	case "true", "false", "null":
		return append(dst, literal...)
	}
	number, ok := CanonicalNumber(literal)
	if !ok {
		c.fail("a number is out of range")
	}
	return append(dst, number...)
}

func (c *canonicalizer) list(dst []byte, depth int) []byte {
	c.pos++
	dst = append(dst, '[')
	for {
		switch c.next() {
		case 0:
			return dst
		case ']':
			c.pos++
			return append(dst, ']')
		case ',':
			c.pos++
			dst = append(dst, ',')
		}
		if c.next() != ']' {
			dst = c.value(dst, depth+1)
		}
	}
}

// member is a member of an object that is being written.
type member struct {
	name string
	text []byte
}

func (c *canonicalizer) object(dst []byte, depth int) []byte {
	c.pos++
	var members []member
	for c.next() != '}' {
		switch c.next() {
		case 0:
			return dst
		case ',':
			c.pos++
			c.next()
		}
		name := c.text()
		c.next()
		c.pos++ // the colon
		members = append(members, member{name, c.value(nil, depth+1)})
	}
	c.pos++
	slices.SortFunc(members, func(a, b member) int { return compareNames(a.name, b.name) })
	dst = append(dst, '{')
	for i, m := range members {
		if i > 0 {
			if m.name == members[i-1].name {
				c.fail("a name is there twice")
				return dst
			}
			dst = append(dst, ',')
		}
		dst = append(appendQuoted(dst, m.name), ':')
		dst = append(dst, m.text...)
	}
	return append(dst, '}')
}

// text reads a quoted text. encoding/json would take half a surrogate pair for U+FFFD, so that
// different texts became one.
func (c *canonicalizer) text() string {
	if c.pos >= len(c.src) {
		return ""
	}
	start := c.pos
	for c.pos++; c.src[c.pos] != '"'; c.pos++ {
		if c.src[c.pos] == '\\' {
			c.pos++
		}
	}
	c.pos++
	quoted := c.src[start:c.pos]
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	if !surrogatesPair(string(quoted)) {
		c.fail("a text has half a surrogate pair")
		return ""
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		c.fail("a text can't be read")
	}
	return s
}

// surrogatesPair reports whether each high surrogate of a quoted text is followed by a low one, and
// none stands alone.
func surrogatesPair(quoted string) bool {
	for {
		_, after, found := strings.Cut(quoted, `\`)
		if !found {
			return true
		}
		quoted = after[1:]
		if after[0] != 'u' {
			continue
		}
		first := hexRune(after[1:5])
		quoted = after[5:]
		if !utf16.IsSurrogate(first) {
			continue
		}
		if len(quoted) < 6 || quoted[:2] != `\u` ||
			utf16.DecodeRune(first, hexRune(quoted[2:6])) == utf8.RuneError {
			return false
		}
		quoted = quoted[6:]
	}
}

// hexRune reads four hex digits, which a valid text has after \u.
func hexRune(digits string) rune {
	n, _ := strconv.ParseUint(digits, 16, 16)
	return rune(n)
}

// appendQuoted writes a text as RFC 8785, section 3.2.2.2, does.
func appendQuoted(dst []byte, s string) []byte {
	const hex, short = "0123456789abcdef", "\b\t\n\f\r"
	dst = append(dst, '"')
	for i := range len(s) {
		switch b := s[i]; {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case strings.IndexByte(short, b) >= 0:
			dst = append(dst, '\\', "btnfr"[strings.IndexByte(short, b)])
		case b < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		default:
			dst = append(dst, b)
		}
	}
	return append(dst, '"')
}

// compareNames orders names by UTF-16 code units (RFC 8785, section 3.2.3).
func compareNames(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}
