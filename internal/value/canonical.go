package value

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/oncekit/once"

	"github.com/go-json-experiment/json/jsontext"
)

// maxCanonicalDepth bounds nesting: members are put in order level by level, from the inside out,
// so that a text that is nested deeply and large would be moved many times.
const maxCanonicalDepth = 256

// maxCanonical bounds the text in bytes, so that the places of members, in what is written, are
// small numbers: what is written is less than six times as long.
const maxCanonical = 256 << 20

// plainDigits is the length up to which digits alone are a number's canonical form; see
// once.CanonicalNumber.
const plainDigits = 21

// AppendCanonical appends the canonical writing of a JSON text, the one whose SHA-256 [Digest] is:
// members in the order of RFC 8785, texts as there, numbers by their exact decimal value, no white
// space. One byte order mark at the start is skipped. The text isn't changed or kept. The error is
// for what is no JSON, has a name twice, is nested too deep, or has a number out of range. It
// builds no value and reads the text once, and so is faster than Decode and Digest. Safe for
// concurrent use.
func AppendCanonical(dst, text []byte) ([]byte, error) {
	if len(text) > maxCanonical {
		return dst, errors.New("canonical JSON: the text is too long")
	}
	s, _ := sorters.Get().(*sorter)
	s.src = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	s.pos, s.depth, s.members, s.fault = 0, 0, s.members[:0], ""
	out := s.value(dst)
	if s.fault == "" && s.peek() != 0 || s.pos < len(s.src) {
		s.fail("something follows the value")
	}
	fault := s.fault
	s.src = nil
	s.shrink()
	sorters.Put(s)
	if fault != "" {
		return dst, errors.New("canonical JSON: " + fault)
	}
	return out, nil
}

// sorter reads a text by the grammar of RFC 8259 and writes it in its canonical form. What it holds
// is reused.
type sorter struct {
	src     []byte
	pos     int
	depth   int
	members []member // of the objects that are being written, the innermost last
	moved   []byte
	fault   string
}

// member is one of an object in what is written: its quoted name, and where it ends.
type member struct {
	start, nameEnd, end int32
	plain               bool // the name is ASCII without escapes
	// begin is the name's first bytes, if it is plain: as a number it orders as they do, and it
	// decides nearly always.
	begin uint64
}

// beginning returns the first bytes of a plain name as a number. Nothing in it is NUL, so that a
// name that is shorter than its neighbour comes first.
func beginning(name []byte) uint64 {
	var n uint64
	for i := range min(len(name), 8) {
		n |= uint64(name[i]) << (56 - 8*i)
	}
	return n
}

var sorters = sync.Pool{New: func() any { return new(sorter) }}

// shrink lets go of what one large text needed.
func (s *sorter) shrink() {
	const most = 64 << 10
	if cap(s.moved) > most || cap(s.members) > most/16 {
		*s = sorter{}
	}
}

// fail ends the reading: whatever is under way finds the end of the text.
func (s *sorter) fail(fault string) {
	if s.fault == "" {
		s.fault = fault
	}
	s.pos = len(s.src)
}

