package oncehttp_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncehttp"
)

// Of a repeat that waited, the store has said that another attempt is at work. That it went away
// since is no reason to run the work beside it.
func TestAGuardThatFailsOpenRunsNothingBesideAnAttemptInFlight(t *testing.T) {
	begun, end := make(chan struct{}, 2), make(chan struct{})
	a := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		begun <- struct{}{}
		<-end
		w.WriteHeader(http.StatusCreated)
	}, func(c *oncehttp.Config) {
		c.FailOpen = true
		c.Guard.Wait = patience
	})
	first := make(chan got, 1)
	go func() { first <- a.post("K", `{}`) }()
	<-begun
	var claims atomic.Int64
	a.store.set(func(s *faultyStore) {
		s.claim = func(context.Context, once.Claim) error {
			if claims.Add(1) > 1 {
				return once.ErrUnavailable
			}
			return &once.InFlightError{Rest: time.Minute}
		}
	})
	g := a.post("K", `{}`)
	wantProblem(t, g, http.StatusServiceUnavailable, oncehttp.ProblemStoreDown)
	a.store.set(func(s *faultyStore) { s.claim = nil })
	close(end)
	if g := <-first; g.status != http.StatusCreated {
		t.Errorf("the first one got %d", g.status)
	}
	a.wantRan(1)
}
