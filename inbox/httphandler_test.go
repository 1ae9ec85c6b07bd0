package inbox_test

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/queue"
)

func httpHandler(t *testing.T, cfg inbox.HTTPConfig) inbox.HandlerConfig {
	t.Helper()
	h, err := inbox.NewHTTPHandler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return inbox.HandlerConfig{Handler: h, HoldUnknown: true, Timeout: 10 * time.Second}
}

func TestHTTPHandler_HandsTheCallbackOver(t *testing.T) {
	var got *http.Request
	var body string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got, body = r, string(b)
		w.WriteHeader(202)
	}))
	defer srv.Close()
	r := row(2)
	r.Event, r.TraceParent, r.TraceState = "finish ü%", "00-parent", "a=1"
	r.Meta = []byte(`{"method":"POST","path":"/in/rcs","query":"a=1","header":{` +
		`"Content-Type":["application/json; charset=utf-8"],"X-Sig":["s1","s2"],` +
		`"X-Latin":[{"base64":"6Q=="}],"Connection":["keep-alive, x-hop"],"X-Hop":["1"],` +
		`"Keep-Alive":["1"],"Te":["x"],"Upgrade":["h2c"],"Transfer-Encoding":["chunked"],` +
		`"Content-Length":["3"],"Host":["evil"],"Expect":["100-continue"],` +
		`"X-Own":["theirs"],"X-Drop":["1"],"Once-Attempt":["99"],"Once-Other":["1"],` +
		`"Idempotency-Key":["\"theirs\""],"Traceparent":["theirs"],"Tracestate":["theirs"],` +
		`"User-Agent":["rcs/1"]},` +
		`"digest":{"Authorization":["hmac:00"]}}`)
	cfg := httpHandler(t, inbox.HTTPConfig{
		URL: srv.URL + "/work?x=1", Drop: []string{"x-drop"},
		Header: http.Header{"x-own": {"ours"}, "Authorization": {"Bearer ours"}},
	})
	s := inbox.Attempt(t.Context(), cfg, r)
	if s.State != queue.Done || s.Commit != nil {
		t.Fatalf("settlement %+v", s)
	}
	want := map[string]string{
		"Content-Type": "application/json; charset=utf-8", "X-Sig": "s1|s2", "X-Latin": "\xe9",
		"X-Own": "ours", "Authorization": "Bearer ours", "Once-Attempt": "2",
		"Once-Source": "rcs", "Once-Event": "finish%20%C3%BC%25", "Traceparent": "00-parent",
		"Tracestate":      "a=1",
		"Idempotency-Key": `"04000000000000000000000000"`, "User-Agent": "rcs/1",
		"Content-Length": "25", "Accept-Encoding": "gzip",
	}
	for name, values := range got.Header {
		if text := strings.Join(values, "|"); text != want[name] {
			t.Errorf("header %s: %q, want %q", name, text, want[name])
		}
		delete(want, name)
	}
	if len(want) != 0 || got.Method != "POST" || got.URL.String() != "/work?x=1" ||
		body != string(row(1).Body) || !strings.HasPrefix(got.Host, "127.0.0.1") {
		t.Errorf("missing %v; %s %s %q for %s", want, got.Method, got.URL, body, got.Host)
	}
}

func TestHTTPHandler_HandsOnNoTracestateWithoutAValidTraceparent(t *testing.T) {
	sink := testserver.NewHTTPSink(t)
	r := row(1)
	r.TraceParent = ""
	r.Meta = []byte(`{"header":{"Traceparent":["nonsense"],"Tracestate":["theirs"]}}`)
	cfg := httpHandler(t, inbox.HTTPConfig{URL: sink.URL()})
	if s := inbox.Attempt(t.Context(), cfg, r); s.State != queue.Done {
		t.Fatalf("settlement %+v", s)
	}
	h := sink.Requests()[0].Header
	if h["Traceparent"] != nil || h["Tracestate"] != nil {
		t.Errorf("handed on: %v %v", h["Traceparent"], h["Tracestate"])
	}
}

func TestHTTPHandler_FollowsTheTable(t *testing.T) {
	var status atomic.Int64
	var hits atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		w.Header().Set("Location", "/elsewhere")
		if status.Load() == 429 {
			w.Header().Set("Retry-After", "7")
		}
		if status.Load() == 503 {
			w.Header().Set("Retry-After", "86400")
		}
		w.WriteHeader(int(status.Load()))
	}))
	defer srv.Close()
	for code, want := range map[int]struct {
		state queue.State
		wait  time.Duration // 0: any backoff
	}{
		200: {queue.Done, 0}, 204: {queue.Done, 0}, 302: {queue.Dead, 0}, 307: {queue.Dead, 0},
		400: {queue.Dead, 0}, 401: {queue.Pending, time.Second}, 403: {queue.Pending, time.Second},
		404: {queue.Dead, 0}, 409: {queue.Pending, 0}, 429: {queue.Pending, 7 * time.Second},
		500: {queue.Pending, 0}, 501: {queue.Dead, 0}, 503: {queue.Pending, time.Minute},
	} {
		status.Store(int64(code))
		hits.Store(0)
		cfg := httpHandler(t, inbox.HTTPConfig{URL: srv.URL, RetryCap: time.Minute})
		s := inbox.Attempt(t.Context(), cfg, row(1))
		if refused := code == 401 || code == 403; s.NotTried != refused {
			t.Errorf("%d: not tried: %v", code, s.NotTried)
		}
		late := s.RetryIn - want.wait // what was asked for is spread over a quarter more
		if s.State != want.state || want.wait != 0 && (late < 0 || late > want.wait/4) ||
			hits.Load() != 1 {
			t.Errorf("%d: %+v, %d requests", code, s, hits.Load())
		}
	}
}

