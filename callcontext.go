package once

import (
	"context"
	"sync"
	"time"
)

// callContext is a context with a deadline that costs a timer only if somebody waits for it: a
// store in memory never does. It is otherwise what context.WithDeadline returns.
type callContext struct {
	parent   context.Context
	deadline time.Time

	mu     sync.Mutex
	armed  context.Context // nil until somebody waits
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
	if c.armed == nil {
		c.armed, c.cancel = context.WithDeadline(c.parent, c.deadline)
	}
	return c.armed.Done()
}

// Err implements context.Context.
func (c *callContext) Err() error {
	c.mu.Lock()
	armed := c.armed
	c.mu.Unlock()
	if armed != nil {
		return armed.Err()
	}
	if err := c.parent.Err(); err != nil {
		return err
	}
	if time.Until(c.deadline) <= 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context. Once armed it answers as that context does, by which package
// context knows how to end children without a goroutine.
func (c *callContext) Value(key any) any {
	c.mu.Lock()
	armed := c.armed
	c.mu.Unlock()
	if armed != nil {
		return armed.Value(key)
	}
	return c.parent.Value(key)
}

// stop ends the call.
func (c *callContext) stop() {
	c.mu.Lock()
	cancel := c.cancel
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
