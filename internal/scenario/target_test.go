package scenario_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/route"
	"github.com/oncekit/once/internal/scenario"
	"github.com/oncekit/once/oncehttp"
)

// groups are the settings of scenarios/gateway.yaml, in process.
func groups(base oncehttp.Config) map[string]oncehttp.Config {
	with := func(set func(*oncehttp.Config)) oncehttp.Config {
		c := base
		set(&c)
		return c
	}
	return map[string]oncehttp.Config{
		"optional": base,
		"required": with(func(c *oncehttp.Config) { c.Key = oncehttp.KeyRequired }),
		"hold": with(func(c *oncehttp.Config) {
			c.Key, c.Guard.OnUnknown = oncehttp.KeyRequired, once.Hold
		}),
		"wait": with(func(c *oncehttp.Config) { c.Guard.Wait = 10 * time.Second }),
		"small": with(func(c *oncehttp.Config) {
			c.MaxBody, c.MaxAnswer = 1<<10, 4<<10
		}),
		"raw": with(func(c *oncehttp.Config) {
			c.Content.Rules = map[string]oncehttp.ContentRule{
				"application/json": oncehttp.ContentRaw,
			}
		}),
		"ignore": with(func(c *oncehttp.Config) { c.Content.Ignore = []string{"/sent_at"} }),
		"ambiguous": with(func(c *oncehttp.Config) {
			c.Keep = func(status int) oncehttp.Verdict {
				if status == 500 || status == 502 || status == 504 {
					return oncehttp.Keep
				}
				return oncehttp.KeepDefault(status)
			}
		}),
		"always": with(func(c *oncehttp.Config) {
			c.Keep = func(status int) oncehttp.Verdict {
				if status >= 500 {
					return oncehttp.Keep
				}
				return oncehttp.KeepDefault(status)
			}
		}),
	}
}

// wrapper puts something in front of the proxy of a group.
type wrapper func(group string, h http.Handler) http.Handler

var quiet = log.New(io.Discard, "", 0)

// target is a reverse proxy in front of the origin, whose groups are wrapped.
func target(t *testing.T, o *scenario.Origin, wrap wrapper) *url.URL {
	t.Helper()
	to := &url.URL{Scheme: "http", Host: o.Address()}
	proxy := &httputil.ReverseProxy{
		ErrorLog: quiet,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
			if r.Out.Body == nil || r.Out.Body == http.NoBody {
				r.Out.Body = io.NopCloser(strings.NewReader("")) // Go must not send it again
			}
			r.Out.GetBody = nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.WriteHeader(http.StatusBadGateway)
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
	}
	byGroup := map[string]http.Handler{}
	for group := range groups(oncehttp.Config{}) {
		byGroup[group] = wrap(group, proxy)
	}
	byPath := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawPath = route.Clean(r.URL.EscapedPath()); r.URL.Path != r.URL.RawPath {
			r.URL.Path, _ = url.PathUnescape(r.URL.RawPath) // it was escaped by a parsed one
		}
		group := strings.SplitN(r.URL.Path, "/", 3)[1]
		if h := byGroup[group]; h != nil {
			h.ServeHTTP(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	})
	server := httptest.NewUnstartedServer(byPath)
	server.Config.ErrorLog = quiet
	server.Start()
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// guardedTarget is our own middleware in front of the origin.
func guardedTarget(t *testing.T, o *scenario.Origin, store once.Store) *url.URL {
	t.Helper()
	base := oncehttp.Config{
		Store: store, Scope: byAccount, Authorize: askOrigin(o),
		Content: oncehttp.Content{Host: true},
	}
	all := groups(base)
	return target(t, o, func(group string, h http.Handler) http.Handler {
		m, err := oncehttp.Middleware(all[group])
		if err != nil {
			t.Fatal(err)
		}
		return m(h)
	})
}

func byAccount(r *http.Request) (once.Scope, error) {
	lines := r.Header.Values("X-Account")
	if len(lines) != 1 {
		return once.Scope{}, once.ErrScopeMissing
	}
	return once.NewScope(lines[0])
}

// askOrigin asks whether the caller may.
func askOrigin(o *scenario.Origin) func(http.ResponseWriter, *http.Request) (*http.Request, bool) {
	return func(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
		ask, err := http.NewRequestWithContext(r.Context(), "GET",
			"http://"+o.Address()+scenario.WhoamiPath, nil)
		if err != nil {
			panic(err)
		}
		ask.Header = r.Header.Clone()
		resp, err := http.DefaultClient.Do(ask)
		if err != nil {
			http.Error(w, fmt.Sprint(err), http.StatusBadGateway)
			return nil, false
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			w.WriteHeader(resp.StatusCode)
			return nil, false
		}
		return r, true
	}
}
