package oncehttp

import "net/http"

// recorderOf finds what captures a guarded request's answer; nil: nothing does.
func recorderOf(w http.ResponseWriter) *recorder {
	for {
		switch v := w.(type) {
		case *recorder:
			return v
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return nil
		}
	}
}

// settleAs says what follows from an answer that isn't the service's own, whatever policy there is
// for its status: that nobody answered is no outcome that could be kept.
func settleAs(w http.ResponseWriter, v Verdict) {
	if rec := recorderOf(w); rec != nil {
		rec.settleAs(v)
	}
}

// unflushed is the writer of a guarded answer. ReverseProxy flushes each piece of an answer whose
// length it doesn't know, and what has gone out can't be told any more that it was not stored. So
// only streams are flushed.
type unflushed struct{ http.ResponseWriter }

// Unwrap serves http.ResponseController.
func (u *unflushed) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// FlushError serves http.ResponseController.
func (u *unflushed) FlushError() error {
	if !isStream(u.Header().Get("Content-Type")) {
		return nil
	}
	return http.NewResponseController(u.ResponseWriter).Flush()
}
