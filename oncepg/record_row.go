package oncepg

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oncekit/once"
)

// The states, as they are stored.
const (
	stateInFlight  = "in_flight"
	stateCompleted = "completed"
	stateReleased  = "released"
	stateUnknown   = "unknown"
)

// record is a row, and the time at which it was read. Times are µs since 1970; 0: none.
type record struct {
	once.Grant
	fingerprint                                    once.Fingerprint
	state                                          string
	hold, tombstone                                bool
	retention                                      int64
	claimed, leaseEnd, last, finished, expires, at int64
	size                                           int64 // of the outcome; -1: there is none
	note                                           once.Note
	outcome                                        []byte
}

// cells reads the columns of a row one after the other, and remembers whether one can't be read.
type cells struct {
	row row
	bad bool
}

func (c *cells) next() (string, bool) {
	s := c.row[0]
	c.row = c.row[1:]
	if s == nil {
		return "", false
	}
	return *s, true
}

func (c *cells) text() string {
	s, ok := c.next()
	c.bad = c.bad || !ok
	return s
}

func (c *cells) bytes(into []byte) {
	s := c.text()
	c.bad = c.bad || len(s) != len(into)
	copy(into, s)
}

func (c *cells) bool() bool { return c.text() == "true" }

func (c *cells) int() int64 {
	n, err := strconv.ParseInt(c.text(), 10, 64)
	c.bad = c.bad || err != nil
	return n
}

// time is µs; 0 for NULL.
func (c *cells) time() int64 {
	if c.row[0] == nil {
		c.row = c.row[1:]
		return 0
	}
	return c.int()
}

// readRecord reads what {columns} stands for. An error wraps once.ErrCorrupt; what could be read is
// returned with it.
func readRecord(columns row, at int64) (*record, error) {
	c := cells{row: columns}
	r := &record{at: at}
	c.bytes(r.Identity[:])
	c.bytes(r.fingerprint[:])
	r.state, r.hold = c.text(), c.bool()
	c.bytes(r.Owner[:])
	r.Fence, r.Attempt, r.Takeover = c.int(), int(c.int()), c.bool()
	r.retention, r.claimed, r.leaseEnd, r.last = c.int(), c.int(), c.int(), c.int()
	r.finished, r.expires = c.time(), c.time()
	r.tombstone, r.size = c.bool(), c.int()
	c.bad = json.Unmarshal([]byte(c.text()), &r.note.Scope) != nil || c.bad
	for i, s := range r.note.Scope {
		r.note.Scope[i] = plainText(s)
	}
	if len(r.note.Scope) == 0 {
		r.note.Scope = nil
	}
	r.note.Key, r.note.Request = plainText(c.text()), plainText(c.text())
	if c.bad || !r.sound() {
		return r, fmt.Errorf("record %s: %w", r.Identity.ID(), once.ErrCorrupt)
	}
	return r, nil
}

// sound reports whether the values are such as are written.
func (r *record) sound() bool {
	switch r.state {
	case stateInFlight, stateUnknown, stateReleased, stateCompleted:
	default:
		return false
	}
	return r.Fence > 0 && r.Attempt > 0 && r.retention > 0 && r.claimed > 0 && r.last > 0 &&
		r.leaseEnd > 0 && r.ended() == (r.expires > 0) &&
		(r.state == stateInFlight) == (r.finished == 0) &&
		(r.state == stateCompleted) == (r.size >= 0)
}

// ended tells a record that has an expiry.
func (r *record) ended() bool { return r.state == stateCompleted || r.state == stateReleased }

// past tells a record that is absent, whether or not it was removed already.
func (r *record) past() bool { return r.ended() && r.at >= r.expires }

// ownedBy tells whether a grant is that of the latest owner.
func (r *record) ownedBy(g once.Grant) bool {
	return r != nil && !r.past() && r.Fence == g.Fence && r.Owner == g.Owner
}

// lapsed tells an attempt whose lease ended without a word of its owner.
func (r *record) lapsed() bool { return r.state == stateInFlight && r.at >= r.leaseEnd }

func (r *record) policy() once.OnUnknown {
	if r.hold {
		return once.Hold
	}
	return once.Retry
}

func (r *record) kind() once.OutcomeKind {
	if r.tombstone {
		return once.Tombstone
	}
	return once.Kept
}

// shown is the state as people see it.
func (r *record) shown() once.RecordState {
	switch {
	case r.state == stateCompleted:
		return once.Completed
	case r.state == stateReleased:
		return once.Released
	case r.state == stateInFlight && !r.lapsed():
		return once.InFlight
	case r.hold:
		return once.Held
	}
	return once.Lost
}

// lostAt is when a lost attempt ended, or its lease.
func (r *record) lostAt() time.Time {
	if r.state == stateUnknown {
		return time.UnixMicro(r.finished)
	}
	return time.UnixMicro(r.leaseEnd)
}

// public is what people are shown of a record.
func (r *record) public() once.Record {
	out := once.Record{
		Identity: r.Identity, Fingerprint: r.fingerprint, State: r.shown(), OnUnknown: r.policy(),
		Fence: r.Fence, Attempt: r.Attempt, Note: r.note,
		ClaimedAt: time.UnixMicro(r.claimed), LastAt: time.UnixMicro(r.last),
		LeaseEnd: time.UnixMicro(r.leaseEnd), FinishedAt: dateOf(r.finished),
		ExpiresAt: dateOf(r.expires),
	}
	if r.state == stateCompleted {
		out.Outcome = once.Outcome{Kind: r.kind(), Data: r.outcome}
		out.Size = int(r.size)
	}
	return out
}

// dateOf is a time that may be missing.
func dateOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}

const hexDigits = "0123456789abcdef"

// recordText is a text as PostgreSQL takes it: what is no UTF-8, NUL and the backslash itself are
// written with a backslash, everything else as it is.
func recordText(s string) string {
	if utf8.ValidString(s) && !strings.ContainsAny(s, "\\\x00") {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		char, n := utf8.DecodeRuneInString(s)
		switch {
		case char == '\\':
			b.WriteString(`\\`)
		case char == 0 || char == utf8.RuneError && n == 1:
			b.WriteString(`\x`)
			b.WriteByte(hexDigits[s[0]>>4])
			b.WriteByte(hexDigits[s[0]&15])
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// plainText undoes recordText. What that never wrote is left as it is.
func plainText(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && strings.HasPrefix(s[i+1:], `\`) {
			i++
		} else if s[i] == '\\' && strings.HasPrefix(s[i+1:], "x") && len(s) >= i+4 {
			if n, err := strconv.ParseUint(s[i+2:i+4], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// scopeText is the text form of an array.
func scopeText(scope []string) string {
	parts := make([]*string, len(scope))
	for i, s := range scope {
		text := recordText(s)
		parts[i] = &text
	}
	return arrayText(parts)
}
