package queue

import (
	"math/rand/v2"
	"time"
)

// Backoff is an exponential backoff with full jitter.
type Backoff struct {
	// Base is the bound of the first wait. Default 500ms.
	Base time.Duration
	// Cap is the longest bound. Default 1m.
	Cap time.Duration
}

func (b Backoff) withDefaults() Backoff {
	if b.Base <= 0 {
		b.Base = 500 * time.Millisecond
	}
	if b.Cap <= 0 {
		b.Cap = time.Minute
	}
	return b
}

// Bound returns the bound of the nth wait, n from 1: Base × 2^(n-1), at most Cap.
func (b Backoff) Bound(n int) time.Duration {
	b = b.withDefaults()
	d := b.Base
	for range n - 1 {
		if d >= b.Cap/2 {
			return b.Cap
		}
		d *= 2
	}
	return min(d, b.Cap)
}

// Jitter returns a wait between 0 and the nth bound, every one equally likely, so that what failed
// together does not come again together.
func (b Backoff) Jitter(n int) time.Duration {
	return rand.N(b.Bound(n)) + 1
}

// Spread lengthens a wait that the other side asked for by up to a quarter: it asked for the same
// of all that it turned away. rnd returns a number in [0, n), as math/rand/v2.Int64N does.
func Spread(asked time.Duration, rnd func(n int64) int64) time.Duration {
	return asked + time.Duration(rnd(int64(asked)/4+1))
}
