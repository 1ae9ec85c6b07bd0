package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncekit/once/queue"
)

// Defaults of a destination.
const (
	defaultTimeout     = 10 * time.Second
	defaultConcurrency = 16
	defaultProbe       = time.Minute
	defaultRetryCap    = 5 * time.Minute
)

// notTriedWait is the wait of a row whose try was taken back. It is short, since the gate keeps
// the row from being taken again too early; it only bounds what a dispatcher that ignores gates
// costs.
const notTriedWait = time.Second

// maxErrorChars bounds the reason that is stored with a row.
const maxErrorChars = 500

// Rand returns a number in [0, n) for a positive n, like math/rand/v2.Int64N.
type Rand func(n int64) int64

// Backoff returns the wait before the next try after the attempt-th (counted from 1) has failed:
// a random one between 0 and base·2^(attempt-1), at most the cap ("full jitter"), so that rows
// which failed together don't come back together.
func (r Retry) Backoff(attempt int, rnd Rand) time.Duration {
	b := queue.Backoff{Base: r.Base, Cap: r.cap()} // its default base is ours
	return time.Duration(rnd(int64(b.Bound(attempt)))) + 1
}

func (r Retry) cap() time.Duration {
	if r.Cap > 0 {
		return r.Cap
	}
	return defaultRetryCap
}

// Settle says what has to become of a row after its Send returned err: done, another try, held,
// or a dead letter. It is a pure function of its arguments; it doesn't pause the destination.
func Settle(d *Destination, row queue.Row, err error, rnd Rand) queue.Settlement {
	s := queue.Settlement{Grant: row.Grant()}
	if err == nil {
		s.State = queue.Done
		return s
	}
	s.Error, s.Public = printable(err.Error(), maxErrorChars), queue.Public(err)
	class, asked := classOf(err)
	switch {
	case class == Pause:
		return notTried(row, err)
	case class == Permanent:
		s.State, s.DeadCause, s.Block = queue.Dead, queue.CausePermanent, d.Block
	case class == Unknown && d.HoldUnknown:
		s.State, s.Block = queue.Held, d.Block
	case d.Retry.Attempts > 0 && row.Attempt >= d.Retry.Attempts:
		s.State, s.DeadCause, s.Block = queue.Dead, queue.CauseTransient, d.Block
		s.Error = fmt.Sprintf("gave up after %d attempts: %s", row.Attempt, s.Error)
	default:
		s.State = queue.Pending
		s.RetryIn = d.Retry.Backoff(row.Attempt, rnd)
		if asked > 0 {
			s.RetryIn = queue.Spread(min(asked, d.Retry.cap()), rnd)
		}
	}
	return s
}

// classOf returns the class of a sender's error and the wait that the destination asked for. Of a
// sender that ran out of time without saying more nobody knows what it had done by then.
func classOf(err error) (Class, time.Duration) {
	var f *Failure
	if errors.As(err, &f) && f.Class != 0 {
		return f.Class, f.RetryAfter
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return Unknown, 0
	}
	return Transient, 0
}

// notTried gives a row back as if it had not been taken.
func notTried(row queue.Row, reason error) queue.Settlement {
	return queue.Settlement{
		Grant: row.Grant(), State: queue.Pending, NotTried: true, RetryIn: notTriedWait,
		Error: printable(reason.Error(), maxErrorChars), Public: queue.Public(reason),
	}
}

// expired reports whether the row must not be sent any more, and what becomes of it then. The time
// is that of its lease, by the store's clock.
func expired(row queue.Row) (queue.Settlement, bool) {
	if row.ExpiresAt.IsZero() || row.StartedAt.Before(row.ExpiresAt) {
		return queue.Settlement{}, false
	}
	late := "not sent before " + row.ExpiresAt.UTC().Format(time.RFC3339)
	return queue.Settlement{Grant: row.Grant(), State: queue.Expired, Error: late,
		Public: late}, true
}