func TestD12_ARefusalOfUsDoesNotUseUpTheTriesOfACallback(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer srv.Close()
	cfg := httpHandler(t, inbox.HTTPConfig{URL: srv.URL})
	cfg.Retry.Attempts = 3
	s := inbox.Attempt(t.Context(), cfg, row(3))
	if s.State != queue.Pending || !s.NotTried || s.RetryIn <= 0 || s.Error == "" {
		t.Errorf("the last try, refused: %+v", s)
	}
}

// answers is a Transport that answers with its status and counts, without a network.
type answers struct{ status, sent int }

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	a.sent++
	if a.status == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{StatusCode: a.status, Body: http.NoBody}, nil
}

func TestD12_AServiceThatRefusesUsIsProbedUntilItDoesNot(t *testing.T) {
	for _, last := range []int{204, 404} { // what is turned down got past the login as well
		synctest.Test(t, func(t *testing.T) {
			service, log := &answers{status: 401}, &bytes.Buffer{}
			h, err := inbox.NewHTTPHandler(inbox.HTTPConfig{URL: "http://service", Probe: time.Hour,
				Transport: service, Logger: slog.New(slog.NewTextHandler(log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			cfg := inbox.HandlerConfig{Handler: h, Concurrency: 8}
			w := inbox.NewWorker("http/pay", cfg)
			check := func(when string, limit, sent int) {
				t.Helper()
				if got := min(w.Limit(), 8); got != limit || service.sent != sent {
					t.Errorf("%s: %d may be in hand after %d requests, want %d after %d", when, got,
						service.sent, limit, sent)
				}
			}
			check("at the start", 8, 0)
			w.Attempt(t.Context(), row(1))
			<-w.Changed
			check("refused", 0, 1)
			if s := w.Attempt(t.Context(), row(1)); !s.NotTried ||
				s.Error != "paused: service answered 401 Unauthorized" {
				t.Errorf("while it is paused: %+v", s)
			}
			for i, status := range []int{403, 503, 0} { // none says that it takes us again
				<-w.Changed // the probe is due
				service.status = status
				check("probed", 1, 1+i)
				w.Attempt(t.Context(), row(1))
				<-w.Changed
				check("after a probe", 0, 2+i)
			}
			p, paused := h.Paused()
			if !paused || time.Since(p.Since) != 3*time.Hour ||
				p.Reason != "service answered 403 Forbidden" {
				t.Errorf("paused %v: %+v", paused, p)
			}
			<-w.Changed
			service.status = last
			w.Attempt(t.Context(), row(1))
			check("taken again", 8, 5)
			text := log.String()
			if strings.Count(text, `level=ERROR msg="service paused"`) != 1 ||
				strings.Count(text, `level=INFO msg="service resumed"`) != 1 ||
				strings.Count(text, "\n") != 2 {
				t.Errorf("want one line for the begin and one for the end:\n%s", text)
			}
		})
	}
}

func TestHTTPHandler_RefusedConnectionIsNotUnknown(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	cfg := httpHandler(t, inbox.HTTPConfig{URL: "http://user:secret@" + ln.Addr().String()})
	s := inbox.Attempt(t.Context(), cfg, row(1))
	if s.State != queue.Pending || s.RetryIn <= 0 || strings.Contains(s.Error, "secret") {
		t.Errorf("settlement %+v", s)
	}
}

func TestHTTPHandler_TimeoutAfterSendingIsUnknown(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		<-release
	}))
	defer srv.Close()
	defer close(release)
	cfg := httpHandler(t, inbox.HTTPConfig{URL: srv.URL})
	cfg.Timeout = 50 * time.Millisecond
	if s := inbox.Attempt(t.Context(), cfg, row(1)); s.State != queue.Held {
		t.Errorf("settlement %+v", s)
	}
}

// A service that takes the second request of a kept-alive connection and closes without an answer.
func TestP01_RequestIsSentOncePerAttempt(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var seen atomic.Int64
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				first, buf := true, bufio.NewReader(conn)
				for {
					req, err := http.ReadRequest(buf)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					seen.Add(1)
					if !first {
						return
					}
					first = false
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			}()
		}
	}()
	for name, body := range map[string]string{"body": "{}", "empty body": ""} {
		seen.Store(0)
		cfg := httpHandler(t, inbox.HTTPConfig{URL: "http://" + ln.Addr().String()})
		r := row(1)
		r.Body = []byte(body)
		if s := inbox.Attempt(t.Context(), cfg, r); s.State != queue.Done {
			t.Fatalf("%s: first settlement %+v", name, s)
		}
		if s := inbox.Attempt(t.Context(), cfg, r); s.State != queue.Held || seen.Load() != 2 {
			t.Errorf("%s: second settlement %+v, %d requests seen", name, s, seen.Load())
		}
	}
}

func TestNewHTTPHandler_RefusesOtherURLs(t *testing.T) {
	for _, u := range []string{"", "/x", "ftp://h", "http://", "http://u:secret@h:port/", "h:80"} {
		_, err := inbox.NewHTTPHandler(inbox.HTTPConfig{URL: u})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", u, err)
		}
	}
}
