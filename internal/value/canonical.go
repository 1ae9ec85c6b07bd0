package value

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/oncekit/once"

	"github.com/go-json-experiment/json/jsontext"
)

// maxCanonicalDepth bounds nesting: members are put in order level by level, from the inside out,
// so that a text that is nested deeply and large would be moved many times.
const maxCanonicalDepth = 256

// plainDigits is the length up to which digits alone are a number's canonical form; see
// once.CanonicalNumber.
const plainDigits = 21

// AppendCanonical appends the canonical writing of a JSON text, the one whose SHA-256 [Digest] is:
// members in the order of RFC 8785, texts as there, numbers by their exact decimal value, no white
// space. One byte order mark at the start is skipped. The text isn't changed or kept. The error is
// for what is no JSON, has a name twice, is nested too deep, or has a number out of range. It
// builds no value, and so is faster than Decode and Digest. Safe for concurrent use.
func AppendCanonical(dst, text []byte) ([]byte, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	s, _ := sorters.Get().(*sorter)
	defer sorters.Put(s)
	var err error
	s.src, err = jsontext.AppendFormat(s.src[:0], text, jsontext.AllowDuplicateNames(true))
	if err != nil {
		return dst, fmt.Errorf("canonical JSON: %w", err)
	}
	defer s.shrink()
	s.pos, s.depth, s.members, s.fault = 0, 0, s.members[:0], ""
	out := s.value(dst)
	if s.fault != "" {
		return dst, errors.New("canonical JSON: " + s.fault)
	}
	return out, nil
}

// sorter writes a text that jsontext has judged and made compact; a name that is there twice shows
// when the members are in order. What it holds is reused.
type sorter struct {
	src     []byte
	pos     int
	depth   int
	members []span // of the objects that are being written, the innermost last
	moved   []byte
	fault   string
}

// span is a member in what is written: its quoted name, and where it ends.
type span struct{ start, nameEnd, end int }

var sorters = sync.Pool{New: func() any { return new(sorter) }}

// shrink lets go of what one large text needed.
func (s *sorter) shrink() {
	const most = 64 << 10
	if cap(s.src) > most || cap(s.moved) > most || cap(s.members) > most/16 {
		*s = sorter{}
	}
}

func (s *sorter) value(dst []byte) []byte {
	switch s.src[s.pos] {
	case '{':
		return s.object(dst)
	case '[':
		return s.list(dst)
	case '"':
		return s.text(dst)
	case 't', 'n':
		return s.copy(dst, len("true"))
	case 'f':
		return s.copy(dst, len("false"))
	}
	return s.number(dst)
}

// one copies one byte.
func (s *sorter) one(dst []byte) []byte {
	dst = append(dst, s.src[s.pos])
	s.pos++
	return dst
}

func (s *sorter) copy(dst []byte, n int) []byte {
	dst = append(dst, s.src[s.pos:s.pos+n]...)
	s.pos += n
	return dst
}

func (s *sorter) text(dst []byte) []byte {
	end := s.pos + 1
	for s.src[end] != '"' {
		if s.src[end] == '\\' {
			end++
		}
		end++
	}
	return s.copy(dst, end+1-s.pos)
}

func (s *sorter) number(dst []byte) []byte {
	end := s.pos + 1
	for end < len(s.src) && s.src[end] != ',' && s.src[end] != ']' && s.src[end] != '}' {
		end++
	}
	n := s.src[s.pos:end]
	if isPlain(n) {
		return s.copy(dst, len(n))
	}
	s.pos = end
	if len(n) <= maxNumberBytes {
		if text, ok := once.CanonicalNumber(string(n)); ok {
			return append(dst, text...)
		}
	}
	s.fail("a number is out of range")
	return dst
}

// isPlain reports whether a number is written with digits alone, and not too many of them.
func isPlain(n []byte) bool {
	digits := n
	if n[0] == '-' {
		digits = n[1:]
	}
	if len(digits) > plainDigits || len(digits) < len(n) && digits[0] == '0' { // -0 is 0
		return false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// fail ends the reading: whatever is under way finds the end of the text.
func (s *sorter) fail(fault string) { s.fault, s.pos = fault, len(s.src) }

func (s *sorter) enter() bool {
	if s.depth++; s.depth > maxCanonicalDepth {
		s.fail("nested too deep")
		return false
	}
	return true
}

func (s *sorter) list(dst []byte) []byte {
	if !s.enter() {
		return dst
	}
	dst = s.one(dst)
	for s.pos < len(s.src) && s.src[s.pos] != ']' {
		if s.src[s.pos] == ',' {
			dst = s.one(dst)
		}
		dst = s.value(dst)
	}
	return s.leave(dst)
}

// leave writes the bracket that ends an object or a list.
func (s *sorter) leave(dst []byte) []byte {
	s.depth--
	if s.fault != "" {
		return dst
	}
	return s.one(dst)
}

func (s *sorter) object(dst []byte) []byte {
	if !s.enter() {
		return dst
	}
	dst = s.one(dst)
	first := len(s.members)
	sorted := true
	for s.pos < len(s.src) && s.src[s.pos] != '}' {
		if s.src[s.pos] == ',' {
			dst = s.one(dst)
		}
		m := span{start: len(dst)}
		dst = s.text(dst)
		m.nameEnd = len(dst)
		dst = s.one(dst) // the colon
		dst = s.value(dst)
		m.end = len(dst)
		if n := len(s.members); n > first {
			sorted = compareNames(dst, s.members[n-1], m) < 0 && sorted
		}
		s.members = append(s.members, m)
	}
	if !sorted && s.fault == "" {
		s.reorder(dst, s.members[first:])
	}
	s.members = s.members[:first]
	return s.leave(dst)
}

// reorder puts the members of an object, which end what is written, in their order.
func (s *sorter) reorder(dst []byte, members []span) {
	start := members[0].start
	slices.SortFunc(members, func(a, b span) int { return compareNames(dst, a, b) })
	s.moved = s.moved[:0]
	for i, m := range members {
		if i > 0 {
			if compareNames(dst, members[i-1], m) == 0 {
				s.fail("a name is there twice")
			}
			s.moved = append(s.moved, ',')
		}
		s.moved = append(s.moved, dst[m.start:m.end]...)
	}
	copy(dst[start:], s.moved)
}

// compareNames orders members by their names, which are quoted: names with an escape are read
// first.
func compareNames(text []byte, a, b span) int {
	x, y := text[a.start+1:a.nameEnd-1], text[b.start+1:b.nameEnd-1]
	if bytes.IndexByte(x, '\\') >= 0 || bytes.IndexByte(y, '\\') >= 0 {
		return compareUTF16(unquoted(text[a.start:a.nameEnd]), unquoted(text[b.start:b.nameEnd]))
	}
	return compareUTF16(x, y)
}

func unquoted(name []byte) []byte {
	out, _ := jsontext.AppendUnquote(nil, name) // jsontext wrote it
	return out
}