// peek passes over white space and returns the byte that follows; 0 at the end, and for a NUL,
// which begins nothing.
func (s *sorter) peek() byte {
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

func (s *sorter) value(dst []byte) []byte {
	switch c := s.peek(); c {
	case '{':
		return s.object(dst)
	case '[':
		return s.list(dst)
	case '"':
		dst, _ = s.text(dst)
		return dst
	case 't':
		return s.literal(dst, "true")
	case 'f':
		return s.literal(dst, "false")
	case 'n':
		return s.literal(dst, "null")
	}
	return s.number(dst)
}

func (s *sorter) literal(dst []byte, word string) []byte {
	if !bytes.HasPrefix(s.src[s.pos:], []byte(word)) {
		s.fail("a word is none of its own")
		return dst
	}
	s.pos += len(word)
	return append(dst, word...)
}

// text writes a text, and reports whether it is ASCII without escapes.
func (s *sorter) text(dst []byte) (out []byte, plain bool) {
	start := s.pos
	high := byte(0)
	for i := start + 1; i < len(s.src); i++ {
		c := s.src[i]
		switch {
		case c == '"':
			quoted := s.src[start : i+1]
			if high >= utf8.RuneSelf && !utf8.Valid(quoted) {
				s.fail("a text is not UTF-8")
				return dst, false
			}
			s.pos = i + 1
			return append(dst, quoted...), high < utf8.RuneSelf
		case c == '\\', c < ' ':
			return s.escaped(dst, i), false
		}
		high |= c
	}
	s.fail("a text has no end")
	return dst, false
}

// escaped writes a text with an escape, which stands at i, or with what should be one.
func (s *sorter) escaped(dst []byte, i int) []byte {
	for ; i < len(s.src) && s.src[i] != '"'; i++ {
		if s.src[i] == '\\' {
			i++
		}
	}
	if i >= len(s.src) {
		s.fail("a text has no end")
		return dst
	}
	text, err := jsontext.AppendUnquote(nil, s.src[s.pos:i+1])
	if err == nil {
		dst, err = jsontext.AppendQuote(dst, text)
	}
	if err != nil {
		s.fail("a text is wrong")
		return dst
	}
	s.pos = i + 1
	return dst
}

func (s *sorter) number(dst []byte) []byte {
	end := s.pos
	for end < len(s.src) && isNumber[s.src[end]] {
		end++
	}
	n := s.src[s.pos:end]
	s.pos = end
	if isPlain(n) {
		return append(dst, n...)
	}
	if len(n) <= maxNumberBytes {
		if text, ok := once.CanonicalNumber(string(n)); ok {
			return append(dst, text...)
		}
	}
	s.fail("something is no value, or a number out of range")
	return dst
}

// isNumber tells the bytes of numbers.
var isNumber = [256]bool{
	'0': true, '1': true, '2': true, '3': true, '4': true, '5': true, '6': true, '7': true,
	'8': true, '9': true, '-': true, '+': true, '.': true, 'e': true, 'E': true,
}

// isPlain reports whether a number is written as its canonical form is: with digits alone, and not
// too many of them.
func isPlain(n []byte) bool {
	digits := bytes.TrimPrefix(n, []byte("-"))
	if len(digits) == 0 || len(digits) > plainDigits ||
		digits[0] == '0' && len(n) > 1 { // 01 is no number, and -0 is 0
		return false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

func (s *sorter) enter(dst []byte) []byte {
	if s.depth++; s.depth > maxCanonicalDepth {
		s.fail("nested too deep")
		return dst
	}
	dst = append(dst, s.src[s.pos])
	s.pos++
	return dst
}

// next reads what stands after an element: it reports whether another one follows. The end is
// written.
func (s *sorter) next(dst []byte, end byte) ([]byte, bool) {
	switch s.peek() {
	case ',':
		s.pos++
		return append(dst, ','), true
	case end:
		s.pos++
		s.depth--
		return append(dst, end), false
	}
	s.fail("a list or an object has no end")
	return dst, false
}

// empty writes the end of a list or an object that has nothing in it.
func (s *sorter) empty(dst []byte, end byte) ([]byte, bool) {
	if s.peek() != end {
		return dst, s.fault != ""
	}
	s.pos++
	s.depth--
	return append(dst, end), true
}

func (s *sorter) list(dst []byte) []byte {
	dst, done := s.empty(s.enter(dst), ']')
	for more := !done; more; {
		dst = s.value(dst)
		dst, more = s.next(dst, ']')
	}
	return dst
}

func (s *sorter) object(dst []byte) []byte {
	dst, done := s.empty(s.enter(dst), '}')
	first := len(s.members)
	sorted := true
	for more := !done; more; {
		m := member{start: int32(len(dst))}
		if s.peek() != '"' {
			s.fail("a member has no name")
			break
		}
		dst, m.plain = s.text(dst)
		m.nameEnd = int32(len(dst))
		if m.plain {
			m.begin = beginning(dst[m.start+1 : m.nameEnd-1])
		}
		if s.peek() != ':' {
			s.fail("a member has no value")
			break
		}
		s.pos++
		dst = s.value(append(dst, ':'))
		m.end = int32(len(dst))
		if n := len(s.members); n > first {
			sorted = sorted && compareNames(dst, &s.members[n-1], &m) < 0
		}
		s.members = append(s.members, m)
		dst, more = s.next(dst, '}')
	}
	if !sorted && s.fault == "" {
		s.reorder(dst, s.members[first:])
	}
	s.members = s.members[:first]
	return dst
}

// reorder puts the members of an object, which but for its bracket end what is written, in their
// order.
func (s *sorter) reorder(dst []byte, members []member) {
	start := members[0].start
	const few = 16
	if len(members) <= few {
		sortFew(dst, members)
	} else {
		slices.SortFunc(members, func(a, b member) int { return compareNames(dst, &a, &b) })
	}
	s.moved = s.moved[:0]
	for i := range members {
		m := &members[i]
		if i > 0 {
			if compareNames(dst, &members[i-1], m) == 0 {
				s.fail("a name is there twice")
			}
			s.moved = append(s.moved, ',')
		}
		s.moved = append(s.moved, dst[m.start:m.end]...)
	}
	copy(dst[start:], s.moved)
}

// sortFew sorts by insertion: ordinary objects have few members.
func sortFew(text []byte, members []member) {
	for i := 1; i < len(members); i++ {
		m, j := members[i], i
		for ; j > 0 && compareNames(text, &members[j-1], &m) > 0; j-- {
			members[j] = members[j-1]
		}
		members[j] = m
	}
}

// compareNames orders members by their names, which are quoted: names with an escape are read
// first.
func compareNames(text []byte, a, b *member) int {
	x, y := text[a.start+1:a.nameEnd-1], text[b.start+1:b.nameEnd-1]
	if a.plain && b.plain {
		if a.begin != b.begin {
			return cmp.Compare(a.begin, b.begin)
		}
		return bytes.Compare(x, y)
	}
	if bytes.IndexByte(x, '\\') >= 0 || bytes.IndexByte(y, '\\') >= 0 {
		return compareUTF16(unquoted(text[a.start:a.nameEnd]), unquoted(text[b.start:b.nameEnd]))
	}
	return compareUTF16(x, y)
}

func unquoted(name []byte) []byte {
	out, _ := jsontext.AppendUnquote(nil, name) // it was written by AppendQuote
	return out
}
