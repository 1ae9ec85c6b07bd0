package value

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// defaultDepth bounds nesting: robots and payment providers stay below 10, and a value is walked
// by recursion in several places.
const defaultDepth = 64

// maxNumberBytes bounds a number's literal. An exact double needs up to 1,075 digits, but no
// sender writes more than 20; work on digits stays cheap.
const maxNumberBytes = 400

// Limits bound what Decode accepts. The zero value works. The size of the body is the caller's
// limit; a value takes up to about 25 times the memory of its text.
type Limits struct {
	Depth int // nested objects and lists; default 64. MaxDepth reads whatever Encode writes
}

// Decode reads one JSON value (RFC 8259) strictly: duplicate names, invalid UTF-8, lone
// surrogates, NUL in a text, a second value, empty input, too deep nesting and absurdly long
// numbers are refused. One byte order mark at the start is skipped. b isn't kept. Errors are
// *[SyntaxError]. Safe for concurrent use.
func Decode(b []byte, lim Limits) (any, error) {
	if lim.Depth <= 0 {
		lim.Depth = defaultDepth
	}
	text := bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	// The grammar is judged by jsontext, in one pass without building anything; building may
	// then trust it.
	if !jsontext.Value(text).IsValid() {
		return nil, explainInvalid(text, len(b)-len(text))
	}
	d := builder{src: string(text), depth: lim.Depth}
	v, ok := d.value()
	if !ok {
		return nil, &SyntaxError{
			Path:   pathAt(text, d.pos),
			Offset: d.pos + len(b) - len(text),
			Msg:    d.fault,
		}
	}
	return v, nil
}

// builder makes values of a text that is known to be valid JSON. Texts without escapes are parts
// of src, so that a body costs one copy and no more.
type builder struct {
	src   string
	pos   int
	depth int    // levels still allowed
	fault string // what is wrong at pos, after a method returned false
}

func (d *builder) value() (any, bool) {
	switch d.next() {
	case '{':
		return d.object()
	case '[':
		return d.list()
	case '"':
		return d.text()
	case 't':
		d.pos += len("true")
		return true, true
	case 'f':
		d.pos += len("false")
		return false, true
	case 'n':
		d.pos += len("null")
		return nil, true
	}
	return d.number()
}

// next skips white space and returns the byte at pos, which is there in a valid text.
func (d *builder) next() byte {
	for {
		switch c := d.src[d.pos]; c {
		case ' ', '\t', '\r', '\n':
			d.pos++
		default:
			return c
		}
	}
}

func (d *builder) enter() bool {
	if d.depth == 0 {
		d.fault = "nested too deep"
		return false
	}
	d.depth--
	d.pos++
	return true
}

func (d *builder) object() (any, bool) {
	if !d.enter() {
		return nil, false
	}
	m := make(map[string]any)
	for {
		switch d.next() {
		case '}':
			d.pos++
			d.depth++
			return m, true
		case ',':
			d.pos++
			continue
		}
		name, ok := d.string()
		if !ok {
			return nil, false
		}
		d.next()
		d.pos++ // the colon
		v, ok := d.value()
		if !ok {
			return nil, false
		}
		m[name] = v
	}
}

func (d *builder) list() (any, bool) {
	if !d.enter() {
		return nil, false
	}
	l := []any{}
	for {
		switch d.next() {
		case ']':
			d.pos++
			d.depth++
			return l, true
		case ',':
			d.pos++
			continue
		}
		v, ok := d.value()
		if !ok {
			return nil, false
		}
		l = append(l, v)
	}
}

func (d *builder) text() (any, bool) {
	s, ok := d.string()
	if !ok {
		return nil, false
	}
	return s, true
}

// string reads a quoted text.
func (d *builder) string() (string, bool) {
	start := d.pos + 1
	for i := start; ; i++ {
		switch d.src[i] {
		case '"':
			d.pos = i + 1
			return d.src[start:i], true
		case '\\':
			return d.escaped()
		}
	}
}

// escaped reads a quoted text that holds an escape.
func (d *builder) escaped() (string, bool) {
	start := d.pos
	end := start + 1
	for d.src[end] != '"' {
		if d.src[end] == '\\' {
			end++
		}
		end++
	}
	end++
	quoted := d.src[start:end]
	out, err := jsontext.AppendUnquote(make([]byte, 0, len(quoted)), quoted)
	if err != nil {
		d.fault = "text can't be read"
		return "", false
	}
	// A raw NUL isn't valid JSON, so that only an escape can bring one.
	if bytes.IndexByte(out, 0) >= 0 {
		d.fault = "text holds NUL (U+0000)"
		return "", false
	}
	d.pos = end
	return string(out), true
}

func (d *builder) number() (any, bool) {
	end := d.pos
	for end < len(d.src) && strings.IndexByte("+-.0123456789Ee", d.src[end]) >= 0 {
		end++
	}
	literal := d.src[d.pos:end]
	if len(literal) > maxNumberBytes {
		d.fault = "number is too long"
		return nil, false
	}
	v, ok := parseNumber(literal)
	if !ok {
		d.fault = "number's exponent is out of range"
		return nil, false
	}
	d.pos = end
	return v, true
}
