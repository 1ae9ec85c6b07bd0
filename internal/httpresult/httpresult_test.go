package httpresult_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/oncekit/once/internal/httpresult"
)

func TestClassify_FollowsTheTable(t *testing.T) {
	const (
		done, transient   = httpresult.Done, httpresult.Transient
		permanent, paused = httpresult.Permanent, httpresult.Pause
	)
	want := map[int]httpresult.Class{
		0: permanent, 100: permanent, 199: permanent, 200: done, 201: done, 202: done, 204: done,
		299: done, 300: permanent, 301: permanent, 302: permanent, 304: permanent, 307: permanent,
		308: permanent, 400: permanent, 401: paused, 402: permanent, 403: paused, 404: permanent,
		405: permanent, 407: permanent, 408: transient, 409: transient, 410: permanent,
		413: permanent, 415: permanent, 422: permanent, 425: transient, 429: transient,
		500: transient, 501: permanent, 502: transient, 503: transient, 504: transient,
		505: transient, 599: transient, 600: permanent, 999: permanent,
	}
	for status, class := range want {
		if got := httpresult.Classify(status); got != class {
			t.Errorf("Classify(%d) = %s, want %s", status, got, class)
		}
	}
}

func TestRetryAfter_IsReadAndCapped(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const limit = 5 * time.Minute
	for _, c := range []struct {
		header string
		want   time.Duration
	}{
		{"", 0},
		{"0", 0},
		{"7", 7 * time.Second},
		{" 7 ", 7 * time.Second},
		{"300", limit},
		{"301", limit},
		{"99999999999999999999999", limit},
		{"-1", 0},
		{"1.5", 0},
		{"soon", 0},
		{"Fri, 02 Jan 2026 03:05:05 GMT", time.Minute},
		{"Fri, 02 Jan 2026 03:00:00 GMT", 0},
		{"Sat, 03 Jan 2026 03:00:00 GMT", limit},
	} {
		h := http.Header{}
		if c.header != "" {
			h.Set("Retry-After", c.header)
		}
		if got := httpresult.RetryAfter(h, now, limit); got != c.want {
			t.Errorf("RetryAfter(%q) = %s, want %s", c.header, got, c.want)
		}
	}
}

func FuzzRetryAfter_StaysInItsBounds(f *testing.F) {
	for _, s := range []string{"", "1", "-1", "Fri, 02 Jan 2026 03:05:05 GMT", "9e9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h := http.Header{"Retry-After": {s}}
		got := httpresult.RetryAfter(h, time.Unix(1e9, 0), time.Hour)
		if got < 0 || got > time.Hour {
			t.Fatalf("RetryAfter(%q) = %s", s, got)
		}
	})
}
