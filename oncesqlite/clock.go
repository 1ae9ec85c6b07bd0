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

	// passed is how much time has passed since the store's time was since, as the monotonic parts
	// of the readings have it: leases are judged by it. seen is the latest reading that it counts.
	passed time.Duration
	since  int64
	seen   time.Time
}

// instant is one reading of the clock, in microseconds.
type instant struct {
	// now is the store's time. lap is the same when the store is opened, and then goes on with the
	// time that passes: a step of the machine's clock must not end a lease, since the attempt that
	// has it is still under way. A source of time whose readings have no monotonic part can't tell
	// a step from time that passed.
	now, lap int64
}

// shown is what a time of leases is on the store's clock, as far as people are concerned.
func (i instant) shown(lap int64) time.Time { return timeOf(lap + i.now - i.lap) }

// catchUp is the part of passed time that the clock leaves out while it is ahead: 1/16.
const catchUp = 16

// now returns the time, at least as late as any time that was returned before.
func (c *clock) now() int64 { return c.instant().now }

// instant returns the time and that of leases; neither ever runs backwards.
func (c *clock) instant() instant {
	read := c.source()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tell(read)
	if c.seen.IsZero() { // the first reading after a start
		c.since, c.passed, c.seen = c.last, 0, read
	} else if d := read.Sub(c.seen); d > 0 {
		c.passed, c.seen = c.passed+d, read
	}
	return instant{now: c.last, lap: c.since + c.passed.Microseconds()}
}

// tell lets the store's time go on to a reading.
func (c *clock) tell(read time.Time) {
	passed := read.Sub(c.read).Microseconds()
	switch t := read.UnixMicro(); {
	case t > c.last:
		c.last, c.read = t, read
	case c.read.IsZero(): // the first reading after a start
		c.read = read
	case passed-passed/catchUp > 0:
		c.last, c.read = max(t, c.last+passed-passed/catchUp), read
	}
}

// start lets the clock go on from a time that was given out before a restart.
func (c *clock) start(last int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.read, c.seen = max(c.last, last), time.Time{}, time.Time{}
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
