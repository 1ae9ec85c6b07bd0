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
	s.src, s.out = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), dst
	s.pos, s.from, s.depth, s.members, s.fault = 0, 0, 0, s.members[:0], ""
	s.value()
	if s.peek(); s.pos < len(s.src) {
		s.fail("something follows the value")
	}
	s.flush()
	out, fault := s.out, s.fault
	s.src, s.out = nil, nil
	s.shrink()
	sorters.Put(s)
	if fault != "" {
		return dst, errors.New("canonical JSON: " + fault)
	}
	return out, nil
}

// sorter reads a text by the grammar of RFC 8259 and writes it in its canonical form. What is
// written as it stands is copied in long pieces: out lacks what lies between from and pos. What the
// sorter holds is reused.
type sorter struct {
	src, out  []byte
	pos, from int // in src
	depth     int
	members   []member // of the objects that are being written, the innermost last
	moved     []byte
	fault     string
}

// member is one of an object.
type member struct {
	name, nameEnd int32 // in src, quoted
	start, end    int32 // in out
	plain         bool  // the name is ASCII without escapes
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
	s.pos, s.from = len(s.src), len(s.src)
}

// flush copies what was read and not written yet.
func (s *sorter) flush() {
	s.out = append(s.out, s.src[s.from:s.pos]...)
	s.from = s.pos
}

// replace writes something else for what is read up to end.
func (s *sorter) replace(text []byte, end int) {
	s.flush()
	s.out = append(s.out, text...)
	s.pos, s.from = end, end
}

// place is where the next byte comes to stand in what is written.
func (s *sorter) place() int32 { return int32(len(s.out) + s.pos - s.from) }

// peek passes over white space and returns the byte that follows; 0 at the end, and for a NUL,
// which begins nothing.
func (s *sorter) peek() byte {
	if s.pos < len(s.src) && s.src[s.pos] > ' ' {
		return s.src[s.pos]
	}
	return s.peekOver()
}

