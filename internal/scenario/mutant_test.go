package scenario_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oncekit/once/internal/scenario"
)

// failed are the scenarios that a wrapped proxy does not pass.
func failed(t *testing.T, wrap wrapper) (list []string, of int) {
	t.Helper()
	o := origin(t)
	all := load(t)
	// With little patience, since scenarios that fail often wait for something in vain.
	cfg := scenario.Config{
		Target: target(t, o, wrap), Origin: o, Parallel: 16, Patience: 2 * time.Second,
	}
	results, err := scenario.Run(t.Context(), all, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if !r.Passed {
			list = append(list, r.ID)
		}
	}
	return list, len(all)
}

func TestAProxyWithoutIdempotencyFailsNearlyAll(t *testing.T) {
	t.Parallel()
	list, of := failed(t, func(_ string, h http.Handler) http.Handler { return h })
	// What remains is about requests that nobody guards, and answers that free the key.
	if most := of / 4; of-len(list) > most {
		t.Errorf("%d of %d scenarios pass, want at most %d", of-len(list), of, most)
	}
}

// TestTheTextbooksMiddlewareFailsWhereItIsKnownTo holds the scenarios to the middleware of
// tutorials: look up the key, run, store the body.
func TestTheTextbooksMiddlewareFailsWhereItIsKnownTo(t *testing.T) {
	t.Parallel()
	list, of := failed(t, func(_ string, h http.Handler) http.Handler { return &textbook{next: h} })
	for _, id := range []string{
		"race-of-twenty", "repeat-while-first-runs", "changed-content", "changed-while-first-runs",
		"key-line-twice", "quoted-then-bare", "key-of-256-bytes", "two-accounts-one-key",
		"secret-of-another-account", "key-on-another-endpoint", "status-201-is-kept",
		"status-503-is-not-kept", "lost-attempt-is-held", "header-lines-in-order",
		"events-arrive-as-they-are-sent", "answer-over-the-limit", "replay-is-marked",
		"json-numbers-above-2-to-53", "repeat-after-the-right-is-gone", "no-account",
	} {
		if !slices.Contains(list, id) {
			t.Errorf("%s passes", id)
		}
	}
	if least := of / 2; len(list) < least {
		t.Errorf("%d of %d scenarios fail, want at least %d", len(list), of, least)
	}
}

// textbook is a middleware as tutorials have it.
type textbook struct {
	next   http.Handler
	mu     sync.Mutex
	bodies map[string][]byte
}

func (m *textbook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" || r.Method == http.MethodGet {
		m.next.ServeHTTP(w, r)
		return
	}
	m.mu.Lock()
	body, ok := m.bodies[key]
	m.mu.Unlock()
	if ok {
		_, _ = w.Write(body)
		return
	}
	rec := httptest.NewRecorder()
	m.next.ServeHTTP(rec, r)
	m.mu.Lock()
	if m.bodies == nil {
		m.bodies = map[string][]byte{}
	}
	m.bodies[key] = bytes.Clone(rec.Body.Bytes())
	m.mu.Unlock()
	for name, values := range rec.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}
