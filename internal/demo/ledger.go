package demo

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/oncekit/once/internal/demo/model"
)

// ledger is what the senders know: what was sent, how it was answered, and in which order callbacks
// were acknowledged first.
type ledger struct {
	mu   sync.Mutex
	told []*model.Callback // in the order of their first acknowledgement
	rest map[*model.Callback]bool
	// shifted is how many of told were acknowledged before the server's clock was put forward last.
	shifted int

	// For who watches.
	sent, accepted, duplicates, late, conflicts, unanswered atomic.Int64
}

func newLedger() *ledger { return &ledger{rest: map[*model.Callback]bool{}} }

// begin notes a callback that is about to be sent.
func (l *ledger) begin(c *model.Callback) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest[c] = true
}

// note notes one request and its answer.
func (l *ledger) note(c *model.Callback, s model.Send) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.Sends = append(c.Sends, s)
	l.sent.Add(1)
	switch {
	case !s.Told:
		l.unanswered.Add(1)
	case s.Changed:
		l.conflicts.Add(1)
	case l.rest[c]:
		delete(l.rest, c)
		l.told = append(l.told, c)
		l.accepted.Add(1)
	default:
		l.duplicates.Add(1)
		if s.Why == model.WhyLate {
			l.late.Add(1)
		}
	}
}

// acknowledged reports whether a callback was answered.
func (l *ledger) acknowledged(c *model.Callback) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.rest[c]
}

// shift notes that the server's clock was put forward.
func (l *ledger) shift() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shifted = len(l.told)
}

// earlier returns up to n callbacks that were acknowledged hours ago by the server's clock.
func (l *ledger) earlier(pick func(int) int, n int) (out []*model.Callback) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range min(n, l.shifted) {
		out = append(out, l.told[pick(l.shifted)])
	}
	return out
}

// callbacks returns everything that was sent: in the order in which it was acknowledged, at the end
// what never was. It is for when nobody sends any more.
func (l *ledger) callbacks() []*model.Callback {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Clone(l.told)
	for c := range l.rest {
		if len(c.Sends) > 0 {
			out = append(out, c)
		}
	}
	return out
}
