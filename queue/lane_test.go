package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekit/once"
)

func TestConcurrencyIsBoundedAndUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(100, "work")
		var now, most atomic.Int64
		attempt := func(context.Context, Row) Settlement {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(time.Second)
			return Settlement{State: Done}
		}
		stop := running(t, s, Worker{Concurrency: 5, Attempt: attempt}, Config{})
		time.Sleep(20*time.Second + time.Millisecond)
		if n := s.count(Done); n != 100 || most.Load() != 5 {
			t.Errorf("%d rows are done after 20s, %d at once", n, most.Load())
		}
		stop()
	})
}

func TestK09_LeasesAreRenewedAtAThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(1, "work")
		begun := time.Now()
		stop := running(t, s, Worker{Attempt: func(ctx context.Context, _ Row) Settlement {
			time.Sleep(95 * time.Second)
			if ctx.Err() != nil {
				t.Error("the context of a renewed attempt ended")
			}
			return Settlement{State: Done}
		}}, Config{})
		time.Sleep(2 * time.Minute)
		stop()
		want := []time.Duration{}
		for i := range 9 {
			want = append(want, time.Duration(i+1)*10*time.Second)
		}
		if got := s.times("renew", begun); !slices.Equal(got, want) {
			t.Errorf("renewed at %v, want %v", got, want)
		}
		if f := s.rows[0]; f.row.State != Done || f.row.Attempt != 1 {
			t.Errorf("ended as %+v", f.row)
		}
	})
}

func TestALostLeaseEndsItsAttemptAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(2, "work")
		s.renew = func(grants []Grant) []error {
			errs := make([]error, len(grants))
			for i, g := range grants {
				if g.Seq == 1 {
					errs[i] = once.ErrLeaseLost
				}
			}
			return errs
		}
		ended := map[int64]time.Duration{}
		var mu sync.Mutex
		begun := time.Now()
		stop := running(t, s, Worker{Attempt: func(ctx context.Context, r Row) Settlement {
			select {
			case <-ctx.Done():
			case <-time.After(25 * time.Second):
			}
			mu.Lock()
			ended[r.Seq] = time.Since(begun)
			mu.Unlock()
			return Settlement{State: Done}
		}}, Config{})
		time.Sleep(26 * time.Second)
		mu.Lock()
		if ended[1] != 10*time.Second || ended[2] != 25*time.Second {
			t.Errorf("ended at %v", ended)
		}
		mu.Unlock()
		stop()
	})
}

func TestAnAttemptEndsWithItsLeaseWhateverTheStoreDoes(t *testing.T) {
	for name, renew := range map[string]func([]Grant) []error{
		"away": func(g []Grant) []error { return slices.Repeat([]error{errAway}, len(g)) },
		"hangs": func(g []Grant) []error {
			<-time.After(5 * time.Minute)
			return make([]error, len(g))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFake(1, "work")
				s.renew = renew
				begun := time.Now()
				var after time.Duration
				stop := running(t, s, Worker{Concurrency: 1,
					Attempt: func(ctx context.Context, _ Row) Settlement {
						<-ctx.Done()
						after = time.Since(begun)
						return Settlement{State: Done}
					}}, Config{})
				time.Sleep(31 * time.Second)
				stop()
				if after != 30*time.Second {
					t.Errorf("the attempt ended after %v, its lease after 30s", after)
				}
			})
		})
	}
}

func TestARowThatComesBackIsRenewedBesideItsOldAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(1, "work")
		var lost atomic.Bool
		s.renew = func(grants []Grant) []error {
			if lost.CompareAndSwap(false, true) { // another process has it for a moment
				s.mu.Lock()
				s.rows[0].row.State = Pending
				s.mu.Unlock()
				return []error{once.ErrLeaseLost}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			errs := make([]error, len(grants))
			for i, g := range grants {
				if s.owns(s.rows[g.Seq-1], g) {
					s.rows[g.Seq-1].until = time.Now().Add(30 * time.Second)
				} else {
					errs[i] = once.ErrLeaseLost
				}
			}
			return errs
		}
		var tries atomic.Int64
		stop := running(t, s, Worker{Attempt: func(ctx context.Context, _ Row) Settlement {
			if tries.Add(1) == 1 { // deaf to its context
				time.Sleep(15 * time.Second)
				return Settlement{State: Dead}
			}
			time.Sleep(2 * time.Minute)
			if ctx.Err() != nil {
				t.Error("the second attempt lost its lease")
			}
			return Settlement{State: Done}
		}}, Config{})
		time.Sleep(3 * time.Minute)
		stop()
		if n := tries.Load(); n != 2 || s.count(Done) != 1 {
			t.Errorf("%d tries, row %+v", n, s.rows[0].row)
		}
	})
}

func TestAResultIsOfferedUntilTheStoreIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(1, "work")
		refusals := 0
		s.settleErr = func() error {
			if refusals++; refusals <= 50 {
				return errAway
			}
			return nil
		}
		stop := running(t, s, Worker{Attempt: finished}, Config{})
		time.Sleep(10 * time.Second)
		stop()
		if s.count(Done) != 1 || refusals != 51 || s.rows[0].row.Attempt != 1 {
			t.Errorf("after %d offers: %+v", refusals, s.rows[0].row)
		}
	})
}

func TestAResultIsDroppedWhenTheLeaseIsLostOrTheStoreStaysAway(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		offers int
	}{"lease lost": {once.ErrLeaseLost, 1}, "away for good": {errAway, 600}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFake(1, "work")
				s.settleErr = func() error { return c.err }
				ctx, cancel := context.WithCancel(context.Background())
				d, err := NewDispatcher(s, []Worker{{Lane: "work", Attempt: func(context.Context,
					Row) Settlement {
					cancel()
					return Settlement{State: Done}
				}}}, nil, Config{})
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				d.Run(ctx)
				if took := time.Since(begun); took > settleFor+time.Second {
					t.Errorf("it took %v", took)
				}
				if n := len(s.times("settle", begun)); n > c.offers+1 || n < c.offers-5 {
					t.Errorf("%d offers, want %d", n, c.offers)
				}
			})
		})
	}
}

func TestAFailedCommitIsSettledOtherwise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(2, "work")
		cause := errors.New("out of stock")
		attempt := func(_ context.Context, r Row) Settlement {
			set := Settlement{State: Done}
			if r.Seq == 1 {
				set.Commit = func(context.Context, Tx) error { return cause }
			}
			return set
		}
		stop := running(t, s, Worker{Attempt: attempt,
			CommitFailed: func(r Row, err error) Settlement {
				if !errors.Is(err, cause) {
					t.Errorf("commit failed with %v", err)
				}
				return Settlement{State: Dead, DeadCause: CausePermanent, Error: err.Error()}
			}}, Config{})
		time.Sleep(time.Second)
		if got := s.settled(1); got.State != Dead || got.Error != "out of stock" {
			t.Errorf("settled as %+v", got)
		}
		if s.settled(2).State != Done {
			t.Error("its neighbour is not done")
		}
		stop()
	})
}

func TestAPanicIsAFailedTryNotTheEndOfTheProcess(t *testing.T) {
	for _, hold := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newFake(3, "work")
			stop := running(t, s, Worker{HoldLost: hold, Block: true,
				Attempt: func(_ context.Context, r Row) Settlement {
					if r.Seq == 2 && r.Attempt == 1 {
						panic("nil map")
					}
					return Settlement{State: Done}
				}}, Config{})
			time.Sleep(500 * time.Millisecond)
			got := s.settled(2)
			want := Settlement{Grant: Grant{2, 1}, State: Pending, RetryIn: time.Second,
				Error: "attempt panicked: nil map"}
			if hold { // nobody knows how far it came
				want = Settlement{Grant: Grant{2, 1}, State: Held, Block: true, Error: want.Error}
			}
			if got.State != want.State || got.Error != want.Error || got.RetryIn != want.RetryIn ||
				got.Block != want.Block || got.Grant != want.Grant {
				t.Errorf("hold %v: settled as %+v", hold, got)
			}
			time.Sleep(10 * time.Second)
			if n := s.count(Done); !hold && n != 3 || hold && n != 2 {
				t.Errorf("hold %v: %d rows are done", hold, n)
			}
			stop()
		})
	}
}