func (s *sorter) peekOver() byte {
	end := s.pos
	for end < len(s.src) && isBlank(s.src[end]) {
		end++
	}
	s.replace(nil, end)
	if end == len(s.src) {
		return 0
	}
	return s.src[end]
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func (s *sorter) value() {
	switch s.peek() {
	case '{':
		s.object()
	case '[':
		s.list()
	case '"':
		s.text()
	case 't':
		s.literal("true")
	case 'f':
		s.literal("false")
	case 'n':
		s.literal("null")
	default:
		s.number()
	}
}

func (s *sorter) literal(word string) {
	if !bytes.HasPrefix(s.src[s.pos:], []byte(word)) {
		s.fail("a word is none of its own")
		return
	}
	s.pos += len(word)
}

// text reads a text, and reports whether it is ASCII without escapes.
func (s *sorter) text() (plain bool) {
	start := s.pos
	high := byte(0)
	for i := start + 1; i < len(s.src); i++ {
		c := s.src[i]
		switch {
		case c == '"':
			if high >= utf8.RuneSelf && !utf8.Valid(s.src[start:i]) {
				s.fail("a text is not UTF-8")
				return false
			}
			s.pos = i + 1
			return high < utf8.RuneSelf
		case c == '\\', c < ' ':
			s.escaped(i)
			return false
		}
		high |= c
	}
	s.fail("a text has no end")
	return false
}

// escaped writes a text with an escape, which stands at i, or with what should be one.
func (s *sorter) escaped(i int) {
	for ; i < len(s.src) && s.src[i] != '"'; i++ {
		if s.src[i] == '\\' {
			i++
		}
	}
	if i >= len(s.src) {
		s.fail("a text has no end")
		return
	}
	text, err := jsontext.AppendUnquote(nil, s.src[s.pos:i+1])
	if err == nil {
		text, err = jsontext.AppendQuote(nil, text)
	}
	if err != nil {
		s.fail("a text is wrong")
		return
	}
	s.replace(text, i+1)
}

func (s *sorter) number() {
	end := s.pos
	for end < len(s.src) && isNumber[s.src[end]] {
		end++
	}
	n := s.src[s.pos:end]
	if isPlain(n) {
		s.pos = end
		return
	}
	if len(n) <= maxNumberBytes {
		if text, ok := once.CanonicalNumber(string(n)); ok {
			s.replace([]byte(text), end)
			return
		}
	}
	s.fail("something is no value, or a number out of range")
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

// enter reads the bracket that begins a list or an object, and reports whether something is in it;
// if not, the end is read too.
func (s *sorter) enter(end byte) (more bool) {
	if s.depth++; s.depth > maxCanonicalDepth {
		s.fail("nested too deep")
		return false
	}
	s.pos++
	if s.peek() != end {
		return s.fault == ""
	}
	s.pos++
	s.depth--
	return false
}

// next reads what stands after an element, and reports whether another one follows.
func (s *sorter) next(end byte) (more bool) {
	switch s.peek() {
	case ',':
		s.pos++
		return true
	case end:
		s.pos++
		s.depth--
		return false
	}
	s.fail("a list or an object has no end")
	return false
}

func (s *sorter) list() {
	for more := s.enter(']'); more; more = s.next(']') {
		s.value()
	}
}

func (s *sorter) object() {
	first := len(s.members)
	sorted := true
	for more := s.enter('}'); more; more = s.next('}') {
		m, ok := s.member()
		if !ok {
			break
		}
		if n := len(s.members); n > first {
			sorted = sorted && s.compare(&s.members[n-1], &m) < 0
		}
		s.members = append(s.members, m)
	}
	if !sorted && s.fault == "" {
		s.flush()
		s.reorder(s.members[first:])
	}
	s.members = s.members[:first]
}

func (s *sorter) member() (m member, ok bool) {
	if s.peek() != '"' {
		s.fail("a member has no name")
		return m, false
	}
	m.name, m.start = int32(s.pos), s.place()
	m.plain = s.text()
	m.nameEnd = int32(s.pos)
	if s.peek() != ':' {
		s.fail("a member has no value")
		return m, false
	}
	if m.plain {
		m.begin = beginning(s.src[m.name+1 : m.nameEnd-1])
	}
	s.pos++
	s.value()
	m.end = s.place()
	return m, s.fault == ""
}

// reorder puts the members of an object, which but for its bracket end what is written, in their
// order.
func (s *sorter) reorder(members []member) {
	start := members[0].start
	const few = 16
	if len(members) <= few {
		s.sortFew(members)
	} else {
		slices.SortFunc(members, func(a, b member) int { return s.compare(&a, &b) })
	}
	s.moved = s.moved[:0]
	for i := range members {
		m := &members[i]
		if i > 0 {
			if s.compare(&members[i-1], m) == 0 {
				s.fail("a name is there twice")
			}
			s.moved = append(s.moved, ',')
		}
		s.moved = append(s.moved, s.out[m.start:m.end]...)
	}
	copy(s.out[start:], s.moved)
}

// sortFew sorts by insertion: ordinary objects have few members.
func (s *sorter) sortFew(members []member) {
	for i := 1; i < len(members); i++ {
		m, j := members[i], i
		for ; j > 0 && s.compare(&members[j-1], &m) > 0; j-- {
			members[j] = members[j-1]
		}
		members[j] = m
	}
}

// compare orders members by their names: those with an escape are read first.
func (s *sorter) compare(a, b *member) int {
	if a.plain && b.plain && a.begin != b.begin {
		return cmp.Compare(a.begin, b.begin)
	}
	x, y := s.src[a.name+1:a.nameEnd-1], s.src[b.name+1:b.nameEnd-1]
	if bytes.IndexByte(x, '\\') >= 0 || bytes.IndexByte(y, '\\') >= 0 {
		return compareUTF16(unquoted(s.src[a.name:a.nameEnd]), unquoted(s.src[b.name:b.nameEnd]))
	}
	return compareUTF16(x, y)
}

func unquoted(name []byte) []byte {
	out, _ := jsontext.AppendUnquote(nil, name) // it was read before
	return out
}
