package once_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekit/once"
)

// waits is 5 s for an attempt in flight.
var waits = once.Config{Wait: 5 * second}

// repeat asks again from a goroutine of its own; the answer comes with the time that it took.
type answer struct {
	work *once.Work
	err  error
	took time.Duration
}

func repeat(t *testing.T, g *once.Guard, ctx context.Context) <-chan answer {
	answers := make(chan answer, 1)
	op := operation(t, "a")
	start := time.Now()
	go func() {
		w, err := g.Begin(ctx, op)
		answers <- answer{w, err, time.Since(start)}
	}()
	return answers
}

func isReplay(err error) bool {
	var replay *once.ReplayError
	return errors.As(err, &replay)
}

func wantNobodyWaits(t *testing.T, g *once.Guard) {
	t.Helper()
	if repeats, lines := g.Waiting(); repeats != 0 || lines != 0 {
		t.Errorf("%d repeats wait in %d lines", repeats, lines)
	}
}

func TestARepeatWaitsForTheOutcome(t *testing.T) {
	const ends = 3210 * time.Millisecond
	for _, c := range []struct {
		name  string
		store func(t *testing.T) once.Store
		other bool          // the work is in another process
		late  time.Duration // how much later than the end it may be noticed
	}{
		{"at once where the work is in this process",
			func(t *testing.T) once.Store { return newFake(t) }, false, 0},
		{"by polling where it is in another", func(t *testing.T) once.Store { return newFake(t) },
			true, second},
		{"at once where the store tells", func(t *testing.T) once.Store { return memory(t) },
			true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := c.store(t)
				g := newGuard(t, s, waits)
				first := g
				if c.other {
					first = newGuard(t, s, once.Config{})
				}
				w := begin(t, first, "a")
				answers := repeat(t, g, t.Context())
				time.Sleep(ends)
				if err := w.Complete(once.Outcome{Data: []byte("done")}); err != nil {
					t.Fatal(err)
				}
				a := <-answers
				if !isReplay(a.err) || a.took < ends || a.took > ends+c.late {
					t.Errorf("after %s: %v", a.took, a.err)
				}
				wantNobodyWaits(t, g)
			})
		})
	}
}

func TestARepeatThatWaitedRunsWhatWasGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, newFake(t), waits)
		w := begin(t, g, "a")
		answers := []<-chan answer{repeat(t, g, t.Context()), repeat(t, g, t.Context())}
		time.Sleep(second)
		if err := w.Release(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var granted, later answer
		select {
		case granted = <-answers[0]:
			answers = answers[1:]
		case granted = <-answers[1]:
		}
		if granted.err != nil || granted.took != second || granted.work.Grant().Takeover {
			t.Fatalf("after %s: %+v, %v", granted.took, granted.work, granted.err)
		}
		if err := granted.work.Complete(once.Outcome{}); err != nil { // the other one waits for it
			t.Fatal(err)
		}
		if later = <-answers[0]; !isReplay(later.err) || later.took != second {
			t.Errorf("the other one after %s: %v", later.took, later.err)
		}
	})
}

func TestARepeatThatWaitsTakesOverWhatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		gone := newGuard(t, plain{f}, once.Config{Lease: 3 * second})
		begin(t, gone, "a") // by a process that is no more
		g := newGuard(t, f, waits)
		a := <-repeat(t, g, t.Context())
		if a.err != nil || !a.work.Grant().Takeover || a.took < 3*second || a.took > 4*second {
			t.Fatalf("after %s: %v", a.took, a.err)
		}
		if err := a.work.Complete(once.Outcome{}); err != nil {
			t.Error(err)
		}
	})
}

func TestTheEndOfAWait(t *testing.T) {
	for name, store := range map[string]func(t *testing.T) once.Store{
		"polled": func(t *testing.T) once.Store { return newFake(t) },
		"told":   func(t *testing.T) once.Store { return memory(t) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGuard(t, store(t), waits)
				w := begin(t, g, "a")
				var busy *once.InFlightError
				a := <-repeat(t, g, t.Context())
				if !errors.As(a.err, &busy) || a.took != 5*second || busy.Rest <= 0 {
					t.Errorf("after %s: %v", a.took, a.err)
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				answers := repeat(t, g, ctx)
				time.Sleep(2 * second)
				cancel(errBroken)
				a = <-answers
				if !errors.Is(a.err, errBroken) || errors.Is(a.err, once.ErrInFlight) ||
					a.took != 2*second {
					t.Errorf("the caller has left: after %s: %v", a.took, a.err)
				}
				wantNobodyWaits(t, g)
				if err := w.Release(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAnAnswerAtTheEndOfAWaitCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		g := newGuard(t, f, waits)
		w := begin(t, g, "a")
		f.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			grant, err := f.inner.Claim(ctx, c)
			if isReplay(err) {
				time.Sleep(2 * second) // its answer comes after the wait
			}
			return grant, err
		}
		answers := repeat(t, g, t.Context())
		time.Sleep(4 * second)
		if err := w.Complete(once.Outcome{}); err != nil {
			t.Fatal(err)
		}
		if a := <-answers; !isReplay(a.err) {
			t.Errorf("after %s: %v", a.took, a.err)
		}
	})
}

func TestNoMoreWaitThanMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := waits
		cfg.MaxWaiting = 3
		g := newGuard(t, newFake(t), cfg)
		w := begin(t, g, "a")
		answers := make([]<-chan answer, 5)
		for i := range answers {
			answers[i] = repeat(t, g, t.Context())
			synctest.Wait()
		}
		if repeats, lines := g.Waiting(); repeats != 3 || lines != 1 {
			t.Errorf("%d repeats wait in %d lines", repeats, lines)
		}
		for i, want := range []time.Duration{5 * second, 5 * second, 5 * second, 0, 0} {
			a := <-answers[i]
			if !errors.Is(a.err, once.ErrInFlight) || a.took != want {
				t.Errorf("repeat %d after %s: %v", i, a.took, a.err)
			}
		}
		if err := w.Release(); err != nil {
			t.Error(err)
		}
	})
}

