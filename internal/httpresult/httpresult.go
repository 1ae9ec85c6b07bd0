// Package httpresult says what an HTTP answer means for the thing that was sent. It is the one
// table of the inbox's HTTP handlers and the outbox's HTTP destinations.
package httpresult

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Class is what an answer means.
type Class uint8

// The classes of answers.
const (
	// Done: the other side has it.
	Done Class = iota + 1
	// Transient: it may pass; send again after a backoff, or after Retry-After.
	Transient
	// Permanent: it will never pass.
	Permanent
	// Pause: the other side refuses us, not the message; whatever else we send fares the same.
	Pause
)

// String returns "done", "transient", "permanent" or "pause".
func (c Class) String() string {
	switch c {
	case Done:
		return "done"
	case Transient:
		return "transient"
	case Pause:
		return "pause"
	}
	return "permanent"
}

// Classify returns the class of an HTTP status (RFC 9110, section 15). Redirects are permanent:
// they are not followed, since a POST would change its method or its receiver.
func Classify(status int) Class {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return Pause
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly,
		http.StatusTooManyRequests:
		return Transient
	case http.StatusNotImplemented:
		return Permanent
	}
	switch {
	case status >= 200 && status <= 299:
		return Done
	case status >= 500 && status <= 599:
		return Transient
	}
	return Permanent
}

// RetryAfter returns the wait that a Retry-After header asks for (RFC 9110, section 10.2.3), as
// seconds or as a date, at most limit. It is 0 if there is no such header, if it can't be read, or
// if its date is over.
func RetryAfter(h http.Header, now time.Time, limit time.Duration) time.Duration {
	text := strings.Trim(h.Get("Retry-After"), " \t")
	if text == "" {
		return 0
	}
	if strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds > int64(limit/time.Second) { // too many digits: a very long wait
			return limit
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(0, min(at.Sub(now), limit))
}
