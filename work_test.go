package once_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekit/once"
)

const second = time.Second

// lease is 30 s, its margin 3 s, a third of it 10 s.
var lease = once.Config{Lease: 30 * second}

func TestK09_TheLeaseIsRenewedAtAThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		watch := newStopwatch()
		f.renew = func(ctx context.Context, g once.Grant, d time.Duration) error {
			watch.note()
			if d != lease.Lease {
				t.Errorf("renewed for %s", d)
			}
			return f.inner.Renew(ctx, g, d)
		}
		g := newGuard(t, f, lease)
		w := begin(t, g, "a")
		time.Sleep(65 * second)
		if err := w.Context().Err(); err != nil {
			t.Errorf("the work's context has ended: %v", err)
		}
		if _, err := g.Begin(t.Context(), operation(t, "a")); !errors.Is(err, once.ErrInFlight) {
			t.Errorf("a repeat during the work: %v", err)
		}
		if err := w.Complete(once.Outcome{Data: []byte("done")}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		want := []time.Duration{
			10 * second, 20 * second, 30 * second, 40 * second, 50 * second, 60 * second,
		}
		if got := watch.noted(); !slices.Equal(got, want) {
			t.Errorf("renewed at %v, want %v", got, want)
		}
	})
}

func TestTheContextEndsBeforeTheLease(t *testing.T) {
	hang := func(stop <-chan struct{}) error { <-stop; return once.ErrUnavailable }
	for _, c := range []struct {
		name  string
		renew func(f *fake, n int, g once.Grant, stop <-chan struct{}) error
		slow  time.Duration // how long the claim takes
		cfg   once.Config
		want  time.Duration
		cause error
	}{
		{"a renewal that hangs, whatever its context says",
			func(_ *fake, _ int, _ once.Grant, stop <-chan struct{}) error { return hang(stop) },
			0, lease, 27 * second, once.ErrLeaseLost},
		{"renewals that fail", func(*fake, int, once.Grant, <-chan struct{}) error {
			return once.ErrUnavailable
		}, 0, lease, 27 * second, once.ErrLeaseLost},
		{"counted from before the claim was sent",
			func(*fake, int, once.Grant, <-chan struct{}) error { return once.ErrUnavailable },
			4 * second, lease, 27 * second, once.ErrLeaseLost},
		{"one renewal that works, then none",
			func(f *fake, n int, g once.Grant, _ <-chan struct{}) error {
				if n > 1 {
					return once.ErrUnavailable
				}
				return f.inner.Renew(context.Background(), g, 30*second)
			}, 0, lease, 37 * second, once.ErrLeaseLost},
		{"a renewal that says that the lease is lost",
			func(*fake, int, once.Grant, <-chan struct{}) error { return once.ErrLeaseLost },
			0, lease, 10 * second, once.ErrLeaseLost},
		{"a margin of its own", func(*fake, int, once.Grant, <-chan struct{}) error {
			return once.ErrUnavailable
		}, 0, once.Config{Lease: 30 * second, Margin: 12 * second}, 18 * second, once.ErrLeaseLost},
		{"the longest work", nil, 0, once.Config{Lease: 30 * second, MaxWork: 100 * second},
			100 * second, context.DeadlineExceeded},
		{"the longest work, shorter than a third of the lease", nil, 0,
			once.Config{Lease: 30 * second, MaxWork: 5 * second}, 5 * second,
			context.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				stop := make(chan struct{})
				defer close(stop)
				var n atomic.Int32
				if c.renew != nil {
					f.renew = func(_ context.Context, g once.Grant, _ time.Duration) error {
						return c.renew(f, int(n.Add(1)), g, stop)
					}
				}
				f.claim = func(ctx context.Context, cl once.Claim) (once.Grant, error) {
					time.Sleep(c.slow)
					return f.inner.Claim(ctx, cl)
				}
				g := newGuard(t, f, c.cfg)
				watch := newStopwatch()
				w := begin(t, g, "a")
				if got := watch.endsAfter(w.Context()); got != c.want {
					t.Errorf("the context ended after %s, want %s", got, c.want)
				}
				if cause := context.Cause(w.Context()); !errors.Is(cause, c.cause) {
					t.Errorf("its cause is %v, want %v", cause, c.cause)
				}
			})
		})
	}
}

