package api_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/api"
)

// paths are one of each sort.
var paths = []string{"/healthz", "/readyz", "/metrics", "/api/v1/callbacks", "/api/v1/openapi.yaml",
	"/nothing"}

func TestOnlyTheHostsOfTheListenerAreAnswered(t *testing.T) {
	e := newEmpty(t, func(c *api.Config) {
		c.Listen, c.Token = "10.0.0.5:8081", "secret"
		c.Hosts = []string{"Once.Plant.Example", "::5", "b.example:80"}
	})
	for host, ok := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:8081": true, "127.1.2.3:1": true, "[::1]:8081": true,
		"localhost": true, "LOCALHOST:8081": true, "10.0.0.5:8081": true, "10.0.0.5": true,
		"once.plant.example:8081": true, "b.example:8081": true,
		"ONCE.plant.example": true, "[::5]": true,
		"[0:0::5]:8081": true, "[::ffff:127.0.0.1]": true,
		"evil.example": false, "evil.example:8081": false, "10.0.0.6:8081": false, "": false,
		"127.0.0.1.evil.example": false, "localhost.evil.example": false, "a.localhost": false,
		"once.plant.example.evil.example": false, "0.0.0.0:8081": false, "[::]:8081": false,
		"127.0.0.1@evil.example": false, "localhost/evil.example": false, "2130706433": false,
		"127.1": false, "localhost:a": false, "[::1": false, "127.0.0.1 ": false, ":8081": false,
	} {
		for _, path := range paths {
			a := e.raw(http.MethodGet, path, "", func(r *http.Request) { r.Host = host })
			if refused := a.Code == http.StatusForbidden; refused == ok {
				t.Errorf("host %q at %s: status %d, want it answered: %v", host, path, a.Code, ok)
			}
		}
	}
	e.raw(http.MethodGet, "/healthz", "", func(r *http.Request) { r.Host = "evil.example" }).
		problem(http.StatusForbidden, "forbidden", `allow it with admin.hosts`)
}

func TestAListenerOnAllAddressesAnswersToTheAddressOfTheConnection(t *testing.T) {
	e := newEmpty(t, func(c *api.Config) { c.Listen, c.Token = "0.0.0.0:8081", "secret" })
	arrived := func(at, host string) func(*http.Request) {
		return func(r *http.Request) {
			addr := net.TCPAddrFromAddrPort(mustAddr(at))
			*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, addr))
			r.Host = host
		}
	}
	e.raw(http.MethodGet, "/healthz", "", arrived("10.1.2.3:8081", "10.1.2.3:8081")).ok()
	e.raw(http.MethodGet, "/healthz", "", arrived("[::ffff:10.1.2.3]:8081", "10.1.2.3:8081")).ok()
	e.raw(http.MethodGet, "/healthz", "", arrived("10.1.2.3:8081", "10.1.2.4:8081")).
		problem(http.StatusForbidden, "forbidden", "10.1.2.4")
	e.raw(http.MethodGet, "/healthz", "", arrived("10.1.2.3:8081", "evil.example")).
		problem(http.StatusForbidden, "forbidden", "evil.example")
}

func TestAPageOfAnotherOriginIsRefused(t *testing.T) {
	e := newEmpty(t)
	for _, c := range []struct {
		origin, site string
		ok           bool
	}{
		{"", "", true}, {"http://127.0.0.1:8081", "same-origin", true}, {"", "none", true},
		{"https://127.0.0.1:8081", "", true}, // TLS that ends before us
		{"http://127.0.0.1:3000", "", false}, {"http://localhost:8081", "", false},
		{"http://evil.example", "", false}, {"null", "", false}, {"file://", "", false},
		{"http://127.0.0.1:8081.evil.example", "", false}, {"127.0.0.1:8081", "", false},
		{"", "cross-site", false}, {"", "same-site", false}, {"", "unheard-of", false},
		{"http://127.0.0.1:8081", "cross-site", false},
	} {
		for _, path := range paths {
			a := e.raw(http.MethodGet, path, "", func(r *http.Request) {
				if c.origin != "" {
					r.Header.Set("Origin", c.origin)
				}
				if c.site != "" {
					r.Header.Set("Sec-Fetch-Site", c.site)
				}
			})
			if refused := a.Code == http.StatusForbidden; refused == c.ok {
				t.Errorf("origin %q, site %q at %s: status %d", c.origin, c.site, path, a.Code)
			}
		}
	}
	twice := func(r *http.Request) {
		r.Header["Origin"] = []string{"http://127.0.0.1:8081", "http://127.0.0.1:8081"}
	}
	e.raw(http.MethodGet, "/healthz", "", twice).
		problem(http.StatusForbidden, "forbidden", "origin")
}

