package inbox

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oncekit/once/internal/httpresult"
	"github.com/oncekit/once/queue"
)

// defaultProbe is how long a service that refuses us is left alone.
const defaultProbe = time.Minute

// maxAnswer is how much of an answer is read, in bytes, so that its connection can be used again.
const maxAnswer = 64 << 10

// HTTPConfig says where callbacks are handed to. Only URL is required.
type HTTPConfig struct {
	// URL, absolute, http or https.
	URL string
	// Header is added to each request and takes the place of what the sender gave.
	Header http.Header
	// Drop are headers of the sender that are not handed on.
	Drop []string
	// TLS of the default Transport, for https. Default: the system's authorities.
	TLS *tls.Config
	// Transport sends the requests; default: one of its own. It must not send twice by itself.
	Transport http.RoundTripper
	// RetryCap bounds what Retry-After can ask for. Default 5 min.
	RetryCap time.Duration
	// Probe is how long after 401 and 403 one callback is tried, to see whether the service still
	// refuses us. Default 1 min.
	Probe time.Duration
	// Logger is told when the service begins and ends to refuse us. Default: discards.
	Logger *slog.Logger
}

// HTTPHandler is a Handler that hands callbacks to a service in any language. It POSTs the body as
// it came, with the sender's Content-Type, Content-Encoding and other headers, and adds
// Idempotency-Key (the callback's id in quotes, the same in every attempt), Once-Source, Once-Event
// (percent-encoded where a header needs it), Once-Attempt, traceparent and tracestate. Of a
// message with several elements each is handed over alone, in the message in which the list holds
// only it, without a content encoding; Once-Item is its place in the list as it came, from 0.
//
// 2xx is done. 408, 409, 425, 429 and 5xx but 501 are tried again, after Retry-After if there is
// one. 401 and 403 pause the handler, since it is not the callback that is refused: no tries are
// used up, and one callback is tried after each HTTPConfig.Probe until the service takes it or
// turns it down. Redirects, which are not followed, and everything else are permanent. A request
// that broke off after it was sent is unknown.
type HTTPHandler struct {
	*gated
	cfg    HTTPConfig
	client *http.Client
	drop   map[string]bool
}

var (
	_ Handler  = (*HTTPHandler)(nil)
	_ workOnly = (*HTTPHandler)(nil)
	_ pauser   = (*HTTPHandler)(nil)
)

// NewHTTPHandler returns an HTTPHandler. It does no I/O; it refuses a URL that can't be used.
func NewHTTPHandler(cfg HTTPConfig) (*HTTPHandler, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, errors.New("make HTTP handler: the URL can't be read") // it may hold a password
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, errors.New("make HTTP handler: the URL is not http://HOST or https://HOST")
	}
	setDefault(&cfg.RetryCap, defaultRetryCap)
	setDefault(&cfg.Probe, defaultProbe)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 64, MaxIdleConns: 64,
			IdleConnTimeout: 30 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
			MaxResponseHeaderBytes: MaxHeaderBytes, ForceAttemptHTTP2: true,
			TLSClientConfig: cfg.TLS,
		}
	}
	h := &HTTPHandler{cfg: cfg, drop: make(map[string]bool),
		gated: &gated{other: "service", probe: cfg.Probe, logger: cfg.Logger}}
	h.client = &http.Client{
		Transport: cfg.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	for _, name := range append(notForwarded(), cfg.Drop...) {
		h.drop[textproto.CanonicalMIMEHeaderKey(name)] = true
	}
	return h, nil
}

// notForwarded are the headers that belong to the hop from the sender to us (RFC 9110, section
// 7.6.1), that net/http writes itself, or that are never kept.
func notForwarded() []string {
	return []string{
		"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding",
		"Upgrade", "Proxy-Authenticate", "Proxy-Authorization", "Authorization", "Cookie",
		"Host", "Content-Length", "Accept-Encoding", "Expect",
		"Fence", // ours: a sender has none to give
	}
}

// Work hands the callback over and waits for the answer. While the service refuses us it does
// nothing but for the probes.
func (h *HTTPHandler) Work(ctx context.Context, c Callback) (any, error) {
	return nil, h.try(func() error { return h.post(ctx, c) })
}

func (h *HTTPHandler) post(ctx context.Context, c Callback) error {
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	req, err := h.request(httptrace.WithClientTrace(ctx, trace), c)
	if err != nil {
		return Permanent(err)
	}
	res, err := h.client.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) { // its text holds the URL
			err = wrapped.Err
		}
		err = fmt.Errorf("post callback: %w", err)
		if sent.Load() {
			return Unknown(err)
		}
		return RetryAfter(0, err) // it never left
	}
	queue.Answered(ctx, res.StatusCode)
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer)
	_ = res.Body.Close()
	return h.judge(res)
}