func TestWithoutRenewalsTheWorkIsAsLongAsTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, plain{memory(t)}, lease)
		watch := newStopwatch()
		w := begin(t, g, "a")
		if got := watch.endsAfter(w.Context()); got != 27*second {
			t.Errorf("the context ended after %s, want 27s", got)
		}
		time.Sleep(4 * second)
		next := begin(t, g, "a")
		if grant := next.Grant(); !grant.Takeover || grant.Attempt != 2 {
			t.Errorf("granted %+v", grant)
		}
		if err := w.Complete(once.Outcome{}); !errors.Is(err, once.ErrLeaseLost) {
			t.Errorf("completion by the first: %v", err)
		}
		if err := next.Release(); err != nil {
			t.Error(err)
		}
	})
}

func TestAfterTheLongestWorkTheLeaseRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, newFake(t), once.Config{Lease: 30 * second, MaxWork: time.Minute})
		begin(t, g, "a") // and never settled
		time.Sleep(time.Minute + 31*second)
		if w := begin(t, g, "a"); !w.Grant().Takeover {
			t.Errorf("granted %+v", w.Grant())
		}
		time.Sleep(time.Hour)
	})
}

func TestR14_CompletionIsDetachedFromTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, memory(t), lease)
		ctx, cancel := context.WithCancel(t.Context())
		w, err := g.Begin(ctx, operation(t, "a"))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		<-w.Context().Done()
		if err := w.Complete(once.Outcome{Data: []byte("done")}); err != nil {
			t.Fatal(err)
		}
		if got := replayOf(t, g, "a"); string(got.Data) != "done" {
			t.Errorf("replayed %q", got.Data)
		}
	})
}

func TestASettledAttemptIsSettledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(t, memory(t), lease)
		w := begin(t, g, "a")
		if err := w.Complete(once.Outcome{Kind: once.Unknown}); err == nil {
			t.Error("completed with unknown")
		}
		if err := w.Complete(once.Outcome{Data: []byte("first")}); err != nil {
			t.Fatal(err)
		}
		if cause := context.Cause(w.Context()); !errors.Is(cause, once.ErrSettled) {
			t.Errorf("the context's cause is %v", cause)
		}
		for name, step := range map[string]func() error{
			"complete": func() error { return w.Complete(once.Outcome{Data: []byte("second")}) },
			"release":  w.Release, "lose": w.Lose,
		} {
			if err := step(); !errors.Is(err, once.ErrSettled) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := replayOf(t, g, "a"); string(got.Data) != "first" {
			t.Errorf("replayed %q", got.Data)
		}
	})
}

func TestR15_ACompletionIsTriedUntilItsDeadline(t *testing.T) {
	for _, c := range []struct {
		name     string
		complete func(ctx context.Context) error
		least    int
	}{
		{"that fails", func(context.Context) error { return errors.New("broken") }, 10},
		{"that hangs", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				tries := 0
				f.complete = func(ctx context.Context, _ once.Grant, _ once.Outcome) error {
					tries++
					return c.complete(ctx)
				}
				g := newGuard(t, f, lease)
				w := begin(t, g, "a")
				watch := newStopwatch()
				if err := w.Complete(once.Outcome{Data: []byte("done")}); err == nil {
					t.Error("it says that it is stored")
				}
				took := time.Since(watch.began)
				if took != 10*second || tries < c.least || tries > 40 {
					t.Errorf("%d tries in %s, want 10s", tries, took)
				}
				// It is never free: in flight until the lease ends, then lost.
				_, err := g.Begin(t.Context(), operation(t, "a"))
				if !errors.Is(err, once.ErrInFlight) {
					t.Errorf("a repeat at once: %v", err)
				}
				time.Sleep(31 * second)
				if w := begin(t, g, "a"); !w.Grant().Takeover {
					t.Errorf("granted %+v", w.Grant())
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

func TestACompletionThatFailsAtFirstIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		tries := 0
		f.complete = func(ctx context.Context, g once.Grant, o once.Outcome) error {
			if tries++; tries < 4 {
				return once.ErrUnavailable
			}
			return f.inner.Complete(ctx, g, o)
		}
		g := newGuard(t, f, lease)
		if err := begin(t, g, "a").Complete(once.Outcome{Data: []byte("done")}); err != nil {
			t.Fatal(err)
		}
		if got := replayOf(t, g, "a"); string(got.Data) != "done" || tries != 4 {
			t.Errorf("replayed %q after %d tries", got.Data, tries)
		}
	})
}

func TestTheLeaseIsRenewedWhileTheOutcomeIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		renewed := newStopwatch()
		f.renew = func(ctx context.Context, g once.Grant, d time.Duration) error {
			renewed.note()
			return f.inner.Renew(ctx, g, d)
		}
		f.complete = func(context.Context, once.Grant, once.Outcome) error {
			return once.ErrUnavailable
		}
		g := newGuard(t, f, once.Config{Lease: 3 * second})
		if err := begin(t, g, "a").Complete(once.Outcome{}); err == nil {
			t.Error("it says that it is stored")
		}
		if n := len(renewed.noted()); n < 8 {
			t.Errorf("renewed %d times in 10s", n)
		}
		time.Sleep(time.Minute)
	})
}

func TestAShortCompleteTimeoutIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.complete = func(ctx context.Context, _ once.Grant, _ once.Outcome) error {
			<-ctx.Done()
			return ctx.Err()
		}
		cfg := lease
		cfg.CompleteTimeout = second
		g := newGuard(t, f, cfg)
		w := begin(t, g, "a")
		start := time.Now()
		if err := w.Complete(once.Outcome{}); err == nil || time.Since(start) != second {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
	})
}

func TestR05_TooLargeAnOutcomeLeavesATombstone(t *testing.T) {
	for _, unwilling := range []int{0, 1, 3} { // tries that fail first, of each kind
		t.Run(fmt.Sprint(unwilling), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				n := map[once.OutcomeKind]int{}
				f.complete = func(ctx context.Context, g once.Grant, o once.Outcome) error {
					if n[o.Kind]++; n[o.Kind] <= unwilling {
						return once.ErrUnavailable
					}
					return f.inner.Complete(ctx, g, o)
				}
				g := newGuard(t, f, lease)
				w := begin(t, g, "a")
				err := w.Complete(once.Outcome{Data: make([]byte, 1001)}) // at most 1000
				if !errors.Is(err, once.ErrTooLarge) {
					t.Errorf("complete: %v", err)
				}
				if got := replayOf(t, g, "a"); got.Kind != once.Tombstone || len(got.Data) != 0 {
					t.Errorf("replayed %+v", got)
				}
			})
		})
	}
}

func TestATombstoneThatIsNotStoredIsNoTombstone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.complete = func(ctx context.Context, g once.Grant, o once.Outcome) error {
			if o.Kind == once.Tombstone {
				return once.ErrUnavailable
			}
			return f.inner.Complete(ctx, g, o)
		}
		g := newGuard(t, f, lease)
		err := begin(t, g, "a").Complete(once.Outcome{Data: make([]byte, 1001)})
		if err == nil || errors.Is(err, once.ErrTooLarge) {
			t.Errorf("complete: %v; ErrTooLarge would say that it won't be run again", err)
		}
	})
}

func TestALogSaysWhatAnOperatorNeedsAndNoData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.complete = func(context.Context, once.Grant, once.Outcome) error {
			return once.ErrUnavailable
		}
		f.renew = func(context.Context, once.Grant, time.Duration) error {
			return once.ErrUnavailable
		}
		var text strings.Builder
		cfg := lease
		cfg.Logger = newLogger(&text)
		g := newGuard(t, f, cfg)
		w := begin(t, g, "customer-key-12345678901234567890")
		time.Sleep(11 * second)
		_ = w.Complete(once.Outcome{Data: []byte("the-payload")})
		got := text.String()
		if !strings.Contains(got, "lease could not be renewed") ||
			!strings.Contains(got, "outcome could not be stored") {
			t.Errorf("logged: %s", got)
		}
		if strings.Contains(got, "customer") || strings.Contains(got, "payload") {
			t.Errorf("a key or data is logged: %s", got)
		}
	})
}

func TestARenewalThatFailedIsTriedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		watch := newStopwatch()
		f.renew = func(ctx context.Context, g once.Grant, d time.Duration) error {
			watch.note()
			if len(watch.noted()) < 3 {
				return once.ErrUnavailable
			}
			return f.inner.Renew(ctx, g, d)
		}
		w := begin(t, newGuard(t, f, lease), "a")
		time.Sleep(40 * second)
		if err := w.Context().Err(); err != nil {
			t.Errorf("the context has ended: %v", err)
		}
		want := []time.Duration{10 * second, 12500 * time.Millisecond, 15 * second, 25 * second,
			35 * second}
		if got := watch.noted(); !slices.Equal(got, want) {
			t.Errorf("renewed at %v, want %v", got, want)
		}
		if err := w.Release(); err != nil {
			t.Error(err)
		}
	})
}
