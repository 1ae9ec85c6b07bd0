package oncehttp

import "net/http"

// HeaderGuarded is "false" where a request was worked although the store did not answer, as
// Config.FailOpen asks for.
const HeaderGuarded = "Idempotency-Guarded"

// FailedOpen is what Config.Observe is told of such a request.
const FailedOpen = "fail-open"

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
