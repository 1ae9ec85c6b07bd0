package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/oncekit/once/queue"
)

// Attempt makes one try of an effect and returns what has to become of its row. It takes no
// longer than the destination's timeout. A row that has expired is not sent; one whose
// destination is away or paused, or that was not begun when ctx ended, is given back uncounted. A
// sender that panics is logged, and its try counts as unknown. Safe for concurrent use.
func Attempt(ctx context.Context, d *Destination, row queue.Row) queue.Settlement {
	if s, ok := expired(row); ok {
		return s
	}
	if ctx.Err() != nil {
		return notTried(row, plainError("stopped before the try"))
	}
	m, err := NewMessage(row)
	if err != nil {
		return Settle(d, row, failf(Permanent, "%w", err), rand.Int64N)
	}
	probe, err := d.begin()
	if err != nil {
		return notTried(row, err)
	}
	err = d.send(ctx, m)
	d.end(probe, err)
	if err != nil && neverSent(ctx, err) {
		return notTried(row, err)
	}
	return Settle(d, row, err, rand.Int64N)
}

// neverSent reports whether a try that is known to have had no effect failed for a reason that
// says nothing about the row: the connection was away, or we are stopping.
func neverSent(ctx context.Context, err error) bool {
	if errors.Is(err, ErrNotConnected) {
		return true
	}
	var f *Failure
	return ctx.Err() != nil && errors.As(err, &f) && f.Class == Transient && f.RetryAfter == 0
}

// send calls the sender under the destination's timeout.
func (d *Destination) send(ctx context.Context, m Message) (err error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout())
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = failf(Unknown, "sender panicked: %s", fmt.Sprint(p))
			d.log().Error("sender panicked", "destination", d.Name, "name", m.Name,
				"effect", m.ID, "panic", queue.PanicText(p), "stack", string(debug.Stack()))
		}
	}()
	return d.Sender.Send(ctx, m)
}

func (d *Destination) timeout() time.Duration {
	if d.Timeout > 0 {
		return d.Timeout
	}
	return defaultTimeout
}

func (d *Destination) concurrency() int {
	if d.Concurrency > 0 {
		return d.Concurrency
	}
	return defaultConcurrency
}

func (d *Destination) log() *slog.Logger {
	if d.Log != nil {
		return d.Log
	}
	return slog.New(slog.DiscardHandler)
}
