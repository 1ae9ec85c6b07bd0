package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestNewDispatcherRefusesWhatCannotWork(t *testing.T) {
	s := newFake(0, "")
	work := Worker{Lane: "a", Attempt: finished}
	step := Stepping{StepRequest{Lane: "s", Max: 1,
		Decide: func(View, Row) (Settlement, error) { return Settlement{}, nil }}}
	for name, c := range map[string]struct {
		store   Store
		workers []Worker
		steps   []Stepping
	}{
		"no lane":        {s, []Worker{{Attempt: finished}}, nil},
		"no attempt":     {s, []Worker{{Lane: "a"}}, nil},
		"one lane twice": {s, []Worker{work, work}, nil},
		"no transactor":  {s, nil, []Stepping{step}},
		"no decision":    {stepper{fakeStore: s}, nil, []Stepping{{StepRequest{Lane: "s"}}}},
		"a step and a worker": {stepper{fakeStore: s}, []Worker{{Lane: "s", Attempt: finished}},
			[]Stepping{step}},
	} {
		if _, err := NewDispatcher(c.store, c.workers, c.steps, Config{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := NewDispatcher(stepper{fakeStore: s}, []Worker{work}, []Stepping{step},
		Config{}); err != nil {
		t.Error(err)
	}
}

func TestDrainingLetsTriesEndWithinItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(40, "work")
		var cut atomic.Int64
		begun := time.Now()
		stop := running(t, s, Worker{Concurrency: 4,
			Attempt: func(ctx context.Context, r Row) Settlement {
				select {
				case <-time.After(time.Duration(r.Seq) * 10 * time.Second): // 10, 20, 30, 40s
					return Settlement{State: Done}
				case <-ctx.Done():
					cut.Add(1)
					return Settlement{State: Pending, NotTried: true}
				}
			}}, Config{Drain: 25 * time.Second})
		time.Sleep(time.Second)
		stop() // 10 and 20 end in time, 30 and 40 are told at 26s
		if took := time.Since(begun); took != 26*time.Second {
			t.Errorf("it took %v", took)
		}
		if s.count(Done) != 2 || cut.Load() != 2 || s.count(Pending) != 38 ||
			s.count(Running) != 0 {
			t.Errorf("%d done, %d told to end, %d due, %d running", s.count(Done), cut.Load(),
				s.count(Pending), s.count(Running))
		}
	})
}

func TestD14_WhatWasNotBegunStaysDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(500, "work")
		begun := time.Now()
		stop := running(t, s, Worker{Attempt: func(context.Context, Row) Settlement {
			time.Sleep(time.Second)
			return Settlement{State: Done}
		}}, Config{})
		time.Sleep(1500 * time.Millisecond)
		leases := len(s.times("lease work", begun))
		stop()
		if n := len(s.times("lease work", begun)); n != leases {
			t.Errorf("%d leases while draining", n-leases)
		}
		if s.count(Done) != 32 || s.count(Pending) != 468 {
			t.Errorf("%d done, %d due", s.count(Done), s.count(Pending))
		}
	})
}

func TestABellIsAnsweredAtOnceAndSilenceIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := belled{newFake(0, ""), make(chan struct{}, 1)}
		stop := running(t, s, Worker{Attempt: finished}, Config{Poll: 10 * time.Second})
		time.Sleep(time.Second)
		s.add(1, "work")
		s.bell <- struct{}{}
		synctest.Wait()
		if s.count(Done) != 1 {
			t.Error("the bell was not answered at once")
		}
		s.add(1, "work")
		time.Sleep(11 * time.Second)
		if s.count(Done) != 2 {
			t.Error("a row that nothing rang for was not found by the poll")
		}
		stop()
	})
}

func TestD02_ARowIsTriedAgainAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(1, "work")
		begun := time.Now()
		var mu sync.Mutex
		var tries []time.Duration
		stop := running(t, s, Worker{Attempt: func(_ context.Context, r Row) Settlement {
			mu.Lock()
			tries = append(tries, time.Since(begun))
			mu.Unlock()
			if r.Attempt < 3 {
				return Settlement{State: Pending, RetryIn: 1234 * time.Millisecond}
			}
			return Settlement{State: Done}
		}}, Config{Poll: time.Minute})
		time.Sleep(10 * time.Second)
		stop()
		want := []time.Duration{0, 1234 * time.Millisecond, 2468 * time.Millisecond}
		if !slices.Equal(tries, want) {
			t.Errorf("tried at %v, want %v", tries, want)
		}
	})
}