// Commit does nothing.
func (h *HTTPHandler) Commit(context.Context, queue.Tx, Callback, any) error { return nil }

func (h *HTTPHandler) workOnly() {}

// Close closes the connections that no request uses. It is safe to call it twice, and to go on
// using the handler.
func (h *HTTPHandler) Close() error {
	h.client.CloseIdleConnections()
	return nil
}

func (h *HTTPHandler) judge(res *http.Response) error {
	err := &shownError{shown: fmt.Sprintf("service answered %d %s", res.StatusCode,
		http.StatusText(res.StatusCode))}
	switch httpresult.Classify(res.StatusCode) {
	case httpresult.Done:
		return nil
	case httpresult.Transient:
		return RetryAfter(httpresult.RetryAfter(res.Header, time.Now(), h.cfg.RetryCap), err)
	case httpresult.Pause:
		return mark(refused, pausedWait, err)
	}
	return Permanent(err)
}

func (h *HTTPHandler) request(ctx context.Context, c Callback) (*http.Request, error) {
	// Wrapped, the body gives the request no GetBody, also if it is empty: to net/http it can't be
	// replayed. Otherwise it would send a POST with an Idempotency-Key again by itself.
	content := handedOver(&c)
	body := io.NopCloser(bytes.NewReader(content))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.cfg.URL, body)
	if err != nil {
		return nil, errors.New("make request: the URL can't be used")
	}
	req.ContentLength = int64(len(content))
	hop := connectionNames(c.Header)
	for name, values := range c.Header {
		if !h.drop[name] && !hop[name] && !strings.HasPrefix(name, "Once-") {
			req.Header[name] = values
		}
	}
	describeBody(req.Header, &c)
	req.Header.Set("Idempotency-Key", `"`+c.IdempotencyKey()+`"`)
	req.Header.Set("Once-Source", c.Source)
	req.Header.Set("Once-Event", headerText(c.Event))
	req.Header.Set("Once-Attempt", strconv.Itoa(c.Attempt))
	setTrace(req.Header, c)
	for name, values := range h.cfg.Header {
		req.Header[textproto.CanonicalMIMEHeaderKey(name)] = values
	}
	return req, nil
}

// handedOver is the body that a service is sent: the callback's own, or, of a message whose list
// could not be cut down to the element, the element. With the whole message it would work all of
// them, once for each.
func handedOver(c *Callback) []byte {
	if e := c.as.Element; e != nil && e.Whole {
		return e.Value
	}
	return c.Body
}

// describeBody makes the headers say what the body is, also where it is not the one that came, or
// where what the sender said of it is not kept.
func describeBody(h http.Header, c *Callback) {
	whole := c.as.Element != nil && c.as.Element.Whole // the element is handed over
	if whole {
		h.Set("Content-Type", typeJSON)
	}
	if len(h["Content-Type"]) == 0 {
		t := typeJSON
		if c.as.Form {
			t = typeForm
		}
		h.Set("Content-Type", t)
	}
	switch {
	case c.as.Coding != "" && len(h["Content-Encoding"]) == 0 && !whole:
		h.Set("Content-Encoding", c.as.Coding)
	case c.as.Element.cut() || whole: // what was said of the body that came
		for _, name := range []string{
			"Content-Encoding", "Content-Digest", "Digest", "Content-Md5",
		} {
			h.Del(name)
		}
	}
	if c.Item != nil {
		h.Set("Once-Item", strconv.Itoa(c.ItemIndex))
	}
}

// setTrace hands the trace on. Without a valid traceparent a tracestate says nothing (W3C Trace
// Context, section 3.3).
func setTrace(header http.Header, c Callback) {
	header.Del("Traceparent")
	header.Del("Tracestate")
	if c.TraceParent == "" {
		return
	}
	header.Set("Traceparent", c.TraceParent)
	if c.TraceState != "" {
		header.Set("Tracestate", c.TraceState)
	}
}

// connectionNames returns the headers that the sender's Connection header names.
func connectionNames(header http.Header) map[string]bool {
	var names map[string]bool
	for _, line := range header["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if names == nil {
				names = make(map[string]bool)
			}
			names[textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	return names
}

// headerText percent-encodes what can't stand in a header (RFC 9110, section 5.5), and the percent
// sign, so that an event of any characters arrives and can be read back.
func headerText(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c > ' ' && c < 0x7f && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
