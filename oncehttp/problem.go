package oncehttp

import (
	"encoding/json"
	"errors"
	"math/bits"
	"net/http"
	"strconv"
	"time"

	"github.com/oncekit/once"
)

// The names of the problems: the last part of their type. They are stable.
const (
	ProblemKeyMissing    = "key-missing"       // 400
	ProblemKeyInvalid    = "key-invalid"       // 400
	ProblemScopeMissing  = "scope-missing"     // 401
	ProblemScopeFailed   = "scope-unavailable" // 503: nobody could say whose key it is
	ProblemBodyTooLarge  = "body-too-large"    // 413
	ProblemBodyBroken    = "body-broken"       // 400: it ended early, or can't be decoded
	ProblemMismatch      = "mismatch"          // 422
	ProblemInFlight      = "in-flight"         // 409 with Retry-After
	ProblemHeld          = "held"              // 409: a person has to decide
	ProblemNotKept       = "not-kept"          // the status of the first answer
	ProblemStoreDown     = "store-unavailable" // 503
	ProblemRecordCorrupt = "record-corrupt"    // 500
	ProblemNotFinished   = "not-finished"      // 504: its handler was told to stop
	ProblemNotProcessed  = "not-processed"     // 503: the body could not be kept meanwhile
	ProblemBodyTimeout   = "body-timeout"      // 408: with a BodyTimeout
	// Of [Proxy]:
	ProblemNotProxied      = "not-proxied"          // 400: it names no path
	ProblemUnreachable     = "upstream-unreachable" // 503: nothing was sent
	ProblemUpstreamLost    = "upstream-lost"        // 502: no answer came
	ProblemUpstreamTimeout = "upstream-timeout"     // 504: no answer came in time
)

const (
	problemTypePrefix      = "urn:once:problem:" // of all of them
	contentTypeProblemJSON = "application/problem+json"
)

// Problem is a refusal as its client reads it (RFC 9457).
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Limit is the limit that was passed, where there is one.
	Limit int64 `json:"limit,omitempty"`

	name       string
	retryAfter int // seconds; 0: none
}

func problem(name string, status int, title string) *Problem {
	return &Problem{Type: problemTypePrefix + name, Title: title, Status: status, name: name}
}

// write answers with the problem. docs is the URL of a page about it, or empty.
func (p *Problem) write(w http.ResponseWriter, docs string) {
	body, err := json.Marshal(p)
	if err != nil { // texts and numbers always can
		http.Error(w, p.Title, p.Status)
		return
	}
	h := w.Header()
	h.Set("Content-Type", contentTypeProblemJSON)
	h.Set("Cache-Control", "no-store")
	if docs != "" {
		h.Set("Link", "<"+docs+`>; rel="describedby"`)
	}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // a client that left misses it
}

// claimProblem is what a request gets whose claim was refused: the one table from errors of the
// core to statuses.
func claimProblem(err error) *Problem {
	busy, inFlight := errors.AsType[*once.InFlightError](err)
	switch {
	case errors.Is(err, once.ErrScopeMissing):
		return scopeProblem(err)
	case errors.Is(err, once.ErrMismatch):
		p := problem(ProblemMismatch, http.StatusUnprocessableEntity,
			"The key was used with another request")
		p.Detail = "A request with this key and another method, path or content came before. " +
			"Send a changed request with a new key."
		return p
	case inFlight && !errors.Is(err, once.ErrUnavailable):
		p := problem(ProblemInFlight, http.StatusConflict, "The first request is still at work")
		p.Detail = "A request with this key is being worked. Send the same request again later."
		p.retryAfter = inFlightRetry(busy.Age, busy.Rest)
		return p
	case errors.Is(err, once.ErrUnknown):
		p := problem(ProblemHeld, http.StatusConflict,
			"The outcome of the first request is unknown")
		p.Detail = "An attempt with this key ended, and nobody knows whether it had its effect. " +
			"A person has to decide."
		return p
	case errors.Is(err, once.ErrCorrupt):
		p := problem(ProblemRecordCorrupt, http.StatusInternalServerError,
			"What is kept of this key can't be read")
		p.Detail = "The work was not run again because of that. A person has to look at it."
		return p
	}
	p := problem(ProblemStoreDown, http.StatusServiceUnavailable, "The store can't answer now")
	p.Detail = "The request was not worked. Send the same request again later."
	p.retryAfter = 1
	return p
}

// inFlightRetry is how many seconds a repeat should wait: 1, doubling with the age of the attempt,
// and no longer than its lease runs.
func inFlightRetry(age, rest time.Duration) int {
	seconds := 1
	if whole := uint(max(age, 0) / time.Second); whole > 0 {
		seconds = 1 << (bits.Len(whole) - 1)
		if time.Duration(seconds)*time.Second < age {
			seconds *= 2
		}
	}
	end := int((max(rest, 0) + time.Second - 1) / time.Second)
	return max(1, min(seconds, end))
}

// WriteProblem answers with a problem in the form of those of this package: for who refuses a
// request before a [Middleware] sees it. The name is the last part of its type. docs is the URL of
// a page about it, or empty.
func WriteProblem(w http.ResponseWriter, name string, status int, title, detail, docs string) {
	p := problem(name, status, title)
	p.Detail = detail
	p.write(w, docs)
}
