package oncehttp

import (
	"errors"
	"net/http"

	"github.com/oncekit/once"
)

// HeaderGuarded is "false" where a request was worked although the store did not answer, as
// Config.FailOpen asks for.
const HeaderGuarded = "Idempotency-Guarded"

// FailedOpen is what Config.Observe is told of such a request.
const FailedOpen = "fail-open"

// failsOpen reports whether a request is worked although its claim had no answer: not if another
// attempt was known to be in flight before the store went away.
func (m *guarded) failsOpen(r *http.Request, err error) bool {
	return m.cfg.FailOpen && errors.Is(err, once.ErrUnavailable) &&
		!errors.Is(err, once.ErrInFlight) && r.Context().Err() == nil
}

// workUnguarded runs the handler without a claim. Its answer is not kept.
func (m *guarded) workUnguarded(w http.ResponseWriter, r *http.Request, b *body, cause error) {
	m.cfg.Logger.Error("a request is worked without its key: the store did not answer, and the "+
		"configuration fails open", "error", cause)
	m.cfg.Observe(r, FailedOpen)
	w.Header()[HeaderGuarded] = isFalse
	inner := *r
	if b.size > 0 {
		inner.Body = b
	}
	if r.MultipartForm == nil {
		defer removeForm(&inner)
	}
	m.next.ServeHTTP(w, &inner)
}
