package once

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// callContext is a context with a deadline that costs a timer only if somebody waits for it: a
// store in memory never does. It is otherwise what context.WithDeadline returns.
type callContext struct {
	parent   context.Context
	detached bool // the parent's end and deadline don't count
	deadline time.Time

	mu    sync.Mutex                   // of who arms it
	armed atomic.Pointer[armedContext] // nil until somebody waits
}

type armedContext struct {
	context.Context
	cancel context.CancelFunc
}

func newCallContext(parent context.Context, deadline time.Time) *callContext {
	if d, ok := parent.Deadline(); ok {
		deadline = earlier(d, deadline)
	}
	return &callContext{parent: parent, deadline: deadline}
}

// Deadline implements context.Context.
func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements context.Context.
func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	armed := c.armed.Load()
	if armed == nil {
		parent := c.parent
		if c.detached {
			parent = context.WithoutCancel(parent)
		}
		armed = &armedContext{}
		armed.Context, armed.cancel = context.WithDeadline(parent, c.deadline)
		c.armed.Store(armed)
	}
	return armed.Done()
}

// Err implements context.Context.
func (c *callContext) Err() error {
	if armed := c.armed.Load(); armed != nil {
		return armed.Err()
	}
	if !c.detached {
		if err := c.parent.Err(); err != nil {
			return err
		}
	}
	if time.Until(c.deadline) <= 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context. Once armed it answers as that context does, by which package
// context knows how to end children without a goroutine.
func (c *callContext) Value(key any) any {
	if armed := c.armed.Load(); armed != nil {
		return armed.Value(key)
	}
	if c.detached {
		return context.WithoutCancel(c.parent).Value(key)
	}
	return c.parent.Value(key)
}

// stop ends the call.
func (c *callContext) stop() {
	if armed := c.armed.Load(); armed != nil {
		armed.cancel()
	}
}
