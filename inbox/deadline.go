package inbox

import (
	"context"
	"sync/atomic"
	"time"
)

// deadlines hands out contexts that end after a timeout, or up to a tenth later. Messages that come
// within a tenth of the timeout share one, so that a message costs no timer of its own.
type deadlines struct {
	timeout time.Duration
	latest  atomic.Pointer[deadline]
}

type deadline struct {
	ctx context.Context
	// cancel is never called: the context may have many users. Its own timer ends it.
	cancel context.CancelFunc
	until  time.Time
}

func (d *deadlines) context(now time.Time) context.Context {
	latest := d.latest.Load()
	if latest != nil && now.Before(latest.until) {
		return latest.ctx
	}
	shared := d.timeout / 10
	ctx, cancel := context.WithTimeout(context.Background(), d.timeout+shared)
	next := &deadline{ctx: ctx, cancel: cancel, until: now.Add(shared)}
	if d.latest.CompareAndSwap(latest, next) {
		return ctx
	}
	cancel() // another goroutine was faster
	return d.latest.Load().ctx
}

// valuedContext has the end of one context and the values of both. An Append has a shared deadline
// and the values of its request, whose own end is left out: a callback is stored whether or not its
// sender still waits for the answer. A Commit has the store's limit and the values of its attempt.
type valuedContext struct {
	context.Context
	values context.Context
}

// Value looks at the deadline first, so that contexts derived from this one find what ends it.
func (c *valuedContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}
