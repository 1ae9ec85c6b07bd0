package inbox

import (
	"net/http"
	"strings"

	"github.com/oncekit/once/queue"
)

// Tracer follows messages, for example as spans. Safe for concurrent use; it must not block.
type Tracer interface {
	// Receipt is told of a message that has come to a source under one of its paths. parent and
	// state are the sender's trace context, if it is valid. Nil: the message is not followed.
	Receipt(r *http.Request, source, parent, state string) Trace
}

// Trace is a message that is followed.
type Trace interface {
	// Context returns the trace context that is stored with the callbacks of the message, in the
	// place of the sender's.
	Context() (parent, state string)
	// End is told what came of the message. It is called once, after the answer was written.
	End(Received)
}

// Received is what came of a message.
type Received struct {
	Outcome queue.Outcome
	// Status of the answer.
	Status int
	// Peer is the address of the sender, as a trusted proxy says it where one is between.
	Peer string
	// Arrivals are the callbacks of the message that the store was asked about; empty if it has
	// none, or all of them were known. They must not be changed or kept.
	Arrivals []queue.Arrival
	// Receipts are what came of the arrivals, in their order; empty if they were not stored.
	Receipts []queue.Receipt
	// Known is the id of the callback that the message repeats, where the store was not asked.
	Known string
}

// ID returns the public id of the callback that the nth arrival became, or is a repeat of.
func (g *Received) ID(n int) string {
	if n < len(g.Receipts) && !g.Receipts[n].Identity.IsZero() {
		return g.Receipts[n].Identity.ID()
	}
	return g.Arrivals[n].Identity.ID()
}

const traceParentLen = 55 // version 00: 2+1+32+1+16+1+2

// traceContext returns what a request says of its trace, as far as it is valid. A tracestate counts
// only beside a valid traceparent (W3C Trace Context, section 3.3).
func traceContext(h http.Header) (parent, state string) {
	if parent = traceParent(h); parent == "" {
		return "", ""
	}
	if lines := h["Tracestate"]; len(lines) > 0 {
		state = traceState(lines)
	}
	return parent, state
}

// traceParent returns the traceparent header if it is one valid line (W3C Trace Context, section
// 3.2), else the empty text.
func traceParent(h http.Header) string {
	lines := h["Traceparent"]
	if len(lines) != 1 || len(lines[0]) < traceParentLen {
		return ""
	}
	s := lines[0]
	if len(s) > traceParentLen && (strings.HasPrefix(s, "00") || s[traceParentLen] != '-') {
		return ""
	}
	s = s[:traceParentLen] // a later version may say more
	for i := range len(s) {
		c, dash := s[i], i == 2 || i == 35 || i == 52
		if dash != (c == '-') || !dash && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
	}
	if strings.HasPrefix(s, "ff") || s[3:35] == strings.Repeat("0", 32) ||
		s[36:52] == strings.Repeat("0", 16) {
		return ""
	}
	return s
}

// Limits of a tracestate (W3C Trace Context, sections 3.3.1.1 and 3.3.1.5).
const (
	maxStateMembers = 32
	maxStateBytes   = 512
	longStateMember = 128 // longer members go first where there is too much
)

// traceState returns the members of tracestate headers as one text; empty if one of them is none.
// What is too long loses whole members: long ones first, then from the end.
func traceState(lines []string) string {
	var members []string
	size := 0
	for _, line := range lines {
		for member := range strings.SplitSeq(line, ",") {
			if member = strings.Trim(member, " \t"); member == "" {
				continue // an empty member is allowed, and says nothing
			}
			if !validMember(member) || len(members) == maxStateMembers {
				return ""
			}
			members = append(members, member)
			size += len(member) + 1
		}
	}
	limit := func(longest int) {
		for i := len(members) - 1; i >= 0 && size > maxStateBytes+1; i-- {
			if len(members[i]) > longest {
				size -= len(members[i]) + 1
				members = append(members[:i], members[i+1:]...)
			}
		}
	}
	limit(longStateMember)
	limit(0)
	return strings.Join(members, ",")
}

// validMember reports whether s is key=value as a tracestate holds it (section 3.3.1.3): a key of
// lower-case letters, digits and _-*/@, and a value of printable ASCII without comma and equals
// sign.
func validMember(s string) bool {
	key, value, found := strings.Cut(s, "=")
	if !found || key == "" || len(key) > 256 || value == "" || len(value) > 256 {
		return false
	}
	for i := range len(key) {
		c := key[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("_-*/@", rune(c)) {
			return false
		}
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '=' {
			return false
		}
	}
	return true
}
