package oncesqlite

import (
	"sync/atomic"
	"time"
)

// clock is the store's time in microseconds. It never runs backwards, also over a restart.
type clock struct {
	source func() time.Time
	last   atomic.Int64
}

// now returns the time, at least as late as any time that was returned before.
func (c *clock) now() int64 {
	for {
		last, t := c.last.Load(), c.source().UnixMicro()
		if t <= last {
			return last
		}
		if c.last.CompareAndSwap(last, t) {
			return t
		}
	}
}

// micros returns t in microseconds; a zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// timeOf is the reverse of micros.
func timeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
