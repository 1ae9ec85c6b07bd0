package once_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/oncekit/once"
)

func TestAGuardRefusesWhatCantBe(t *testing.T) {
	s := memory(t)
	three := plain{s} // steps, and nothing else
	for _, c := range []struct {
		name  string
		store once.Store
		cfg   once.Config
		says  string
	}{
		{"no store", nil, once.Config{}, "no store"},
		{"hold without Resolve", three, once.Config{OnUnknown: once.Hold}, "Resolve"},
		{"long work without Renew", three, once.Config{MaxWork: time.Minute}, "Renew"},
		{"work as long as the lease without Renew", three,
			once.Config{Lease: time.Minute, MaxWork: time.Minute}, "Renew"},
		{"no such choice", s, once.Config{OnUnknown: 2}, "OnUnknown"},
		{"margin as long as the lease", s, once.Config{Lease: second, Margin: second}, "margin"},
		{"margin above the default lease", s, once.Config{Margin: time.Minute}, "margin"},
		{"retention below the lease", s, once.Config{Retention: second}, "retention"},
		{"Lease", s, once.Config{Lease: -1}, "Lease"},
		{"Margin", s, once.Config{Margin: -1}, "Margin"},
		{"Retention", s, once.Config{Retention: -1}, "Retention"},
		{"MaxWork", s, once.Config{MaxWork: -1}, "MaxWork"},
		{"StoreTimeout", s, once.Config{StoreTimeout: -1}, "StoreTimeout"},
		{"CompleteTimeout", s, once.Config{CompleteTimeout: -1}, "CompleteTimeout"},
		{"Wait", s, once.Config{Wait: -1}, "Wait"},
		{"MaxWaiting", s, once.Config{MaxWaiting: -1}, "MaxWaiting"},
	} {
		g, err := once.NewGuard(c.store, c.cfg)
		if err == nil || g != nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want it to name %s", c.name, err, c.says)
		}
	}
	for name, cfg := range map[string]once.Config{
		"defaults": {}, "hold": {OnUnknown: once.Hold}, "long work": {MaxWork: time.Hour},
	} {
		if _, err := once.NewGuard(s, cfg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	short := once.Config{Lease: time.Minute, MaxWork: 50 * second}
	if _, err := once.NewGuard(three, short); err != nil {
		t.Errorf("work within the lease without Renew: %v", err)
	}
}

// counting is a store whose claims are counted.
func counting(t testing.TB) (*fake, *atomic.Int32) {
	f := newFake(t)
	n := &atomic.Int32{}
	f.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
		n.Add(1)
		return f.inner.Claim(ctx, c)
	}
	return f, n
}

func TestAnIncompleteOperationIsNotClaimed(t *testing.T) {
	f, claims := counting(t)
	g := newGuard(t, f, once.Config{})
	for name, c := range map[string]struct {
		spoil func(*once.Operation)
		want  error
	}{
		"scope":       {func(op *once.Operation) { op.Scope = once.Scope{} }, once.ErrScopeMissing},
		"key":         {func(op *once.Operation) { op.Key = nil }, once.ErrKeyIncomplete},
		"fingerprint": {func(op *once.Operation) { op.Fingerprint = once.Fingerprint{} }, nil},
	} {
		op := operation(t, "a")
		c.spoil(&op)
		_, err := g.Begin(t.Context(), op)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("no %s: %v", name, err)
		}
	}
	if n := claims.Load(); n != 0 {
		t.Errorf("%d claims", n)
	}
}

func TestF02_AChangedRequestIsAMismatch(t *testing.T) {
	g := newGuard(t, memory(t), once.Config{Wait: time.Hour})
	w := begin(t, g, "a")
	op := operation(t, "a")
	op.Fingerprint = once.FingerprintRaw([]byte("another"))
	for range 2 { // in flight, without a wait, and completed
		if _, err := g.Begin(t.Context(), op); !errors.Is(err, once.ErrMismatch) {
			t.Errorf("changed request: %v", err)
		}
		if err := w.Complete(once.Outcome{}); err != nil && !errors.Is(err, once.ErrSettled) {
			t.Fatal(err)
		}
	}
}

