package outbox

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/oncekit/once/queue"
)

// HTTPConfig configures an HTTP sender. Only URL is required.
type HTTPConfig struct {
	// URL that messages are sent to, http or https, without login. A message's path is appended.
	URL string
	// Method where the message names none. Default POST.
	Method string
	// Header is set on each request. Default: none.
	Header map[string]string
	// Bearer is the token of an Authorization header. Default: none.
	Bearer string
	// User and Password are the login of an Authorization header of type Basic. Default: none.
	User, Password string
	// TLS for https. Default: the system's authorities.
	TLS *tls.Config
	// DialTimeout bounds connecting, TLS included. Default 5s.
	DialTimeout time.Duration
	// MaxRetryAfter is the longest wait that the destination may ask for. Default 5m.
	MaxRetryAfter time.Duration
	// MaxConns bounds the connections. Default 64.
	MaxConns int
	// Now is the clock that dates in Retry-After are compared with. Default time.Now.
	Now func() time.Time
}

// Bounds of what is read of a response.
const (
	maxResponseHeader = 64 << 10
	errorTextBytes    = 4 << 10 // read to be shown
	errorTextChars    = 200     // shown
	drainBytes        = 64 << 10
	drainWait         = time.Second // then the connection is given up instead of reused
)

// HTTP is a Sender that makes one HTTP/1.1 request a try. The message's id goes out as
// Idempotency-Key, a quoted String of RFC 9651 section 3.3.3 as
// draft-ietf-httpapi-idempotency-key-header wants it. Redirects are not followed, proxies of the
// environment not used. Safe for concurrent use.
type HTTP struct {
	cfg    HTTPConfig
	base   *url.URL
	header http.Header
	// reuse keeps connections; once makes one a request.
	reuse, once *http.Transport
}

// NewHTTP checks the configuration; it connects to nothing.
func NewHTTP(cfg HTTPConfig) (*HTTP, error) {
	base, err := url.Parse(cfg.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("parse url: %w", err)
	case base.Scheme != "http" && base.Scheme != "https", base.Host == "":
		return nil, fmt.Errorf("parse url: %q is no http or https URL", base.Redacted())
	case base.User != nil:
		return nil, errors.New("parse url: the login doesn't belong into the URL")
	case base.Fragment != "":
		return nil, errors.New("parse url: a fragment is never sent")
	case cfg.Bearer != "" && cfg.User != "":
		return nil, errors.New("configure login: either a bearer token or a user")
	}
	if cfg.Method == "" {
		cfg.Method = http.MethodPost
	}
	if !sendableMethod(cfg.Method) {
		return nil, fmt.Errorf("configure method: %q can't be used", cfg.Method)
	}
	if cfg.DialTimeout <= 0 {
		cfg.DialTimeout = 5 * time.Second
	}
	if cfg.MaxRetryAfter <= 0 {
		cfg.MaxRetryAfter = 5 * time.Minute
	}
	if cfg.MaxConns <= 0 {
		cfg.MaxConns = 64
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	h := &HTTP{cfg: cfg, base: base, header: http.Header{"User-Agent": {"once"}}}
	if err := setHeaders(h.header, cfg.Header); err != nil {
		return nil, fmt.Errorf("configure header: %w", err)
	}
	if err := h.setLogin(); err != nil {
		return nil, err
	}
	h.reuse, h.once = newTransport(cfg), newTransport(cfg)
	h.once.DisableKeepAlives = true
	return h, nil
}

func (h *HTTP) setLogin() error {
	switch {
	case h.cfg.Bearer != "":
		h.header.Set("Authorization", "Bearer "+h.cfg.Bearer)
	case h.cfg.User != "":
		r := http.Request{Header: h.header}
		r.SetBasicAuth(h.cfg.User, h.cfg.Password)
	}
	if !validValue(h.header.Get("Authorization")) {
		return errors.New("configure login: it holds a character that no header can carry")
	}
	return nil
}

// Close closes the idle connections.
func (h *HTTP) Close() error {
	h.reuse.CloseIdleConnections()
	h.once.CloseIdleConnections()
	return nil
}

// Send makes one request. Its failures are *Failure: what the response's status says, or, without
// a response, Transient if no byte of the request was handed to the network and Unknown if one
// was.
func (h *HTTP) Send(ctx context.Context, m Message) error {
	if f := h.try(ctx, m); f != nil {
		return f
	}
	return nil
}

func (h *HTTP) try(ctx context.Context, m Message) *Failure {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sent := new(sentTrace)
	req, f := h.request(httptrace.WithClientTrace(ctx, sent.trace()), m)
	if f != nil {
		return f
	}
	transport := h.reuse
	if len(m.Payload) == 0 {
		transport = h.once
	}
	resp, err := transport.RoundTrip(req)
	switch {
	case err != nil && sent.any():
		return failf(Unknown, "send request: no response: %w", err)
	case err != nil:
		return failf(Transient, "send request: %w", err)
	}
	defer resp.Body.Close()
	queue.Answered(ctx, resp.StatusCode)
	text := ""
	stop := time.AfterFunc(drainWait, cancel)
	defer stop.Stop()
	if resp.StatusCode >= 300 {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, errorTextBytes))
		text = printable(string(b), errorTextChars)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, drainBytes))
	return h.classify(resp, text)
}

