package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/wire"
)

// problem is a refusal with the headers of its answer.
type problem struct {
	wire.Problem
	header http.Header
}

// problemType is what a status stands for: the last part of its type, and its title.
func problemType(status int) (name, title string) {
	switch status {
	case http.StatusBadRequest:
		return "bad-request", "The request is wrong"
	case http.StatusUnauthorized:
		return "unauthorized", "The caller did not say who it is"
	case http.StatusForbidden:
		return "forbidden", "The request comes from elsewhere"
	case http.StatusNotFound:
		return "not-found", "There is no such thing"
	case http.StatusMethodNotAllowed:
		return "method-not-allowed", "The method is not allowed here"
	case http.StatusConflict:
		return "state", "Not possible in this state"
	case http.StatusRequestEntityTooLarge:
		return "too-large", "The body is too large"
	case http.StatusUnsupportedMediaType:
		return "media-type", "The body is not JSON"
	case http.StatusServiceUnavailable:
		return "unavailable", "Not possible now"
	}
	return "internal", "Internal error"
}

// problemf makes a problem with a detail for people.
func problemf(status int, format string, args ...any) *problem {
	name, title := problemType(status)
	return &problem{Problem: wire.Problem{
		Type: "/problems/" + name, Title: title, Status: status,
		Detail: fmt.Sprintf(format, args...),
	}}
}

// retryAfter is what a caller is told when the store is away.
const retryAfter = "1"

// refusal is an error of the flow or of the configuration that no sentinel stands for: what the
// person wants can't be done, and the text says why.
type refusal struct{ err error }

// Error returns the text of the cause.
func (e *refusal) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *refusal) Unwrap() error { return e.err }

func refused(err error) error {
	if err == nil {
		return nil
	}
	return &refusal{err}
}

// problemOf is the one table from error to status. The store's trouble comes first: a refusal may
// be no more than its consequence.
func problemOf(err error) *problem {
	var known *problem
	var no *refusal
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, once.ErrUnavailable):
		return problemf(http.StatusServiceUnavailable, "%v", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return problemf(http.StatusServiceUnavailable, "the store did not answer in time")
	case errors.Is(err, once.ErrNotFound):
		return problemf(http.StatusNotFound, "%v", err)
	case errors.Is(err, once.ErrState), errors.Is(err, once.ErrConflict):
		// The title says it already.
		detail := strings.TrimSuffix(err.Error(), ": "+once.ErrState.Error())
		return problemf(http.StatusConflict, "%s", detail)
	case errors.As(err, &no):
		return problemf(http.StatusConflict, "%v", err)
	}
	return nil
}

// refuse answers with a problem. What nobody foresaw is logged and not told.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p == nil {
		a.log.Error("API request failed", "method", r.Method, "error", err)
		p = problemf(http.StatusInternalServerError, "internal error, see the log")
	}
	for name, values := range p.header {
		w.Header()[name] = values
	}
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	told := p.Problem
	told.Detail = strings.ToValidUTF8(p.Detail, "\uFFFD")
	if err := writeJSON(w, p.Status, "application/problem+json", told); err != nil {
		a.log.Error("write a problem", "error", err)
	}
}