func TestPeopleSeeTheBeginningOfAKey(t *testing.T) {
	s := memory(t)
	g := newGuard(t, s, once.Config{})
	scope, err := once.NewScope("tenant", "1")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"8e03978e-40d5-43e8-bc93-6894a57f9324": "8e03978e", "short": "s", "ab": "",
		"äöüäöüäöü": "äö", "€€€€€": "€", // never half a letter
	} {
		op := operation(t, key)
		op.Scope = scope
		w, err := g.Begin(t.Context(), op)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Record(t.Context(), w.Grant().Identity)
		if err != nil {
			t.Fatal(err)
		}
		if r.Note.Key != want || !utf8.ValidString(r.Note.Key) || r.Note.Request != "test" ||
			!slices.Equal(r.Note.Scope, []string{"tenant", "1"}) {
			t.Errorf("%s: note %q, want key %q", key, r.Note, want)
		}
	}
}

func TestAStoreThatHangsIsUnavailable(t *testing.T) {
	for name, landed := range map[string]bool{"before": false, "after": true} {
		t.Run(name+" the claim has landed", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				var well atomic.Bool
				f.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
					if well.Load() {
						return f.inner.Claim(ctx, c)
					}
					if landed {
						_, _ = f.inner.Claim(ctx, c)
					}
					<-ctx.Done()
					return once.Grant{}, ctx.Err()
				}
				g := newGuard(t, f, once.Config{})
				start := time.Now()
				runs := 0
				_, err := once.Do(t.Context(), g, operation(t, "a"), ran(&runs))
				took := time.Since(start)
				if !errors.Is(err, once.ErrUnavailable) || runs != 0 || took != 5*second {
					t.Errorf("after %s: %v, it ran %d times", took, err, runs)
				}
				well.Store(true)
				time.Sleep(10 * second) // less than the lease
				synctest.Wait()
				r, err := once.Do(t.Context(), g, operation(t, "a"), ran(&runs))
				if err != nil || r.Replayed || runs != 1 {
					t.Errorf("then %+v, %v, it ran %d times", r, err, runs)
				}
			})
		})
	}
}

func TestAnyFaultOfAStoreIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.claim = func(context.Context, once.Claim) (once.Grant, error) {
			return once.Grant{}, errBroken
		}
		g := newGuard(t, f, once.Config{Wait: second})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 2 {
			_, err := g.Begin(ctx, operation(t, "a"))
			if !errors.Is(err, once.ErrUnavailable) || !errors.Is(err, errBroken) {
				t.Errorf("a fault: %v", err)
			}
			cancel() // the second time there is no caller
		}
		time.Sleep(time.Minute) // until nothing is tried to be given back any more
	})
}

func TestGivingBackIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		var now, most atomic.Int32
		var counts atomic.Bool
		f.claim = func(ctx context.Context, _ once.Claim) (once.Grant, error) {
			if counts.Load() {
				n := now.Add(1)
				defer now.Add(-1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
			}
			<-ctx.Done()
			return once.Grant{}, once.ErrUnavailable
		}
		g := newGuard(t, f, once.Config{})
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				if _, err := g.Begin(t.Context(), operation(t, "a")); err == nil {
					t.Error("granted")
				}
			})
		}
		time.Sleep(4 * second)
		counts.Store(true)
		wg.Wait()
		time.Sleep(time.Minute)
		if n := most.Load(); n == 0 || n > 64 {
			t.Errorf("%d claims were given back at one time, at most 64", n)
		}
	})
}

