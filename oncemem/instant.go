package oncemem

import (
	"math"
	"time"
)

// instant is a time of the store's clock, in nanoseconds since 1970; 0 is none.
type instant int64

// now is the store's time.
func (s *Store) now() instant { return instant(s.cfg.Now().UnixNano()) }

// sinceNow is the clock of a store that is given none. It is steady: that somebody sets the
// machine's clock ends no lease and no retention.
func sinceNow() func() time.Time {
	start := time.Now()
	return func() time.Time { return start.Add(time.Since(start)) }
}

// add returns the time after a while; one that never comes if the while is too long.
func (t instant) add(d time.Duration) instant {
	if sum := t + instant(d); d < 0 || sum >= t {
		return sum
	}
	return math.MaxInt64
}

// since is how much later it is than an earlier time.
func (t instant) since(earlier instant) time.Duration { return time.Duration(t - earlier) }

func (t instant) micros() int64 { return int64(t) / int64(time.Microsecond) }

// time is what others are told; zero for none.
func (t instant) time() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(t))
}
