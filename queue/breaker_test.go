package queue

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestALaneThatFailsIsProbedAndRecoversAtTheFirstSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(200, "work")
		var away atomic.Bool
		away.Store(true)
		var tries, now, most atomic.Int64
		stop := running(t, s, Worker{Concurrency: 16, Backoff: Backoff{Base: 10 * time.Second,
			Cap: 40 * time.Second}, Attempt: func(context.Context, Row) Settlement {
			tries.Add(1)
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(10 * time.Millisecond)
			if away.Load() {
				return Settlement{State: Pending, RetryIn: time.Hour}
			}
			return Settlement{State: Done}
		}}, Config{})
		time.Sleep(time.Second)
		first := tries.Load()
		if first < brokenAfter || first > 2*16 {
			t.Errorf("%d tries until the lane was broken", first)
		}
		most.Store(0)
		time.Sleep(10 * time.Minute)
		probes := tries.Load() - first
		// Waits of 20s on average, 40s at most, one row each.
		if probes < 15 || probes > 80 || most.Load() != 1 {
			t.Errorf("%d probes in 10 minutes, %d at once", probes, most.Load())
		}
		away.Store(false)
		time.Sleep(42 * time.Second)
		if n := s.count(Done); n < 100 {
			t.Errorf("%d rows are done 42s after the destination came back", n)
		}
		if most.Load() < 10 {
			t.Errorf("%d at once after the recovery", most.Load())
		}
		stop()
	})
}

func TestRowsThatWereNotTriedBreakTheLaneToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(100, "work")
		var tries atomic.Int64
		stop := running(t, s, Worker{Attempt: func(context.Context, Row) Settlement {
			tries.Add(1)
			return Settlement{State: Pending, NotTried: true}
		}}, Config{})
		time.Sleep(time.Minute)
		if n := tries.Load(); n > 200 {
			t.Errorf("%d tries in a minute of a destination that is away", n)
		}
		stop()
	})
}

func TestOneBadRowDoesNotSlowDownItsLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(1, "work")
		stop := running(t, s, Worker{Backoff: Backoff{Base: time.Hour, Cap: time.Hour},
			Attempt: func(_ context.Context, r Row) Settlement {
				if r.Seq == 1 {
					return Settlement{State: Pending, RetryIn: time.Second}
				}
				return Settlement{State: Done}
			}}, Config{})
		time.Sleep(time.Minute)
		s.add(50, "work")
		time.Sleep(2 * time.Second)
		if n := s.count(Done); n != 50 {
			t.Errorf("%d of 50 rows are done", n)
		}
		stop()
	})
}

func TestRefusalsForGoodDoNotBreakTheLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(100, "work")
		stop := running(t, s, Worker{Attempt: func(context.Context, Row) Settlement {
			return Settlement{State: Dead, DeadCause: CausePermanent}
		}}, Config{})
		time.Sleep(time.Second)
		if n := s.count(Dead); n != 100 {
			t.Errorf("%d of 100 rows were refused", n)
		}
		stop()
	})
}

func TestRowsThatUseUpTheirTriesBreakTheLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(100, "work")
		refuse := func(context.Context, Row) Settlement {
			return Settlement{State: Dead, DeadCause: CauseTransient}
		}
		stop := running(t, s, Worker{Concurrency: 4, Attempt: refuse}, Config{})
		time.Sleep(time.Second)
		if n := s.count(Dead); n > 20 {
			t.Errorf("%d rows went to an absent destination within a second", n)
		}
		stop()
	})
}

func TestAClosedGateTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(10, "work")
		var open atomic.Bool
		changed := make(chan struct{}, 1)
		begun := time.Now()
		stop := running(t, s, Worker{Attempt: finished, Open: open.Load, Changed: changed},
			Config{Poll: time.Hour})
		time.Sleep(10 * time.Minute)
		if n := len(s.times("lease work", begun)); n != 0 {
			t.Errorf("%d leases behind a closed gate", n)
		}
		open.Store(true)
		changed <- struct{}{}
		synctest.Wait()
		if n := s.count(Done); n != 10 {
			t.Errorf("%d rows are done at once after the gate opened", n)
		}
		stop()
	})
}