func TestACorruptRecordIsNotRun(t *testing.T) {
	f := newFake(t)
	f.claim = func(context.Context, once.Claim) (once.Grant, error) {
		return once.Grant{}, once.ErrCorrupt
	}
	released := false
	f.release = func(context.Context, once.Grant) error { released = true; return nil }
	g := newGuard(t, f, once.Config{Wait: time.Hour})
	runs := 0
	_, err := once.Do(t.Context(), g, operation(t, "a"), ran(&runs))
	if !errors.Is(err, once.ErrCorrupt) || errors.Is(err, once.ErrUnavailable) || runs != 0 {
		t.Errorf("%v, it ran %d times", err, runs)
	}
	if released {
		t.Error("it was given back")
	}
}

// events collects what a guard tells.
type events struct {
	mu  sync.Mutex
	all []once.EventKind
}

func (e *events) observe(ev once.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev.Kind)
}

func TestEachAnswerAndEndIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		var told events
		cfg := once.Config{Observe: told.observe, CompleteTimeout: second}
		g := newGuard(t, s, cfg)
		cfg.OnUnknown = once.Hold
		hold := newGuard(t, s, cfg)
		want := func(what string, kinds ...once.EventKind) {
			t.Helper()
			if !slices.Equal(told.all, kinds) {
				t.Errorf("%s: told %v, want %v", what, told.all, kinds)
			}
			told.all = nil
		}
		w := begin(t, g, "a")
		want("claim", once.EventGranted)
		_, _ = g.Begin(t.Context(), operation(t, "a"))
		want("repeat", once.EventInFlight)
		_ = w.Lose()
		want("loss", once.EventLost)
		w = begin(t, g, "a")
		want("claim after the loss", once.EventTakeover)
		_ = w.Release()
		want("release", once.EventReleased)
		_ = begin(t, g, "a").Complete(once.Outcome{})
		want("completion", once.EventGranted, once.EventCompleted)
		_, _ = g.Begin(t.Context(), operation(t, "a"))
		want("repeat", once.EventReplay)
		op := operation(t, "a")
		op.Fingerprint = once.FingerprintRaw([]byte("another"))
		_, _ = g.Begin(t.Context(), op)
		want("changed request", once.EventMismatch)
		_ = begin(t, g, "b").Complete(once.Outcome{Kind: once.Tombstone})
		want("tombstone", once.EventGranted, once.EventTombstone)
		_ = begin(t, g, "c").Complete(once.Outcome{Data: make([]byte, 5000)})
		want("too large", once.EventGranted, once.EventTombstone)
		_ = begin(t, hold, "d").Lose()
		_, _ = hold.Begin(t.Context(), operation(t, "d"))
		want("held", once.EventGranted, once.EventLost, once.EventHeld)
		w = begin(t, g, "e")
		s.complete = func(context.Context, once.Grant, once.Outcome) error { return errBroken }
		_ = w.Complete(once.Outcome{})
		want("not stored", once.EventGranted, once.EventNotStored)
		w = begin(t, g, "f")
		s.complete = func(context.Context, once.Grant, once.Outcome) error {
			return once.ErrLeaseLost
		}
		_ = w.Complete(once.Outcome{})
		want("lease lost", once.EventGranted, once.EventLeaseLost)
		s.claim = func(context.Context, once.Claim) (once.Grant, error) {
			return once.Grant{}, once.ErrCorrupt
		}
		_, _ = g.Begin(t.Context(), operation(t, "g"))
		want("corrupt", once.EventCorrupt)
		s.claim = func(context.Context, once.Claim) (once.Grant, error) {
			return once.Grant{}, errBroken
		}
		_, _ = g.Begin(t.Context(), operation(t, "g"))
		want("fault", once.EventUnavailable)
		time.Sleep(time.Minute)
	})
}

func TestTheTimeOfAnAnswerIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			time.Sleep(2 * second)
			return f.inner.Claim(ctx, c)
		}
		f.complete = func(ctx context.Context, g once.Grant, o once.Outcome) error {
			time.Sleep(3 * second)
			return f.inner.Complete(ctx, g, o)
		}
		var took []time.Duration
		g := newGuard(t, f, once.Config{
			Observe: func(e once.Event) { took = append(took, e.Took) },
		})
		w := begin(t, g, "a")
		_, _ = g.Begin(t.Context(), operation(t, "a"))
		_ = w.Complete(once.Outcome{})
		if want := []time.Duration{2 * second, 2 * second, 3 * second}; !slices.Equal(took, want) {
			t.Errorf("took %v, want %v", took, want)
		}
	})
}

