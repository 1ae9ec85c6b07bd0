package oncehttp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// ProxyConfig says how requests are handed on. Upstream is required; the zero value of the other
// fields works.
type ProxyConfig struct {
	// Upstream is the service: an http or https URL. A path in it is put before that of each
	// request.
	Upstream *url.URL
	// Host says what stands in the Host header. Default HostKeep for http, HostUpstream for https.
	Host HostRule
	// TLS of an https upstream. Default: the system's authorities.
	TLS *tls.Config
	// Trusted are the networks of proxies before this one. Only their X-Forwarded-* headers are
	// handed on; everybody else's are dropped. Default: none.
	Trusted []netip.Prefix
	// DialTimeout bounds the making of a connection, TLS included. Default 5s.
	DialTimeout time.Duration
	// AnswerTimeout bounds the time from the end of a request to the header of its answer. Default
	// 1m.
	AnswerTimeout time.Duration
	// IdleTimeout is how long a connection is kept unused. It should be shorter than the service's,
	// or a request is sent on a connection that is being closed, and nobody can know whether it was
	// read. Default 1.5s, less than those of the usual servers (the shortest are 2s and 5s).
	IdleTimeout time.Duration
	// BodyTimeout bounds the time between two pieces of a request's body, and replaces the read
	// deadline of the server. Default 0: the server's deadline holds, also for the whole answer.
	BodyTimeout time.Duration
	// MaxIdle bounds the connections that are kept unused. Default 1024.
	MaxIdle int
	// Docs is the URL of a page about this API's keys: the link of a problem. Default: none.
	Docs string
	// Logger gets the failures of the service. Default: discards.
	Logger *slog.Logger
}

// HostRule says what stands in the Host header of a request that is handed on.
type HostRule string

// The rules.
const (
	// HostKeep: what the client wrote, so that the service makes URLs that the client can use.
	HostKeep HostRule = "keep"
	// HostUpstream: the host of the upstream's URL.
	HostUpstream HostRule = "upstream"
)

const (
	defaultDialTimeout   = 5 * time.Second
	defaultAnswerTimeout = time.Minute
	defaultIdleTimeout   = 1500 * time.Millisecond
	defaultMaxIdle       = 1024

	// maxAnswerHeaders bounds the headers of an answer, in bytes.
	maxAnswerHeaders = 1 << 20
	// continueTimeout is how long the service is waited for with a body whose client expects 100.
	continueTimeout = time.Second
)

// Proxy hands requests on to a service and its answers back. It streams both ways, and hands on
// interim answers, trailers and upgrades (WebSocket). It is an http.Handler, safe for concurrent
// use, and follows no redirect and makes none. An upgrade to HTTP/2 or TLS is not handed on: what
// is sent over it would reach the service past this proxy.
//
// Each request is sent once. Go's transport would send a request that bears an idempotency key
// again by itself, which is an attempt that nobody counts.
//
// Under a [Middleware] an answer that never came is a lost attempt (502, or 504 after a timeout). A
// connection that was never made is known to have had no effect (503), and the key is free. An
// answer that breaks off ends in a panic of http.ErrAbortHandler, as with httputil.ReverseProxy:
// its client must not take it for whole.
type Proxy struct {
	cfg   ProxyConfig
	proxy *httputil.ReverseProxy
	base  *http.Transport
}

// NewProxy makes a proxy. It does no I/O.
func NewProxy(cfg ProxyConfig) (*Proxy, error) {
	u := cfg.Upstream
	if u == nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("new proxy: Upstream has to be an http or https URL with a host")
	}
	switch cfg.Host {
	case HostKeep, HostUpstream:
	case "":
		cfg.Host = HostKeep
		if u.Scheme == "https" {
			cfg.Host = HostUpstream
		}
	default:
		return nil, fmt.Errorf("new proxy: Host is %q, want %q or %q", cfg.Host, HostKeep,
			HostUpstream)
	}
	setDefault(&cfg.DialTimeout, defaultDialTimeout)
	setDefault(&cfg.AnswerTimeout, defaultAnswerTimeout)
	setDefault(&cfg.IdleTimeout, defaultIdleTimeout)
	setDefault(&cfg.MaxIdle, defaultMaxIdle)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	dialer := &net.Dialer{Timeout: cfg.DialTimeout}
	p := &Proxy{cfg: cfg, base: &http.Transport{
		Proxy:                  nil, // the environment has no say in how the service is reached
		DialContext:            dialer.DialContext,
		TLSClientConfig:        cfg.TLS,
		TLSHandshakeTimeout:    cfg.DialTimeout,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // bytes go through as they are
		MaxIdleConns:           cfg.MaxIdle,
		MaxIdleConnsPerHost:    cfg.MaxIdle,
		IdleConnTimeout:        cfg.IdleTimeout,
		ResponseHeaderTimeout:  cfg.AnswerTimeout,
		ExpectContinueTimeout:  continueTimeout,
		MaxResponseHeaderBytes: maxAnswerHeaders,
	}}
	p.proxy = &httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: roundTripper{p.base}, FlushInterval: -1,
		BufferPool: newBuffers(), ModifyResponse: watchAnswer, ErrorHandler: p.failed,
		ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	return p, nil
}

// Close drops the connections that are kept unused. It is safe twice.
func (p *Proxy) Close() error {
	p.base.CloseIdleConnections()
	return nil
}

// ServeHTTP hands a request on.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect || r.URL.Opaque != "" ||
		!strings.HasPrefix(r.URL.Path, "/") {
		p.refuse(w, ProblemNotProxied, http.StatusBadRequest, "The request can't be handed on",
			"Only requests for a path are handed on.")
		return
	}
	x := &exchange{}
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	if p.cfg.BodyTimeout > 0 {
		setBodyDeadline(w, r, x, p.cfg.BodyTimeout)
	}
	if rec := recorderOf(w); rec != nil {
		w = &unflushed{w}
	}
	if r.Header.Get("Expect") != "" {
		w = &toldOnce{w}
	}
	p.proxy.ServeHTTP(w, r)
	if x.answerBroke != nil { // ReverseProxy panics by itself only under a server of net/http
		panic(http.ErrAbortHandler)
	}
}

// rewrite makes the request that the service gets.
func (p *Proxy) rewrite(pr *httputil.ProxyRequest) {
	in, out := pr.In, pr.Out
	out.URL.RawQuery = in.URL.RawQuery // as it came, also where it can't be parsed
	pr.SetURL(p.cfg.Upstream)
	out.Host = in.Host
	if p.cfg.Host == HostUpstream {
		out.Host = ""
	}
	if _, guarded := Grant(in.Context()); guarded {
		delete(out.Header, "Expect") // its body is here, and its client was told to go on
	}
	dropTunnels(out.Header)
	dropLookalikes(out.Header)
	p.forwarded(pr)
	// What a client sends after its body goes into this map while it is read.
	out.Trailer = in.Trailer
	sendOnce(out)
}
