package oncesqlite

import (
	"sync"
	"time"
)

// clock is the store's time in microseconds. It never runs backwards, also over a restart, and
// never stands still: when the machine's clock was set back it goes on from the latest time, a
// little slower than time passes, until the machine's clock has caught up.
type clock struct {
	source func() time.Time

	mu   sync.Mutex
	last int64
	// read is the machine's time when last was given out. Its monotonic part tells how much time
	// has passed since, whatever was done to the clock.
	read time.Time
}

// catchUp is the part of passed time that the clock leaves out while it is ahead: 1/16.
const catchUp = 16

// now returns the time, at least as late as any time that was returned before.
func (c *clock) now() int64 {
	read := c.source()
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := read.Sub(c.read).Microseconds()
	switch t := read.UnixMicro(); {
	case t > c.last:
		c.last, c.read = t, read
	case c.read.IsZero(): // the first reading after a start
		c.read = read
	case passed-passed/catchUp > 0:
		c.last, c.read = max(t, c.last+passed-passed/catchUp), read
	}
	return c.last
}

// start lets the clock go on from a time that was given out before a restart.
func (c *clock) start(last int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.read = max(c.last, last), time.Time{}
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