func TestATokenIsAskedForEverywhereButForHealth(t *testing.T) {
	e := newEnv(t, func(c *api.Config) { c.Token = "s3cret" })
	id := e.callback()
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3crett",
		"Basic s3cret", "s3cret", "Bearer S3CRET"} {
		want := "wrong token: want admin.token as Authorization: Bearer TOKEN"
		if header == "" {
			want = "a token is required: Authorization: Bearer TOKEN"
		}
		shown := func(r *http.Request) { r.Header.Set("Authorization", header) }
		for _, path := range paths {
			a := e.raw(http.MethodGet, path, "", shown)
			if open := path == "/healthz" || path == "/readyz"; open {
				a.ok()
				continue
			}
			a.problem(http.StatusUnauthorized, "unauthorized", want)
			if got := a.Header().Get("WWW-Authenticate"); got != `Bearer realm="once"` {
				t.Errorf("WWW-Authenticate %q", got)
			}
		}
		e.raw(http.MethodPost, "/api/v1/callbacks/"+id+"/discard", by, shown).
			problem(http.StatusUnauthorized, "unauthorized", want)
	}
	e.raw(http.MethodGet, "/api/v1/callbacks", "", func(r *http.Request) {
		r.Header["Authorization"] = []string{"Bearer s3cret", "Bearer s3cret"}
	}).problem(http.StatusUnauthorized, "unauthorized", "")
	e.raw(http.MethodGet, "/api/v1/callbacks", "", func(r *http.Request) {
		r.Header.Set("Authorization", "bearer  s3cret")
	}).ok()
	if got := e.get("/api/v1/callbacks/" + id).ok(); got["state"] != "pending" {
		t.Errorf("callback %v", got)
	}
}

func TestAnOpenListenerNeedsAToken(t *testing.T) {
	good := newEmpty(t).cfg
	for listen, ok := range map[string]bool{
		"127.0.0.1:8081": true, "[::1]:8081": true, "localhost:8081": true, "127.9.9.9:0": true,
		"": false, ":8081": false, "0.0.0.0:8081": false, "[::]:8081": false,
		"10.0.0.5:8081":      false,
		"plant.example:8081": false, "127.0.0.1": false, "localhost.evil.example:1": false,
	} {
		cfg := good
		cfg.Listen = listen
		if _, err := api.New(cfg); (err == nil) != ok {
			t.Errorf("listen %q without a token: %v", listen, err)
		}
		cfg.Token = "secret"
		_, err := api.New(cfg)
		if wrong := listen == "127.0.0.1"; (err != nil) != wrong { // no port
			t.Errorf("listen %q with a token: %v", listen, err)
		}
	}
	for _, host := range []string{"", "http://a.example", "a.example/", "a b", "u@h", ":1"} {
		cfg := good
		cfg.Hosts = []string{host}
		if _, err := api.New(cfg); err == nil || !strings.Contains(err.Error(), "want a name") {
			t.Errorf("host %q: %v", host, err)
		}
	}
	for _, missing := range []func(*api.Config){
		func(c *api.Config) { c.Browser = nil }, func(c *api.Config) { c.Operator = nil },
		func(c *api.Config) { c.Transactor = nil }, func(c *api.Config) { c.Engine = nil },
		func(c *api.Config) { c.Metrics = nil }, func(c *api.Config) { c.Ping = nil },
		func(c *api.Config) { c.Route = nil },
	} {
		cfg := good
		missing(&cfg)
		if _, err := api.New(cfg); err == nil {
			t.Error("something required is missing, and New says nothing")
		}
	}
}
