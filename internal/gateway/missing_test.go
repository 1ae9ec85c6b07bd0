package gateway_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/gateway"
	"github.com/oncekit/once/internal/testserver"
)

func TestAScopeThatIsMissingThoughTheCallerWasLetInIsToldOnceAMinute(t *testing.T) {
	t.Parallel()
	auth := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(auth.Close)
	var log testserver.Text
	logged := func(c *gateway.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }
	s := newSet(t, t.TempDir(), "  auth: {url: "+auth.URL+"}\n"+
		"  scope: \"auth.header['x-account-id']\"\n", "{match: POST /}", logged)
	for range 3 {
		if status, _, _ := s.post("the-key", "Authorization", "Bearer secret"); status != 401 {
			t.Errorf("status %d, want 401", status)
		}
	}
	text := log.String()
	if n := strings.Count(text, "a caller was let in"); n != 1 {
		t.Errorf("told %d times, want once: %s", n, text)
	}
	if strings.Contains(text, "the-key") || strings.Contains(text, "secret") {
		t.Errorf("the log has a value: %s", text)
	}

	before := len(log.String())
	s = newSet(t, t.TempDir(), "  scope: \"header['x-account-id']\"\n", "{match: POST /}", logged)
	if status, _, _ := s.post("k"); status != 401 || len(log.String()) != before {
		t.Errorf("a client that says nothing: status %d, told as %s", status, log.String())
	}
}
