package linear

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncemem"
)

func memory(t *testing.T) *oncemem.Store {
	t.Helper()
	s, err := oncemem.New(oncemem.Config{SingleInstance: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestASoundStorePasses(t *testing.T) { Check(t, memory(t), Options{}) }

// recorderTB takes the report of a check.
type recorderTB struct {
	testing.TB
	problem string
}

func (r *recorderTB) Helper() {}

func (r *recorderTB) Fatalf(format string, args ...any) {
	r.problem = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// tries bounds how often a faulty store may pass: a fault shows only when calls overlap.
const tries = 30

func found(t *testing.T, open func() once.Store) string {
	t.Helper()
	for range tries {
		r := &recorderTB{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			Check(r, open(), Options{})
		}()
		<-done
		if r.problem != "" {
			return r.problem
		}
	}
	return ""
}

// hasty looks whether a record is there, and overwrites what came in between.
type hasty struct{ *oncemem.Store }

func (s hasty) Claim(ctx context.Context, c once.Claim) (once.Grant, error) {
	_, looked := s.Record(ctx, c.Identity)
	runtime.Gosched()
	g, err := s.Store.Claim(ctx, c)
	if errors.Is(looked, once.ErrNotFound) && errors.Is(err, once.ErrInFlight) {
		return once.Grant{Identity: c.Identity, Owner: c.Owner, Fence: 1, Attempt: 1}, nil
	}
	return g, err
}

// forgetful answers what it remembers of the claim before.
type forgetful struct {
	*oncemem.Store
	mu    sync.Mutex
	last  map[once.Identity]error
	claim int
}

func (s *forgetful) Claim(ctx context.Context, c once.Claim) (once.Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claim++
	if err := s.last[c.Identity]; err != nil && s.claim%3 == 0 {
		return once.Grant{}, err
	}
	g, err := s.Store.Claim(ctx, c)
	if errors.Is(err, once.ErrInFlight) {
		s.last[c.Identity] = err
	}
	return g, err
}

// eager says that it is done before it is.
type eager struct {
	*oncemem.Store
	later *sync.WaitGroup
}

func (s eager) Release(ctx context.Context, g once.Grant) error {
	s.later.Go(func() {
		for range 20 {
			runtime.Gosched()
		}
		_ = s.Store.Release(ctx, g)
	})
	return nil
}

// deaf doesn't answer.
type deaf struct{ *oncemem.Store }

func (deaf) Claim(context.Context, once.Claim) (once.Grant, error) {
	return once.Grant{}, once.ErrUnavailable
}

func TestAFaultyStoreIsFound(t *testing.T) {
	var later sync.WaitGroup
	defer later.Wait()
	for name, open := range map[string]func() once.Store{
		"looks, then writes": func() once.Store { return hasty{memory(t)} },
		"answers what was": func() once.Store {
			return &forgetful{Store: memory(t), last: map[once.Identity]error{}}
		},
		"acknowledges too early": func() once.Store { return eager{memory(t), &later} },
		"doesn't answer":         func() once.Store { return deaf{memory(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			problem := found(t, open)
			if problem == "" {
				t.Fatal("it passes")
			}
			t.Logf("%.600s", problem)
		})
	}
}
