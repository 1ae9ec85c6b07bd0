package once_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekit/once"
)

// Attempts share a timer until their first renewal. Each has to be renewed at a third of its own
// lease all the same, whichever others begin, end and renew meanwhile, and also if its claim took
// longer than that of a later one.
func TestEachOfManyAttemptsIsRenewedAtItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const attempts, lease = 200, 30 * time.Second
		f := newFake(t)
		var mu sync.Mutex
		renewed := map[once.Identity][]time.Duration{} // since the claim was sent
		begun := map[once.Identity]time.Time{}
		f.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			if c.Identity[0]%2 == 0 {
				time.Sleep(3 * time.Second) // the later ones overtake it
			}
			return f.inner.Claim(ctx, c)
		}
		f.renew = func(_ context.Context, g once.Grant, _ time.Duration) error {
			mu.Lock()
			defer mu.Unlock()
			renewed[g.Identity] = append(renewed[g.Identity], time.Since(begun[g.Identity]))
			return nil
		}
		g := newGuard(t, f, once.Config{Lease: lease})
		var live []*once.Work
		var wg sync.WaitGroup
		for i := range attempts {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 50 * time.Millisecond)
				start := time.Now()
				w, err := g.Begin(t.Context(), operation(t, fmt.Sprint(i)))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				begun[w.Grant().Identity] = start
				mu.Unlock()
				if i%3 == 0 { // most end before it comes to that
					time.Sleep(rand.N(6 * time.Second))
					if err := w.Release(); err != nil {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				live = append(live, w)
				mu.Unlock()
			})
		}
		wg.Wait()
		time.Sleep(25 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for _, w := range live {
			at := renewed[w.Grant().Identity]
			if len(at) < 2 || at[0] != lease/3 || at[1] != 2*lease/3 {
				t.Fatalf("renewed after %v, want 10s, 20s, …", at)
			}
			if err := w.Context().Err(); err != nil {
				t.Error(err)
			}
		}
		if len(renewed) != len(live) {
			t.Errorf("%d attempts were renewed, %d lived", len(renewed), len(live))
		}
		for _, w := range live {
			_ = w.Release()
		}
	})
}

func TestAnAttemptWhoseClaimTookLongIsRenewedBeforeOneThatOvertookIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		start := time.Now()
		var claims atomic.Int64
		f.claim = func(ctx context.Context, c once.Claim) (once.Grant, error) {
			if claims.Add(1) == 1 {
				time.Sleep(3 * time.Second)
			}
			return f.inner.Claim(ctx, c)
		}
		var mu sync.Mutex
		var at []time.Duration
		f.renew = func(context.Context, once.Grant, time.Duration) error {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(start))
			return nil
		}
		g := newGuard(t, f, once.Config{Lease: 30 * time.Second})
		works := make(chan *once.Work, 2)
		go func() { works <- begin(t, g, "slow") }()
		time.Sleep(time.Second)
		works <- begin(t, g, "fast")
		time.Sleep(14 * time.Second)
		synctest.Wait()
		mu.Lock()
		if fmt.Sprint(at) != "[10s 11s]" {
			t.Errorf("renewed at %v, want 10s and 11s", at)
		}
		mu.Unlock()
		_ = (<-works).Release()
		_ = (<-works).Release()
	})
}
