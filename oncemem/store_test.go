package oncemem_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekit/once/internal/linear"
	"github.com/oncekit/once/oncemem"
	"github.com/oncekit/once/oncetest"
)

// maxOutcome is small, so that the cases of the limit are quick.
const maxOutcome = 256 << 10

// clock is a clock that moves only when it is told to.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) Now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) Advance(d time.Duration) { c.at.Add(int64(d)) }

func open(t *testing.T, cfg oncemem.Config) *oncemem.Store {
	t.Helper()
	cfg.SingleInstance = true
	s, err := oncemem.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	oncetest.Run(t, func(t *testing.T) oncetest.Harness {
		c := newClock()
		s := open(t, oncemem.Config{Now: c.Now, MaxOutcome: maxOutcome})
		return oncetest.Harness{Store: s, Advance: c.Advance, MaxOutcome: maxOutcome}
	})
}

func TestStoreByTheRealClock(t *testing.T) {
	oncetest.Run(t, func(t *testing.T) oncetest.Harness {
		return oncetest.Harness{Store: open(t, oncemem.Config{})}
	})
}

func TestStoreIsLinearizable(t *testing.T) {
	linear.Check(t, open(t, oncemem.Config{}), linear.Options{Rounds: 20})
}
