package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/oncekit/once/flow"
	"github.com/oncekit/once/internal/metrics"
	"github.com/oncekit/once/queue"
)

// Config says what the API stands on and who may use it. The fields down to Route are required.
type Config struct {
	// Browser, Operator and Transactor are the store.
	Browser    queue.Browser
	Operator   queue.Operator
	Transactor queue.Transactor
	Engine     *flow.Engine
	// Metrics are shown under /metrics.
	Metrics *metrics.Metrics
	// Ping reports whether the store can be written.
	Ping func(context.Context) error
	// Route gives a callback the place that it has by today's configuration.
	Route func(queue.Row) (queue.Arrival, error)

	// Destinations says how each destination stands. Default: there are none.
	Destinations func() []Destination
	// Sources says how each source stands. Default: there are none.
	Sources func() []Source

	// Nodes tells which processes serve the store. Default: nobody knows (404).
	Nodes queue.NodeLister

	// Records are those of guarded requests. Default: there are none (404).
	Records *RecordsConfig

	// Listen is the address of the listener, host:port. Its host may stand in a Host header.
	// Anything but a loopback address needs a Token. Default: unknown, so a Token is needed.
	Listen string
	// Hosts are further hosts that may stand in a Host header, whatever the port beside them.
	Hosts []string
	// Token that a caller has to show, except for /healthz and /readyz. Default: none.
	Token string

	// Timeout of the store's work for one request. Default 10s.
	Timeout time.Duration
	// Concurrent is how many requests the API works at once; over it they are answered 503.
	// Default 32.
	Concurrent int
	// Version of the program, for the OpenAPI description. Default "unknown".
	Version string
	// Logger gets changes and failures. Default: discards.
	Logger *slog.Logger
}

// API is the http.Handler of the operator's listener. It is safe for concurrent use.
type API struct {
	cfg     Config
	log     *slog.Logger
	guard   *guard
	probe   *probe
	routes  []route
	openAPI []byte
	slots   chan struct{}
}

// New returns the handler of the operator's listener. It does no I/O. It returns an error for what
// is missing, for an address that is not loopback without a token, and for a wrong address.
func New(cfg Config) (*API, error) {
	if cfg.Browser == nil || cfg.Operator == nil || cfg.Transactor == nil || cfg.Engine == nil ||
		cfg.Metrics == nil || cfg.Ping == nil || cfg.Route == nil {
		return nil, errors.New("make API: store, engine, metrics, ping and route are required")
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Concurrent <= 0 {
		cfg.Concurrent = 32
	}
	if cfg.Destinations == nil {
		cfg.Destinations = func() []Destination { return nil }
	}
	if cfg.Sources == nil {
		cfg.Sources = func() []Source { return nil }
	}
	if cfg.Version == "" {
		cfg.Version = "unknown"
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	a := &API{cfg: cfg, log: cfg.Logger, slots: make(chan struct{}, cfg.Concurrent),
		probe: &probe{ping: cfg.Ping}}
	var err error
	if a.guard, err = newGuard(cfg); err != nil {
		return nil, fmt.Errorf("make API: %w", err)
	}
	a.routes = a.table()
	if a.openAPI, err = describe(a.routes, cfg.Version); err != nil {
		return nil, fmt.Errorf("make API: %w", err)
	}
	return a, nil
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	defer func() {
		if p := recover(); p != nil {
			a.log.Error("API panicked", "panic", queue.PanicText(p), "stack",
				string(debug.Stack()))
			a.refuse(w, r, problemf(http.StatusInternalServerError, "internal error, see the log"))
		}
	}()
	if err := a.guard.origin(r); err != nil {
		a.refuse(w, r, err)
		return
	}
	rt, path, err := find(a.routes, r)
	if rt == nil || !rt.open {
		if err := a.guard.token(r); err != nil {
			a.refuse(w, r, err)
			return
		}
	}
	switch {
	case err != nil:
		a.refuse(w, r, err)
	case rt.raw != nil:
		rt.raw(w, r)
	default:
		a.answer(w, r, rt, path)
	}
}

// answer runs a handler of the API and writes what it returns.
func (a *API) answer(w http.ResponseWriter, r *http.Request, rt *route, path map[string]string) {
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	default:
		a.refuse(w, r, problemf(http.StatusServiceUnavailable,
			"%d requests are being worked already, try again", a.cfg.Concurrent))
		return
	}
	query, err := rt.parse(r)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	ctx := r.Context()
	if rt.request != nil { // a change that was begun is ended, also when its caller hangs up
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	c := &call{ctx: ctx, w: w, r: r, route: rt, path: path, query: query}
	out, err := rt.handle(c)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	if c.by.Name != "" {
		log := a.log
		if c.request != "" {
			log = log.With("request", c.request)
		}
		log.Info("changed by a person", "action", c.by.Name, "actor", c.by.Actor,
			"reason", c.by.Reason, "path", r.URL.Path)
	}
	if err := writeJSON(w, http.StatusOK, "application/json", out); err != nil {
		a.log.Error("write an answer of the API", "route", rt.pattern, "error", err)
	}
}

// secure sets what every answer carries: nothing of the operator's listener is cached, framed, read
// by another origin, or taken for something else than it says.
func secure(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
}

// digest makes texts comparable in constant time whatever their length.
func digest(s string) [sha256.Size]byte { return sha256.Sum256([]byte(s)) }