// request builds the request. Its body is never nil-or-replayable: net/http sends a POST a second
// time by itself when Idempotency-Key is set, the connection was reused, and the body can be had
// again. A body without GetBody prevents it; a request without a body goes over a connection of
// its own, because an empty body that isn't nil would be sent as chunks.
func (h *HTTP) request(ctx context.Context, m Message) (*http.Request, *Failure) {
	u, err := h.url(m.Meta.Path)
	if err != nil {
		return nil, failf(Permanent, "build request: %w", err)
	}
	method := h.cfg.Method
	if m.Meta.Method != "" {
		method = m.Meta.Method
	}
	if !sendableMethod(method) {
		return nil, failf(Permanent, "build request: method %q can't be used", method)
	}
	key, err := quoteString(m.ID)
	if err != nil {
		return nil, failf(Permanent, "build request: id: %w", err)
	}
	header := h.header.Clone()
	if err := setHeaders(header, m.Meta.Header); err != nil {
		return nil, failf(Permanent, "build request: %w", err)
	}
	own := map[string]string{"Content-Type": m.contentType(), "Traceparent": m.TraceParent}
	if m.TraceParent != "" { // one says nothing without the other (W3C Trace Context, 3.3)
		own["Tracestate"] = m.TraceState
	}
	if m.Fence != 0 {
		own["Fence"] = strconv.FormatInt(m.Fence, 10)
	}
	for name, value := range own {
		if !validValue(value) {
			return nil, failf(Permanent, "build request: %s can't be a header", name)
		}
		guessed := name == "Content-Type" && m.Meta.ContentType == ""
		if value != "" && (!guessed || header[name] == nil) {
			header.Set(name, value)
		}
	}
	header.Set("Idempotency-Key", key)
	if auth := h.header["Authorization"]; auth != nil {
		header["Authorization"] = auth
	}
	req := &http.Request{Method: method, URL: u, Host: u.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if len(m.Payload) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(m.Payload))
		req.ContentLength = int64(len(m.Payload))
	}
	return req.WithContext(ctx), nil
}

// url appends a message's path, which may have a query, to the destination's URL. It can't lead to
// another host nor above the URL's own path.
func (h *HTTP) url(path string) (*url.URL, error) {
	u := *h.base
	if path == "" {
		return &u, nil
	}
	if path[0] != '/' && path[0] != '?' {
		path = "/" + path
	}
	ref, err := url.Parse(path)
	if err != nil {
		return nil, fmt.Errorf("parse path: %w", err)
	}
	if ref.Host != "" || ref.Scheme != "" || ref.User != nil || ref.Fragment != "" {
		return nil, fmt.Errorf("parse path: %q is more than a path and a query", path)
	}
	for segment := range strings.SplitSeq(ref.Path, "/") {
		if segment == "." || segment == ".." {
			return nil, fmt.Errorf("parse path: %q has a dot segment", path)
		}
	}
	if ref.Path != "" {
		u.RawPath = strings.TrimSuffix(u.EscapedPath(), "/") + ref.EscapedPath()
		u.Path = strings.TrimSuffix(u.Path, "/") + ref.Path
	}
	if ref.RawQuery != "" {
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+ref.RawQuery, "&")
	}
	return &u, nil
}
