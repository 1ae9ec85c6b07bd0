package oncetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncemem"
)

// recorder takes what a case reports, and lets the test go on.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	problems []string
}

func (r *recorder) fail(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, text)
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.problems) > 0
}

func (r *recorder) Errorf(format string, args ...any) { r.fail(fmt.Sprintf(format, args...)) }
func (r *recorder) Error(args ...any)                 { r.fail(fmt.Sprint(args...)) }
func (r *recorder) Logf(string, ...any)               {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

// try runs a case against a store and returns what it reports.
func try(t *testing.T, c Case, h Harness) []string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.run(newKit(r, h))
	}()
	<-done
	return r.problems
}

const (
	testMaxOutcome = 64 << 10
	tries          = 50 // races and random walks need not meet a fault at once
)

// newMemory is a sound store with a clock that the case moves.
func newMemory(t *testing.T) (*oncemem.Store, *atomic.Int64) {
	t.Helper()
	now := &atomic.Int64{}
	now.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	s, err := oncemem.New(oncemem.Config{
		SingleInstance: true, MaxOutcome: testMaxOutcome,
		Now: func() time.Time { return time.Unix(0, now.Load()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, now
}

func TestASoundStorePasses(t *testing.T) {
	Run(t, func(t *testing.T) Harness {
		s, now := newMemory(t)
		return Harness{
			Store: s, MaxOutcome: testMaxOutcome,
			Advance: func(d time.Duration) { now.Add(int64(d)) },
		}
	})
}

// TestAFaultyStoreIsFound gives the suite stores with one fault each.
func TestAFaultyStoreIsFound(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.fault, func(t *testing.T) {
			for _, name := range m.cases {
				i := slices.IndexFunc(Cases(), func(c Case) bool { return c.Name == name })
				if i < 0 {
					t.Fatalf("there is no case %s", name)
				}
				var problems []string
				for n := 0; n < tries && len(problems) == 0; n++ {
					s, now := newMemory(t)
					problems = try(t, Cases()[i], Harness{
						Store: m.make(&mutant{Store: s}), MaxOutcome: testMaxOutcome,
						Advance: func(d time.Duration) { now.Add(int64(d)) },
					})
				}
				if len(problems) == 0 {
					t.Errorf("%s doesn't notice", name)
				} else {
					t.Logf("%s: %.200s", name, strings.ReplaceAll(problems[0], "\n", " | "))
				}
			}
		})
	}
}

func TestNamesOfCasesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		if seen[c.Name] || c.Promise == "" {
			t.Errorf("%s: doubled, or without a promise", c.Name)
		}
		seen[c.Name] = true
	}
	if len(seen) < 60 {
		t.Errorf("%d cases", len(seen))
	}
}

// mutant is a sound store of which single steps can be replaced, with what a fault needs to know.
type mutant struct {
	*oncemem.Store
	claim    func(context.Context, once.Claim) (once.Grant, error)
	complete func(context.Context, once.Grant, once.Outcome) error
	release  func(context.Context, once.Grant) error
	renew    func(context.Context, once.Grant, time.Duration) error
	resolve  func(context.Context, once.Identity, once.Resolution) error
	records  func(context.Context, once.RecordFilter) (once.RecordPage, error)

	mu     sync.Mutex
	grants map[once.Identity]once.Grant // the latest ones
	claims map[once.Identity]once.Claim // which got them
	data   map[once.Identity]once.Outcome
}

func (m *mutant) Claim(ctx context.Context, c once.Claim) (once.Grant, error) {
	f := m.claim
	if f == nil {
		f = m.Store.Claim
	}
	g, err := f(ctx, c)
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.grants == nil {
			m.grants, m.claims = map[once.Identity]once.Grant{}, map[once.Identity]once.Claim{}
			m.data = map[once.Identity]once.Outcome{}
		}
		m.grants[c.Identity], m.claims[c.Identity] = g, c
	}
	return g, err
}

func (m *mutant) latest(id once.Identity) (once.Grant, once.Claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.grants[id], m.claims[id]
}

func (m *mutant) Complete(ctx context.Context, g once.Grant, o once.Outcome) error {
	if m.complete != nil {
		return m.complete(ctx, g, o)
	}
	return m.Store.Complete(ctx, g, o)
}

func (m *mutant) Release(ctx context.Context, g once.Grant) error {
	if m.release != nil {
		return m.release(ctx, g)
	}
	return m.Store.Release(ctx, g)
}

func (m *mutant) Renew(ctx context.Context, g once.Grant, lease time.Duration) error {
	if m.renew != nil {
		return m.renew(ctx, g, lease)
	}
	return m.Store.Renew(ctx, g, lease)
}

func (m *mutant) Resolve(ctx context.Context, id once.Identity, r once.Resolution) error {
	if m.resolve != nil {
		return m.resolve(ctx, id, r)
	}
	return m.Store.Resolve(ctx, id, r)
}

func (m *mutant) Records(ctx context.Context, f once.RecordFilter) (once.RecordPage, error) {
	if m.records != nil {
		return m.records(ctx, f)
	}
	return m.Store.Records(ctx, f)
}
