package outbox

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// classify says what a response means for the row; nil: acknowledged.
func (h *HTTP) classify(resp *http.Response, text string) *Failure {
	class := classOfStatus(resp.StatusCode)
	if class == 0 {
		return nil
	}
	f := &Failure{Class: class}
	status := fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	f.Err = fmt.Errorf("destination answered %s", strings.TrimSpace(status))
	if text != "" {
		f.Err = fmt.Errorf("%w: %s", f.Err, text)
	}
	if class == Transient {
		f.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), h.cfg.Now(), h.cfg.MaxRetryAfter)
	}
	return f
}

// classOfStatus is the table from status to class; 0 is done. A conflict is transient: an
// idempotent destination answers it while it is still at work on an earlier try.
func classOfStatus(status int) Class {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly,
		http.StatusTooManyRequests:
		return Transient
	case http.StatusUnauthorized, http.StatusForbidden:
		return Pause
	case http.StatusNotImplemented:
		return Permanent
	}
	switch {
	case status >= 200 && status < 300:
		return 0
	case status >= 500 && status < 600:
		return Transient
	}
	return Permanent
}

// retryAfter reads a Retry-After header (RFC 9110, section 10.2.3): seconds or a date. Anything
// else, and a date in the past, is 0; more than limit is limit.
func retryAfter(value string, now time.Time, limit time.Duration) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(limit/time.Second) {
			return limit
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), limit)
}