func TestAStoreWhoseWaitIsNoHelpIsNotAskedAllTheTime(t *testing.T) {
	for name, err := range map[string]error{"returns at once": nil, "fails": errBroken} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, claims := counting(t)
				s := waiter{f, func(context.Context, once.Identity) error { return err }}
				g := newGuard(t, s, waits)
				w := begin(t, g, "a")
				if a := <-repeat(t, g, t.Context()); !errors.Is(a.err, once.ErrInFlight) {
					t.Error(a.err)
				}
				if n := claims.Load(); n > 500 { // two each 25ms are 400
					t.Errorf("%d claims in 5s", n)
				}
				if err := w.Release(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAFaultDuringAWaitIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		g := newGuard(t, f, waits)
		var broken atomic.Bool
		f.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			if broken.Load() {
				return once.Grant{}, errBroken
			}
			return f.inner.Claim(ctx, c)
		}
		w := begin(t, g, "a")
		answers := repeat(t, g, t.Context())
		time.Sleep(second)
		broken.Store(true)
		a := <-answers
		if !errors.Is(a.err, once.ErrUnavailable) || a.took >= 5*second {
			t.Errorf("after %s: %v", a.took, a.err)
		}
		if !errors.Is(a.err, once.ErrInFlight) {
			t.Errorf("%v: it doesn't tell that an attempt was in flight", a.err)
		}
		time.Sleep(time.Minute)
		_ = w.Release()
	})
}

func TestK17_WaitingLeavesNothingBehind(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	const keys, rivals = 10_000, 100
	g := newGuard(t, newFake(t), once.Config{Wait: time.Minute})
	var runs atomic.Int64
	for n := range keys {
		r, err := once.Do(t.Context(), g, operation(t, fmt.Sprint(n)),
			func(context.Context) (int, error) { return n, nil })
		if err != nil || r.Value != n {
			t.Fatalf("key %d: %+v, %v", n, r, err)
		}
	}
	wantNobodyWaits(t, g)

	started, finish := make(chan struct{}), make(chan struct{})
	op := operation(t, "contended")
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := once.Do(context.Background(), g, op, func(context.Context) (int, error) {
			runs.Add(1)
			close(started)
			<-finish
			return 7, nil
		})
		if err != nil {
			t.Errorf("the first one: %v", err)
		}
	})
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	var left, patient sync.WaitGroup
	for n := range rivals {
		if n%2 == 0 { // waits until it is done
			patient.Go(func() {
				r, err := once.Do(t.Context(), g, op, func(context.Context) (int, error) {
					runs.Add(1)
					return 8, nil
				})
				if err != nil || r.Value != 7 || !r.Replayed {
					t.Errorf("a patient one: %+v, %v", r, err)
				}
			})
			continue
		}
		left.Go(func() {
			if _, err := g.Begin(ctx, op); !errors.Is(err, context.Canceled) {
				t.Errorf("one who left: %v", err)
			}
		})
	}
	cancel()
	left.Wait() // who leaves doesn't wait for the work
	close(finish)
	patient.Wait()
	wg.Wait()
	if n := runs.Load(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	wantNobodyWaits(t, g)
}

func TestK01_ManyAtOnceRunOnce(t *testing.T) {
	g := newGuard(t, memory(t), once.Config{Wait: time.Minute})
	var runs atomic.Int64
	op := operation(t, "a")
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			r, err := once.Do(t.Context(), g, op, func(context.Context) (int64, error) {
				return runs.Add(1), nil
			})
			if err != nil || r.Value != 1 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	wg.Wait()
	if n := runs.Load(); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

func TestARepeatIsWokenWhenALostClaimWasGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		var claims atomic.Int32
		f.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			grant, err := f.inner.Claim(ctx, c)
			if claims.Add(1) == 1 {
				<-ctx.Done() // it has landed, and its answer is lost
				return once.Grant{}, ctx.Err()
			}
			return grant, err
		}
		cfg := waits
		cfg.StoreTimeout = second
		g := newGuard(t, f, cfg)
		lost := repeat(t, g, t.Context())
		time.Sleep(500 * time.Millisecond)
		a := <-repeat(t, g, t.Context())
		if a.err != nil || a.took != 500*time.Millisecond {
			t.Fatalf("after %s: %v", a.took, a.err)
		}
		if b := <-lost; !errors.Is(b.err, once.ErrUnavailable) {
			t.Errorf("the lost one: %v", b.err)
		}
		if err := a.work.Release(); err != nil {
			t.Error(err)
		}
	})
}