func TestALeaseThatFailsIsAskedAgainAtAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(3, "work")
		failures := 0
		s.leaseErr = func() error {
			if failures++; failures <= 5 {
				return errAway
			}
			return nil
		}
		begun := time.Now()
		stop := running(t, s, Worker{Attempt: finished,
			Backoff: Backoff{Base: time.Second, Cap: 4 * time.Second}}, Config{})
		time.Sleep(20 * time.Second)
		want := []time.Duration{0, 1, 3, 7, 11, 15} // seconds: 1, 2, 4, 4, 4 apart
		for i, at := range s.times("lease work", begun)[:6] {
			if at != want[i]*time.Second {
				t.Errorf("lease %d at %v, want %vs", i, at, int(want[i]))
			}
		}
		if s.count(Done) != 3 {
			t.Errorf("%d rows are done", s.count(Done))
		}
		stop()
	})
}

func TestOneLaneNeverWaitsForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(5, "slow")
		s.add(1000, "quick")
		d, err := NewDispatcher(s, []Worker{
			{Lane: "slow", Concurrency: 1, Attempt: func(context.Context, Row) Settlement {
				time.Sleep(30 * time.Second)
				return Settlement{State: Done}
			}},
			{Lane: "quick", Attempt: finished},
		}, nil, Config{})
		if err != nil {
			t.Fatal(err)
		}
		stop := background(t, d)
		time.Sleep(time.Second)
		if n := s.count(Done); n != 1000 {
			t.Errorf("%d rows of the quick lane are done within a second", n)
		}
		stop()
	})
}

func TestTheWorkersRulesReachTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(0, "")
		stop := running(t, s, Worker{Attempt: finished, Concurrency: 7, Lease: time.Minute,
			MaxLost: 3, HoldLost: true, Block: true}, Config{})
		synctest.Wait()
		stop()
		got := s.asked[0]
		if got.Lane != "work" || got.Max != 7 || got.For != time.Minute || got.MaxLost != 3 ||
			!got.HoldLost || !got.Block(Row{}) {
			t.Errorf("asked %+v", got)
		}
	})
}

func TestEachSettledTryIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(3, "work")
		var mu sync.Mutex
		seen := map[int64]string{}
		stop := running(t, s, Worker{Attempt: func(_ context.Context, r Row) Settlement {
			time.Sleep(time.Duration(r.Seq) * time.Second)
			return Settlement{State: Done}
		}}, Config{Observe: func(r Row, set Settlement, d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			seen[r.Seq] = fmt.Sprint(set.State, " ", d)
		}})
		time.Sleep(5 * time.Second)
		stop()
		if fmt.Sprint(seen) != "map[1:done 1s 2:done 2s 3:done 3s]" {
			t.Errorf("observed %v", seen)
		}
	})
}

// stepper is a fake store that can decide inside its transactions.
type stepper struct {
	*fakeStore
	step func(StepRequest) (Stepped, error)
}

func (s stepper) Step(_ context.Context, r StepRequest) (Stepped, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call("step")
	return s.step(r)
}

func (s stepper) Transact(context.Context, func(View) (Settlement, error)) error {
	return errors.New("not in these tests")
}

func TestALaneIsSteppedWhileMoreIsDueThenAtTheNextTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		answers := []Stepped{
			{Rows: 5, More: true}, {Rows: 5, More: true}, {Rows: 1},
			{NextAt: begun.Add(1300 * time.Millisecond)}, {Rows: 1, NextAt: begun.Add(time.Hour)},
		}
		n := 0
		s := stepper{newFake(0, ""), func(StepRequest) (Stepped, error) {
			n++
			if n <= len(answers) {
				return answers[n-1], nil
			}
			return Stepped{}, errAway
		}}
		d, err := NewDispatcher(s, nil, []Stepping{{StepRequest{Lane: "flow", Max: 5,
			Decide: func(View, Row) (Settlement, error) { return Settlement{}, nil }}}}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		stop := background(t, d)
		time.Sleep(6 * time.Second)
		stop()
		ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
		want := []time.Duration{0, 0, 0, ms(1000), ms(1300), ms(2300), // then it fails
			ms(2800), ms(3800), ms(5800)} // 0.5, 1, 2s apart
		if got := s.times("step", begun); !slices.Equal(got, want) {
			t.Errorf("stepped at %v, want %v", got, want)
		}
	})
}

func TestSweepingGoesOnInSmallStepsWhileThereIsMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(0, "")
		left := 2*sweepBatch + 50
		s.sweep = func(limit int) (int, error) {
			if limit != sweepBatch {
				t.Errorf("limit %d", limit)
			}
			n := min(limit, left)
			left -= n
			return n, nil
		}
		begun := time.Now()
		stop := running(t, s, Worker{Attempt: finished}, Config{SweepEvery: time.Minute})
		time.Sleep(61 * time.Second)
		stop()
		want := []time.Duration{0, sweepPause, 2 * sweepPause, 2*sweepPause + time.Minute}
		if got := s.times("sweep", begun); !slices.Equal(got, want) {
			t.Errorf("swept at %v, want %v", got, want)
		}
	})
}
