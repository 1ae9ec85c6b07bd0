package once

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// lazyContext is a context that can end, and costs a channel, a timer and a place among the
// children of its parent only if somebody waits for its end: a store in memory never does, and many
// handlers don't. It is otherwise what context.WithCancelCause or WithDeadline returns.
type lazyContext struct {
	parent   context.Context
	detached bool      // the parent's end and deadline don't count
	deadline time.Time // zero: none of its own
	grant    *Grant    // what [GrantOf] returns; nil: the parent is asked

	mu    sync.Mutex                   // of who arms it
	armed atomic.Pointer[armedContext] // nil until somebody waits
	cause error                        // written before ended is
	ended atomic.Bool
}

type armedContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

func newCallContext(parent context.Context, deadline time.Time) *lazyContext {
	if d, ok := parent.Deadline(); ok {
		deadline = earlier(d, deadline)
	}
	return &lazyContext{parent: parent, deadline: deadline}
}

// Deadline implements context.Context.
func (c *lazyContext) Deadline() (time.Time, bool) {
	if c.deadline.IsZero() && !c.detached {
		return c.parent.Deadline()
	}
	return c.deadline, !c.deadline.IsZero()
}

// Done implements context.Context.
func (c *lazyContext) Done() <-chan struct{} { return c.arm().Done() }

func (c *lazyContext) arm() *armedContext {
	if armed := c.armed.Load(); armed != nil {
		return armed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if armed := c.armed.Load(); armed != nil {
		return armed
	}
	parent := c.parent
	if c.detached {
		parent = context.WithoutCancel(parent)
	}
	armed := &armedContext{}
	if c.deadline.IsZero() {
		armed.Context, armed.cancel = context.WithCancelCause(parent)
	} else {
		ctx, cancel := context.WithDeadline(parent, c.deadline)
		armed.Context, armed.cancel = ctx, func(error) { cancel() }
	}
	c.armed.Store(armed)
	if c.ended.Load() { // end may not have seen it
		armed.cancel(c.cause)
	}
	return armed
}

// Err implements context.Context.
func (c *lazyContext) Err() error {
	if armed := c.armed.Load(); armed != nil {
		return armed.Err()
	}
	if !c.detached {
		if err := c.parent.Err(); err != nil {
			return err
		}
	}
	if c.ended.Load() {
		return context.Canceled
	}
	if !c.deadline.IsZero() && time.Until(c.deadline) <= 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context. Once armed it answers as that context does, by which package
// context knows how to end children without a goroutine, and why it ended.
func (c *lazyContext) Value(key any) any {
	if key == (grantKey{}) && c.grant != nil {
		return c.grant
	}
	if c.armed.Load() != nil || c.ended.Load() {
		return c.arm().Value(key)
	}
	if c.detached {
		return context.WithoutCancel(c.parent).Value(key)
	}
	return c.parent.Value(key)
}

// end ends the context; the first cause counts. It must not be called by two at once.
func (c *lazyContext) end(cause error) {
	if c.ended.Load() {
		return
	}
	c.cause = cause
	c.ended.Store(true)
	if armed := c.armed.Load(); armed != nil {
		armed.cancel(cause)
	}
}

// stop ends a call.
func (c *lazyContext) stop() { c.end(context.Canceled) }

type grantKey struct{}

// GrantOf returns what the work that runs under a context holds: the innermost, if work is done
// within work. Its fence rises with each attempt, so that a service that keeps the highest one it
// saw can refuse a late write of an earlier attempt. ok is false outside of guarded work. It is
// safe for concurrent use.
func GrantOf(ctx context.Context) (grant Grant, ok bool) {
	if g, _ := ctx.Value(grantKey{}).(*Grant); g != nil {
		return *g, true
	}
	return Grant{}, false
}
