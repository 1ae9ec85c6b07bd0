// Package gateway puts idempotency keys before a service in any language, as the configuration
// says: it finds the route of a request, asks who its caller is, and hands it on, once.
package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/expr"
	"github.com/oncekit/once/internal/route"
	"github.com/oncekit/once/oncehttp"
)

// Config says what a gateway stands on. Gateway and Store are required.
type Config struct {
	Gateway *config.Gateway
	// Store keeps the records.
	Store once.Store
	// Proxies are the networks whose word on a client is believed. Default: none.
	Proxies []netip.Prefix
	// BodyTimeout bounds the time between two pieces of a body. Default 30s.
	BodyTimeout time.Duration
	// Observer counts. Default: nobody does.
	Observer Observer
	// Now is the clock by which tokens are judged. Default time.Now.
	Now func() time.Time
	// Logger gets what an operator should know. Default: discards.
	Logger *slog.Logger
}

// Observer is told what came of requests. Its methods are called by many goroutines at once.
type Observer interface {
	// Request is told of each request at its end: the route's match, empty for one that has no
	// route, and what came of it (see oncehttp.Config.Observe, and the constants of this package).
	Request(route, what string, took time.Duration)
	// RequestAttempt is told how a guarded attempt ended.
	RequestAttempt(route string, kind once.EventKind)
}

// What Observer.Request is told beside what oncehttp.Config.Observe is.
const (
	// Unmatched: no route has the request, which passed unguarded.
	Unmatched = "unmatched"
	// Ignored: its route says key: ignored.
	Ignored = "ignored"
	// PathAmbiguous: its path can be read in more than one way.
	PathAmbiguous = "path-ambiguous"
)

// The headers by which the service knows the attempt.
const (
	headerFence   = "Idempotency-Fence"
	headerAttempt = "Idempotency-Attempt"
)

// Gateway is an http.Handler, safe for concurrent use.
type Gateway struct {
	cfg    Config
	table  *route.Table
	routes []http.Handler // guarded ones; nil: ignored
	proxy  *oncehttp.Proxy
	caller *caller

	running sync.WaitGroup // guarded requests
	stop    context.Context
	end     context.CancelFunc
	bodies  *oncehttp.Budget // of all routes
}

// New makes a gateway. It reads files (keys of tokens, certificates) and connects to nothing.
func New(cfg Config) (*Gateway, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.BodyTimeout <= 0 {
		cfg.BodyTimeout = 30 * time.Second
	}
	if cfg.Observer == nil {
		cfg.Observer = nobody{}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	g := &Gateway{cfg: cfg, bodies: oncehttp.NewBudget(maxBodies)}
	g.stop, g.end = context.WithCancel(context.Background())
	var err error
	if g.proxy, err = newProxy(&cfg); err != nil {
		return nil, fmt.Errorf("make gateway: %w", err)
	}
	if g.caller, err = newCaller(&cfg); err != nil {
		return nil, fmt.Errorf("make gateway: %w", err)
	}
	var patterns []route.Pattern
	for i := range cfg.Gateway.Routes {
		r := &cfg.Gateway.Routes[i]
		patterns = append(patterns, r.Pattern)
		h, err := g.guard(r)
		if err != nil {
			return nil, fmt.Errorf("make gateway: route %s: %w", r.Match, err)
		}
		g.routes = append(g.routes, h)
	}
	if g.table, err = route.NewTable(patterns, cfg.Gateway.Strict); err != nil {
		return nil, fmt.Errorf("make gateway: %w", err)
	}
	return g, nil
}

func newProxy(cfg *Config) (*oncehttp.Proxy, error) {
	c := cfg.Gateway
	upstream, err := url.Parse(c.Upstream)
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	var files *tls.Config
	if c.TLS != nil {
		if files, err = c.TLS.Load(); err != nil {
			return nil, err
		}
	}
	return oncehttp.NewProxy(oncehttp.ProxyConfig{
		Upstream: upstream, Host: oncehttp.HostRule(c.Host), TLS: files, Trusted: cfg.Proxies,
		DialTimeout: c.Timeouts.Dial, AnswerTimeout: c.Timeouts.Answer,
		IdleTimeout: c.Timeouts.Idle, BodyTimeout: cfg.BodyTimeout, Docs: c.Docs,
		Logger: cfg.Logger,
	})
}

// maxBodies bounds the bodies of guarded requests that are held at one time, in bytes: in memory up
// to the middleware's SpoolFrom each, and else in temporary files.
const maxBodies = 4 << 30

// guard makes the handler of a route; nil where keys are ignored.
func (g *Gateway) guard(r *config.Route) (http.Handler, error) {
	if r.Key == "ignored" {
		return nil, nil
	}
	cfg, err := Middleware(g.cfg.Gateway, r)
	if err != nil {
		return nil, err
	}
	match := r.Match
	cfg.Store, cfg.BodyTimeout, cfg.Bodies = g.cfg.Store, g.cfg.BodyTimeout, g.bodies
	cfg.Logger = g.cfg.Logger.With("route", match)
	cfg.Scope, cfg.Authorize = g.caller.scope, g.caller.authorize
	if g.caller.asksNobody() {
		cfg.Authorize = nil
	}
	cfg.Observe = func(r *http.Request, what string) {
		if s, ok := r.Context().Value(seenKey{}).(*seen); ok {
			s.what = what
		}
	}
	cfg.Guard.Observe = func(e once.Event) {
		if isEnd(e.Kind) {
			g.cfg.Observer.RequestAttempt(match, e.Kind)
		}
	}
	wrap, err := oncehttp.Middleware(cfg)
	if err != nil {
		return nil, err
	}
	return wrap(http.HandlerFunc(g.forward)), nil
}

func isEnd(kind once.EventKind) bool {
	switch kind {
	case once.EventCompleted, once.EventTombstone, once.EventReleased, once.EventLost,
		once.EventNotStored, once.EventLeaseLost:
		return true
	}
	return false
}

// seen is what came of a request.
type seen struct{ what string }

type seenKey struct{}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	escaped := r.URL.EscapedPath()
	if r.URL.Opaque != "" || escaped == "*" {
		// What names no path has no normal form either. The proxy refuses it.
		g.forward(w, r)
		g.cfg.Observer.Request("", oncehttp.ProblemNotProxied, time.Since(start))
		return
	}
	n, path, err := g.table.Find(r.Method, escaped)
	if err != nil {
		oncehttp.WriteProblem(w, PathAmbiguous, http.StatusBadRequest,
			"The path can be read in more than one way", "Send it without encoded slashes, "+
				"backslashes and parameters of segments, and the method in capitals.",
			g.cfg.Gateway.Docs)
		g.cfg.Observer.Request("", PathAmbiguous, time.Since(start))
		return
	}
	if path != escaped {
		r = withPath(r, path)
	}
	match, s := "", &seen{what: Unmatched}
	if n >= 0 {
		match, s.what = g.cfg.Gateway.Routes[n].Match, Ignored
	}
	defer func() { g.cfg.Observer.Request(match, s.what, time.Since(start)) }()
	if n < 0 || g.routes[n] == nil {
		g.forward(w, r)
		return
	}
	if r.Body == nil || r.Body == http.NoBody {
		// A server's read deadline would end a request that waits for another's answer.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	g.running.Add(1)
	defer g.running.Done()
	g.routes[n].ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), seenKey{}, s)))
}

