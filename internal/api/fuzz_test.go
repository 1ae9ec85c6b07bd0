package api_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// Whatever is asked for is answered in order, and only to this host.
func FuzzARequestIsAnsweredInOrder(f *testing.F) {
	for _, seed := range [][3]string{
		{"/healthz", "127.0.0.1:8081", ""}, {"/readyz", "evil.example", "http://evil.example"},
		{"/api/v1/openapi.yaml", "[::1]:8081", "http://[::1]:8081"},
		{"/api/v1/callbacks?cursor=AAAAAAAA", "localhost", "null"},
		{"/api/v1/tasks/a%2Fb/%zz", "127.0.0.1@evil.example", "http://"},
		{"/api/v1/effects?limit=0&state=%00", "a\x00b", "://"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	handler := newEmpty(f).api
	f.Fuzz(func(t *testing.T, target, host, origin string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return // the server refuses it
		}
		r := &http.Request{Method: http.MethodGet, URL: u, Host: host, Header: http.Header{}}
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code == http.StatusInternalServerError {
			t.Errorf("status 500: %s", w.Body)
		}
		mine := loopback(host) && (origin == "" || strings.HasSuffix(strings.ToLower(origin),
			"://"+strings.ToLower(host)))
		if w.Code != http.StatusForbidden && !mine {
			t.Errorf("host %q and origin %q got status %d", host, origin, w.Code)
		}
	})
}

// loopback says more simply than the guard what may stand in a Host header.
func loopback(host string) bool {
	name := host
	if at, err := netip.ParseAddrPort(host); err == nil {
		return at.Addr().Unmap().IsLoopback()
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		name = host[:i]
	}
	addr, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return strings.EqualFold(name, "localhost") || err == nil && addr.Unmap().IsLoopback()
}