// sweeper counts the sweeps that are asked of it.
type sweeper struct {
	answers []int // how many each sweep removes; then 0
	fail    error
	watch   *stopwatch
}

func (s *sweeper) Sweep(_ context.Context, limit int) (int, error) {
	n := len(s.watch.noted())
	s.watch.note()
	if s.fail != nil {
		return 0, s.fail
	}
	if n < len(s.answers) {
		return min(limit, s.answers[n]), nil
	}
	return 0, nil
}

func TestTheSweeperGoesOnWhileSomethingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 210*second)
		defer cancel()
		s := &sweeper{answers: []int{1000, 1000, 7}, watch: newStopwatch()}
		once.RunSweeper(ctx, s, 100*second, nil)
		const pause = 50 * time.Millisecond
		want := []time.Duration{
			0, pause, 2 * pause, 3 * pause, 3*pause + 100*second, 3*pause + 200*second,
		}
		if got := s.watch.noted(); !slices.Equal(got, want) {
			t.Errorf("swept at %v, want %v", got, want)
		}
	})
}

func TestTheSweeperWithoutAnIntervalDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), second+time.Millisecond)
		defer cancel()
		s := &sweeper{watch: newStopwatch()}
		once.RunSweeper(ctx, s, 0, nil)
		if n := len(s.watch.noted()); n != 21 {
			t.Errorf("swept %d times in a second, want one each 50ms", n)
		}
	})
}

func TestTheSweeperLogsFaultsAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 25*second)
		defer cancel()
		var text strings.Builder
		s := &sweeper{fail: errBroken, watch: newStopwatch()}
		once.RunSweeper(ctx, s, 10*second, newLogger(&text))
		if n := len(s.watch.noted()); n != 3 || strings.Count(text.String(), "broken") != 3 {
			t.Errorf("swept %d times, logged %s", n, text.String())
		}
	})
}

func TestAClaimIsBoundedByItsCallerAndItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		var left time.Duration
		f.claim = func(ctx context.Context, _ once.Claim) (once.Grant, error) {
			deadline, _ := ctx.Deadline()
			left = time.Until(deadline)
			return once.Grant{}, once.ErrCorrupt
		}
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		for _, c := range []struct {
			ctx  context.Context
			cfg  once.Config
			want time.Duration
		}{
			{t.Context(), once.Config{}, 5 * second},
			{t.Context(), once.Config{Lease: 6 * second}, 2 * second}, // a third
			{t.Context(), once.Config{StoreTimeout: 3 * second}, 3 * second},
			{ctx, once.Config{}, second},
		} {
			_, _ = newGuard(t, f, c.cfg).Begin(c.ctx, operation(t, "a"))
			if left != c.want {
				t.Errorf("%+v: the store has %s, want %s", c.cfg, left, c.want)
			}
		}
	})
}

func TestATakeoverThatIsGivenBackStaysLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		g := newGuard(t, f, once.Config{})
		if err := begin(t, g, "a").Lose(); err != nil {
			t.Fatal(err)
		}
		var claims atomic.Int32
		f.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			grant, err := f.inner.Claim(ctx, c)
			if claims.Add(1) == 1 {
				return once.Grant{}, errBroken // its answer is lost
			}
			return grant, err
		}
		if _, err := g.Begin(t.Context(), operation(t, "a")); !errors.Is(err, once.ErrUnavailable) {
			t.Fatal(err)
		}
		time.Sleep(second)
		if w := begin(t, g, "a"); !w.Grant().Takeover {
			t.Errorf("granted %+v: nobody is told that an attempt was lost", w.Grant())
		}
		time.Sleep(time.Hour)
	})
}
