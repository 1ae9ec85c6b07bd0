package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/wire"
)

// probeTimeout is how long the store may take to say that it can be written.
const probeTimeout = 2 * time.Second

// ErrRecordsAway stands at the beginning of what [Config.Ping] answers where the store can be
// written, and another one that keeps the gateway's records does not answer.
var ErrRecordsAway = errors.New("the gateway's records can't be reached")

// probe asks the store whether it can be written. One question is under way at a time, however many
// ask: a store that hangs holds one goroutine.
type probe struct {
	ping func(context.Context) error

	mu      sync.Mutex
	running *answer
}

type answer struct {
	done chan struct{}
	err  error // valid once done is closed
}

// check returns the answer to the question that is under way.
func (p *probe) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	a := p.ask()
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return fmt.Errorf("the store did not answer within %v: %w", probeTimeout,
			once.ErrUnavailable)
	}
}

func (p *probe) ask() *answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		return p.running
	}
	a := &answer{done: make(chan struct{})}
	p.running = a
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		defer cancel()
		a.err = p.ping(ctx)
		p.mu.Lock()
		p.running = nil
		p.mu.Unlock()
		close(a.done)
	}()
	return a
}

func (a *API) healthz(w http.ResponseWriter, _ *http.Request) {
	a.write(w, wire.Health{Status: "alive"})
}

// readyz tells the reason to those who show the token where there is one.
func (a *API) readyz(w http.ResponseWriter, r *http.Request) {
	err := a.probe.check(r.Context())
	what := "the store can't be written"
	if errors.Is(err, ErrRecordsAway) {
		what = ErrRecordsAway.Error()
	}
	switch {
	case err == nil:
		a.write(w, wire.Health{Status: "ready"})
	case a.guard.token(r) != nil:
		a.refuse(w, r, problemf(http.StatusServiceUnavailable, "%s", what))
	case what == ErrRecordsAway.Error():
		a.refuse(w, r, problemf(http.StatusServiceUnavailable, "%v", err))
	default:
		a.refuse(w, r, problemf(http.StatusServiceUnavailable, "%s: %v", what, err))
	}
}

func (a *API) metrics(w http.ResponseWriter, r *http.Request) {
	a.cfg.Metrics.StoreReady(a.probe.check(r.Context()) == nil)
	a.cfg.Metrics.Handler().ServeHTTP(w, r)
}

func (a *API) describe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(a.openAPI)
}

func (a *API) write(w http.ResponseWriter, v any) {
	if err := writeJSON(w, http.StatusOK, "application/json", v); err != nil {
		a.log.Error("write an answer", "error", err)
	}
}
