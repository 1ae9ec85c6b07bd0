package once_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncemem"
)

// memory is a sound store; in a bubble its clock is the bubble's.
func memory(t testing.TB) *oncemem.Store {
	t.Helper()
	s, err := oncemem.New(oncemem.Config{SingleInstance: true, MaxOutcome: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fake is a sound store of which single steps can be replaced. It has no Wait.
type fake struct {
	once.Store
	once.Resolver
	claim    func(context.Context, once.Claim) (once.Grant, error)
	complete func(context.Context, once.Grant, once.Outcome) error
	release  func(context.Context, once.Grant) error
	renew    func(context.Context, once.Grant, time.Duration) error

	inner *oncemem.Store
}

func newFake(t testing.TB) *fake {
	s := memory(t)
	return &fake{
		Store: s, Resolver: s, inner: s,
		claim: s.Claim, complete: s.Complete, release: s.Release, renew: s.Renew,
	}
}

func (f *fake) Claim(ctx context.Context, c once.Claim) (once.Grant, error) {
	return f.claim(ctx, c)
}

func (f *fake) Complete(ctx context.Context, g once.Grant, o once.Outcome) error {
	return f.complete(ctx, g, o)
}

func (f *fake) Release(ctx context.Context, g once.Grant) error { return f.release(ctx, g) }

func (f *fake) Renew(ctx context.Context, g once.Grant, d time.Duration) error {
	return f.renew(ctx, g, d)
}

// plain is a store with nothing but the three steps.
type plain struct{ once.Store }

// waiter adds a Wait to a fake.
type waiter struct {
	*fake
	wait func(context.Context, once.Identity) error
}

func (w waiter) Wait(ctx context.Context, id once.Identity) error { return w.wait(ctx, id) }

func newGuard(t testing.TB, s once.Store, cfg once.Config) *once.Guard {
	t.Helper()
	g, err := once.NewGuard(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func operation(t testing.TB, key string) once.Operation {
	t.Helper()
	k, err := once.KeyOf(key)
	if err != nil {
		t.Fatal(err)
	}
	return once.Operation{
		Scope: once.NoScope(), Key: k, Fingerprint: once.FingerprintRaw([]byte("request")),
		Request: "test",
	}
}

func begin(t testing.TB, g *once.Guard, key string) *once.Work {
	t.Helper()
	w, err := g.Begin(t.Context(), operation(t, key))
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	return w
}

// replayOf returns what is replayed to who asks.
func replayOf(t testing.TB, g *once.Guard, key string) once.Outcome {
	t.Helper()
	_, err := g.Begin(t.Context(), operation(t, key))
	var replay *once.ReplayError
	if !errors.As(err, &replay) {
		t.Fatalf("begin of what is done: %v", err)
	}
	return replay.Outcome
}

// stopwatch notes when something happened, from its start.
type stopwatch struct {
	began time.Time
	mu    sync.Mutex
	at    []time.Duration
}

func newStopwatch() *stopwatch { return &stopwatch{began: time.Now()} }

func (s *stopwatch) note() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, time.Since(s.began))
}

func (s *stopwatch) noted() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Duration(nil), s.at...)
}

// endsAfter waits for the end of a context and returns how long after the start it came.
func (s *stopwatch) endsAfter(ctx context.Context) time.Duration {
	<-ctx.Done()
	return time.Since(s.began)
}
