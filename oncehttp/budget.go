package oncehttp

import (
	"errors"
	"sync/atomic"
)

// Budget bounds the bytes of all request bodies that are held at one time, in memory and in
// temporary files together. Several middlewares can share one. It is safe for concurrent use.
type Budget struct {
	max  int64
	used atomic.Int64
}

// NewBudget makes a budget of so many bytes; at least one body of [Config].MaxBody should fit.
func NewBudget(bytes int64) *Budget { return &Budget{max: bytes} }

var errBudget = errors.New("too many bodies are held at one time")

// reserve makes sure that a body's first n bytes are paid for. What is announced and has not come
// costs nothing, or a few clients that send nothing could keep out all others.
func (b *body) reserve(n int64) error {
	more := n - b.reserved
	if more <= 0 {
		return nil
	}
	if b.budget.used.Add(more) > b.budget.max {
		b.budget.used.Add(-more)
		return errBudget
	}
	b.reserved = n
	return nil
}

// giveBack ends the body's share.
func (b *body) giveBack() {
	if b.reserved > 0 {
		b.budget.used.Add(-b.reserved)
		b.reserved = 0
	}
}