// withPath is the request for another path.
func withPath(r *http.Request, escaped string) *http.Request {
	out := *r
	u := *r.URL
	if plain, err := url.PathUnescape(escaped); err == nil { // as the server found before
		u.Path, u.RawPath = plain, escaped
	}
	out.URL = &u
	return &out
}

// forward hands a request on. It ends with the gateway.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(g.stop, cancel)()
	r = r.WithContext(ctx)
	grant, guarded := oncehttp.Grant(ctx)
	if guarded || r.Header[headerFence] != nil || r.Header[headerAttempt] != nil {
		r.Header = r.Header.Clone()
		delete(r.Header, headerFence) // nobody else says it
		delete(r.Header, headerAttempt)
	}
	if guarded {
		r.Header[headerFence] = []string{strconv.FormatInt(grant.Fence, 10)}
		r.Header[headerAttempt] = []string{strconv.Itoa(grant.Attempt)}
		keepFromConnection(r.Header, headerFence, headerAttempt)
	}
	g.proxy.ServeHTTP(w, r)
}

// keepFromConnection takes names out of Connection: a proxy removes the headers that it lists (RFC
// 9110, section 7.6.1), and a client must not remove ours.
func keepFromConnection(h http.Header, names ...string) {
	lines := h["Connection"]
	if len(lines) == 0 {
		return
	}
	var kept []string
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.TrimSpace(name)
			if !slices.Contains(names, http.CanonicalHeaderKey(name)) {
				kept = append(kept, name)
			}
		}
	}
	h["Connection"] = kept
}

// End ends the guarded requests that still run, and waits up to grace until they are settled: each
// becomes a lost attempt. It reports whether all were. Requests that come later end at once.
func (g *Gateway) End(grace time.Duration) bool {
	g.end()
	done := make(chan struct{})
	go func() {
		g.running.Wait()
		close(done)
	}()
	limit := time.NewTimer(grace)
	defer limit.Stop()
	select {
	case <-done:
		return true
	case <-limit.C:
		return false
	}
}

// Close lets go of connections. It is safe twice.
func (g *Gateway) Close() error {
	g.end()
	g.caller.close()
	return g.proxy.Close()
}

// scopeVars are what is known of a request without asking anybody.
func scopeVars(r *http.Request) *expr.Vars {
	v := &expr.Vars{Header: r.Header}
	if r.URL.RawQuery != "" {
		v.Query, _ = url.ParseQuery(r.URL.RawQuery) // what can be read of it
	}
	return v
}

type nobody struct{}

// Request implements Observer.
func (nobody) Request(string, string, time.Duration) {}

// RequestAttempt implements Observer.
func (nobody) RequestAttempt(string, once.EventKind) {}
