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
		s := newFake(3000, "work")
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
		// Waits of 0.5s on average, 1s at most, one row each.
		if probes < 800 || probes > 2000 || most.Load() != 1 {
			t.Errorf("%d probes in 10 minutes, %d at once", probes, most.Load())
		}
		away.Store(false)
		time.Sleep(2 * time.Second)
		if n := s.count(Done); n < 100 {
			t.Errorf("%d rows are done 2s after the destination came back", n)
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
			return Settlement{State: Pending, NotTried: true, RetryIn: time.Second}
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
		s := newFake(1000, "work")
		refuse := func(context.Context, Row) Settlement {
			return Settlement{State: Dead, DeadCause: CauseTransient}
		}
		stop := running(t, s, Worker{Concurrency: 4, Attempt: refuse}, Config{})
		time.Sleep(time.Second)
		if n := s.count(Dead); n > 20 {
			t.Errorf("%d rows went to an absent destination within a second", n)
		}
		time.Sleep(10 * time.Minute) // waits of half a minute on average
		if n := s.count(Dead); n > 80 {
			t.Errorf("%d rows went to an absent destination in 10 minutes", n)
		}
		stop()
	})
}

func TestAClosedGateTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(10, "work")
		var limit atomic.Int64
		changed := make(chan struct{}, 1)
		begun := time.Now()
		stop := running(t, s, Worker{Attempt: finished, Changed: changed,
			Limit: func() int { return int(limit.Load()) }}, Config{Poll: time.Hour})
		time.Sleep(10 * time.Minute)
		if n := len(s.times("lease work", begun)); n != 0 {
			t.Errorf("%d leases behind a closed gate", n)
		}
		limit.Store(16)
		changed <- struct{}{}
		synctest.Wait()
		if n := s.count(Done); n != 10 {
			t.Errorf("%d rows are done at once after the gate opened", n)
		}
		stop()
	})
}

func TestD04_RowsThatFailAgainAndAgainDoNotHoldUpFreshOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bad = 200 // due again long before the lane is probed for each of them
		s := newFake(bad, "work")
		var again atomic.Int64
		stop := running(t, s, Worker{Backoff: Backoff{Base: time.Second, Cap: 5 * time.Minute},
			Attempt: func(_ context.Context, r Row) Settlement {
				if r.Seq > bad {
					return Settlement{State: Done}
				}
				if r.Attempt > 1 {
					again.Add(1)
				}
				return Settlement{State: Pending, RetryIn: 10 * time.Second}
			}}, Config{})
		time.Sleep(time.Hour)
		// Waits of 2.5 minutes on average, once they are at their longest.
		if n := again.Load(); n < 10 || n > 120 {
			t.Errorf("%d further tries of rows that fail in an hour", n)
		}
		s.add(50, "work")
		time.Sleep(3 * time.Second)
		if n := s.count(Done); n != 50 {
			t.Errorf("%d of 50 rows are done 3s after they came, behind %d that fail", n, bad)
		}
		stop()
	})
}
