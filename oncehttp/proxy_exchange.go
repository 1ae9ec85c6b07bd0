package oncehttp

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// exchange is what is known of a request that is being handed on.
type exchange struct {
	// connected: a connection was there, so that something may have been sent.
	connected atomic.Bool
	// requestBroke: the client's body could not be read to its end.
	requestBroke atomic.Pointer[error]
	// answerBroke: the service's answer ended before its end. Read by who copies it.
	answerBroke error
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// roundTripper notes whether a request got a connection.
type roundTripper struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r.Context())
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		x.connected.Store(true)
	}}
	return t.base.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
}

// watchAnswer notes where the service's answer ends too early.
func watchAnswer(res *http.Response) error {
	res.Header.Del(HeaderGuarded) // only the middleware says that
	if res.StatusCode != http.StatusSwitchingProtocols {
		res.Body = &answerBody{ReadCloser: res.Body, x: exchangeOf(res.Request.Context())}
	}
	return nil
}

type answerBody struct {
	io.ReadCloser
	x *exchange
}

// Read implements io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.x.answerBroke = err
	}
	return n, err
}

// failed answers for a service that didn't.
func (p *Proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r.Context())
	broke := x.requestBroke.Load()
	var timeout net.Error
	log := func(what string) {
		attrs := []slog.Attr{slog.String("method", r.Method),
			slog.String("upstream", p.cfg.Upstream.Host), slog.String("error", err.Error())}
		if grant, guarded := Grant(r.Context()); guarded {
			attrs = append(attrs, slog.String("record", hex.EncodeToString(grant.Identity[:])))
		}
		p.cfg.Logger.LogAttrs(r.Context(), slog.LevelWarn, what, attrs...)
	}
	switch {
	case broke != nil && errors.Is(*broke, os.ErrDeadlineExceeded):
		settleAs(w, Ambiguous)
		p.refuse(w, ProblemBodyTimeout, http.StatusRequestTimeout, "The body did not come in time",
			"No further piece of the body came in time.")
	case broke != nil:
		settleAs(w, Ambiguous)
		p.refuse(w, ProblemBodyBroken, http.StatusBadRequest, "The body can't be read",
			"It ended early.")
	case !x.connected.Load():
		log("the upstream can't be reached")
		settleAs(w, Free)
		w.Header().Set("Retry-After", "1")
		p.refuse(w, ProblemUnreachable, http.StatusServiceUnavailable,
			"The service can't be reached", "Nothing was sent to it. Send the request again later.")
	case r.Context().Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		log("no answer of the upstream in time")
		settleAs(w, Ambiguous)
		p.refuse(w, ProblemUpstreamTimeout, http.StatusGatewayTimeout,
			"The service did not answer in time", mayHaveHappened)
	default:
		log("no answer of the upstream")
		settleAs(w, Ambiguous)
		p.refuse(w, ProblemUpstreamLost, http.StatusBadGateway,
			"The service's answer did not come", mayHaveHappened)
	}
}

const mayHaveHappened = "The request was sent, and may have had its effect."

// refuse answers for the service.
func (p *Proxy) refuse(w http.ResponseWriter, name string, status int, title, detail string) {
	told := problem(name, status, title)
	told.Detail = detail
	told.write(w, p.cfg.Docs)
}

// setBodyDeadline gives each piece of the body a deadline of its own, and none to what follows: a
// server's read deadline would end the request while its answer is still on the way.
func setBodyDeadline(w http.ResponseWriter, r *http.Request, x *exchange, limit time.Duration) {
	c := http.NewResponseController(w)
	if r.Body == nil || r.Body == http.NoBody {
		_ = c.SetReadDeadline(time.Time{}) // where there is none to set, none runs
		return
	}
	r.Body = &requestBody{ReadCloser: r.Body, c: c, x: x, limit: limit}
}

type requestBody struct {
	io.ReadCloser
	c     *http.ResponseController
	x     *exchange
	limit time.Duration
	set   time.Time // when the deadline was set last
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	if now := time.Now(); now.Sub(b.set) > b.limit/8 { // not for each piece
		_ = b.c.SetReadDeadline(now.Add(b.limit))
		b.set = now
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == io.EOF:
		_ = b.c.SetReadDeadline(time.Time{})
	case err != nil:
		b.x.requestBroke.Store(&err)
	}
	return n, err
}

// copyBuffers are kept between copies.
type copyBuffers struct{ pool sync.Pool }

func newBuffers() *copyBuffers {
	return &copyBuffers{sync.Pool{New: func() any {
		b := make([]byte, copyStep)
		return &b
	}}}
}

// Get implements httputil.BufferPool.
func (b *copyBuffers) Get() []byte { return *b.pool.Get().(*[]byte) }

// Put implements httputil.BufferPool.
func (b *copyBuffers) Put(p []byte) { b.pool.Put(&p) }

// toldOnce is the writer of a request whose client waits for "100 Continue". The server says it by
// itself when the body is first read, which is when the service has said it or was not waited for
// any longer. ReverseProxy hands the service's on too, before or after that: a client that expects
// one line before the answer would take the second one for the answer (RFC 9110, 10.1.1).
type toldOnce struct{ http.ResponseWriter }

// Unwrap serves http.ResponseController.
func (w *toldOnce) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *toldOnce) WriteHeader(status int) {
	if status != http.StatusContinue {
		w.ResponseWriter.WriteHeader(status)
	}
}
