package oncehttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekit/once/oncehttp"
)

// through serves a proxy before an origin and returns its URL.
func through(t *testing.T, origin string, change func(*oncehttp.ProxyConfig)) string {
	t.Helper()
	u, err := url.Parse(origin)
	if err != nil {
		t.Fatal(err)
	}
	cfg := oncehttp.ProxyConfig{Upstream: u}
	if change != nil {
		change(&cfg)
	}
	p, err := oncehttp.NewProxy(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	t.Cleanup(func() { _ = p.Close() })
	return s.URL
}

func originOf(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// own is a transport whose connections end with the test.
func own(t *testing.T) *http.Transport {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func send(t *testing.T, method, target string, body io.Reader, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, target, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	res, err := own(t).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func readAll(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// keptThenCut is an origin that answers the first request of each connection, keeps it, reads the
// second one ("commits"), and closes without an answer. It counts the requests.
func keptThenCut(t *testing.T) (addr string, seen func(path string) int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var first, second atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				in := bufio.NewReader(c)
				for n := 0; n < 2; n++ {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					if r.URL.Path == "/commit" {
						second.Add(1)
						return
					}
					first.Add(1)
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			}()
		}
	}()
	return "http://" + l.Addr().String(), func(path string) int64 {
		if path == "/commit" {
			return second.Load()
		}
		return first.Load()
	}
}

func TestP01_ARequestIsSentOnceThoughItsConnectionWasKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ method, body, header string }{
		"with a body":         {"POST", `{"a":1}`, "Idempotency-Key"},
		"without a body":      {"POST", "", "Idempotency-Key"},
		"the older header":    {"POST", "", "X-Idempotency-Key"},
		"PATCH":               {"PATCH", "", "Idempotency-Key"},
		"an unguarded method": {"DELETE", "", "Idempotency-Key"},
		"without a key":       {"POST", "", "X-Other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			origin, seen := keptThenCut(t)
			proxy := through(t, origin, nil)
			if got := readAll(t, send(t, "GET", proxy+"/first", nil)); got != "ok" {
				t.Fatalf("first: %q", got)
			}
			res := send(t, c.method, proxy+"/commit", strings.NewReader(c.body), c.header, `"k"`)
			if res.StatusCode != http.StatusBadGateway {
				t.Errorf("status %d, want 502", res.StatusCode)
			}
			if n := seen("/commit"); n != 1 {
				t.Errorf("the origin saw the request %d times, want once", n)
			}
			if got := readAll(t, res); !strings.Contains(got, "urn:once:problem:upstream-lost") {
				t.Errorf("body %s", got)
			}
		})
	}
}

func TestP01_ABodilessRequestKeepsItsFramingAndItsKey(t *testing.T) {
	t.Parallel()
	got := make(chan *http.Request, 1)
	origin := originOf(t, func(_ http.ResponseWriter, r *http.Request) { got <- r })
	proxy := through(t, origin, nil)
	send(t, "POST", proxy+"/", nil, "Idempotency-Key", `"a b"`)
	r := <-got
	if r.ContentLength != 0 || r.TransferEncoding != nil || r.Header.Get("Content-Length") != "0" ||
		r.Header.Get("Idempotency-Key") != `"a b"` {
		t.Errorf("length %d, encoding %v, header %v", r.ContentLength, r.TransferEncoding, r.Header)
	}
}

func TestRequestsAndAnswersGoThroughAsTheyAre(t *testing.T) {
	t.Parallel()
	type seen struct {
		uri, host, body string
		header          http.Header
		length          int64
	}
	got := make(chan seen, 1)
	origin := originOf(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- seen{r.RequestURI, r.Host, string(b), r.Header, r.ContentLength}
		w.Header().Add("Set-Cookie", "s=1; Expires=Mon, 21 Oct 2030 07:28:00 GMT")
		w.Header().Add("Set-Cookie", "t=2")
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusSeeOther)
		_, _ = io.WriteString(w, "\x00\xff")
	})
	proxy := through(t, origin, nil)
	res := send(t, "POST", proxy+"//a%2Fb/%7Ex;y=1?a=1;b=%zz&c", strings.NewReader("\xff\x00{"),
		"Content-Encoding", "gzip", "X-Twice", "1", "X-Twice", "2", "Connection", "X-Drop",
		"X-Drop", "1", "User-Agent", "")
	s := <-got
	if want := "//a%2Fb/%7Ex;y=1?a=1;b=%zz&c"; s.uri != want {
		t.Errorf("the origin saw %s, want %s", s.uri, want)
	}
	if want := strings.TrimPrefix(proxy, "http://"); s.host != want {
		t.Errorf("host %s, want the client's %s", s.host, want)
	}
	if s.body != "\xff\x00{" || s.length != 3 {
		t.Errorf("body %q of %d", s.body, s.length)
	}
	if h := s.header; len(h["X-Twice"]) != 2 || h["X-Drop"] != nil || h["Accept-Encoding"] != nil &&
		h.Get("Accept-Encoding") != "gzip" || h.Get("Content-Encoding") != "gzip" {
		t.Errorf("header %v", h)
	}
	if res.StatusCode != http.StatusSeeOther || len(res.Header["Set-Cookie"]) != 2 ||
		res.Header.Get("Location") != "/elsewhere" || readAll(t, res) != "\x00\xff" {
		t.Errorf("answer %d %v", res.StatusCode, res.Header)
	}
}

func TestS07_ForwardedHeadersCountFromTrustedPeersOnly(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 1)
	origin := originOf(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header })
	spoofed := []string{"X-Forwarded-For", "192.0.2.1", "X-Forwarded-Host", "bank.example",
		"X-Forwarded-Proto", "https", "X-Forwarded-Prefix", "/p", "X-Real-Ip", "192.0.2.1",
		"Forwarded", "for=192.0.2.1"}
	plain := through(t, origin, nil)
	send(t, "GET", plain+"/", nil, spoofed...)
	h := <-got
	if h.Get("X-Forwarded-For") != "127.0.0.1" || h.Get("X-Forwarded-Proto") != "http" ||
		h.Get("X-Forwarded-Host") != strings.TrimPrefix(plain, "http://") ||
		h["X-Forwarded-Prefix"] != nil || h["X-Real-Ip"] != nil || h["Forwarded"] != nil {
		t.Errorf("of a stranger: %v", h)
	}
	behind := through(t, origin, func(c *oncehttp.ProxyConfig) {
		c.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	send(t, "GET", behind+"/", nil, spoofed...)
	h = <-got
	if h.Get("X-Forwarded-For") != "192.0.2.1, 127.0.0.1" ||
		h.Get("X-Forwarded-Proto") != "https" ||
		h.Get("X-Forwarded-Host") != "bank.example" || h.Get("X-Forwarded-Prefix") != "/p" {
		t.Errorf("of a trusted proxy: %v", h)
	}
}

func TestAServiceThatCantBeReachedIsToldFromOneThatDidNotAnswer(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	hang := make(chan struct{})
	slow := originOf(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(hang) })
	cut := originOf(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	for name, c := range map[string]struct {
		origin, problem string
		status          int
	}{
		"nobody listens":            {gone.URL, "upstream-unreachable", 503},
		"an unknown certificate":    {secure.URL, "upstream-unreachable", 503},
		"no answer in time":         {slow, "upstream-timeout", 504},
		"it closes without one":     {cut, "upstream-lost", 502},
		"a name that nobody serves": {"http://nowhere.invalid", "upstream-unreachable", 503},
	} {
		proxy := through(t, c.origin, func(p *oncehttp.ProxyConfig) {
			p.AnswerTimeout = 100 * time.Millisecond
		})
		res := send(t, "POST", proxy+"/", strings.NewReader("x"))
		body := readAll(t, res)
		if res.StatusCode != c.status || !strings.Contains(body, "urn:once:problem:"+c.problem) ||
			res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s, want %d %s", name, res.StatusCode, body, c.status, c.problem)
		}
		if (c.status == 503) != (res.Header.Get("Retry-After") == "1") {
			t.Errorf("%s: Retry-After %q", name, res.Header.Get("Retry-After"))
		}
	}
}

func TestAnAnswerThatBreaksOffIsNotTakenForWhole(t *testing.T) {
	t.Parallel()
	origin := originOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
	})
	u, _ := url.Parse(origin)
	p, err := oncehttp.NewProxy(oncehttp.ProxyConfig{Upstream: u})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	defer func() {
		if got := recover(); got != http.ErrAbortHandler { //nolint:errorlint // it is that value
			t.Errorf("panic %v, want http.ErrAbortHandler", got)
		}
	}()
	p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil))
	t.Error("it was taken for whole")
}

func TestR10_EventsArriveAsTheyAreSent(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	origin := originOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-goOn:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "data: 2\n\n")
	})
	res := send(t, "GET", through(t, origin, nil)+"/", nil)
	in := bufio.NewReader(res.Body)
	// It is here while the origin still waits to send the next one.
	if line, err := in.ReadString('\n'); err != nil || line != "data: 1\n" {
		t.Errorf("%q, %v", line, err)
	}
	close(goOn)
	if rest, _ := io.ReadAll(in); string(rest) != "\ndata: 2\n\n" {
		t.Errorf("the rest is %q", rest)
	}
}

func TestInterimAnswersAndTrailersGoThrough(t *testing.T) {
	t.Parallel()
	trailer := make(chan string, 1)
	origin := originOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		_, _ = io.Copy(io.Discard, r.Body)
		trailer <- r.Trailer.Get("X-Sum")
		w.Header().Set("Trailer", "X-Done")
		_, _ = io.WriteString(w, "body")
		w.Header().Set("X-Done", "yes")
	})
	pr, pw := io.Pipe()
	r, err := http.NewRequest("POST", through(t, origin, nil)+"/", pr)
	if err != nil {
		t.Fatal(err)
	}
	r.Trailer = http.Header{"X-Sum": nil}
	go func() {
		_, _ = io.WriteString(pw, "abc")
		r.Trailer.Set("X-Sum", "42")
		_ = pw.Close()
	}()
	var hints atomic.Int64
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		if code == http.StatusEarlyHints && h.Get("Link") != "" {
			hints.Add(1)
		}
		return nil
	}}
	res, err := own(t).RoundTrip(r.WithContext(
		httptrace.WithClientTrace(t.Context(), trace)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if got := readAll(t, res); got != "body" || res.Trailer.Get("X-Done") != "yes" {
		t.Errorf("answer %q, trailer %v", got, res.Trailer)
	}
	if got := <-trailer; got != "42" || hints.Load() != 1 {
		t.Errorf("the request's trailer is %q, %d early hints", got, hints.Load())
	}
}

func TestExpect100WaitsForTheService(t *testing.T) {
	t.Parallel()
	origin := originOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refused" {
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		if r.URL.Path == "/hasty" {
			w.WriteHeader(http.StatusContinue)
		}
		b, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/twice" {
			w.WriteHeader(http.StatusContinue)
		}
		_, _ = fmt.Fprintf(w, "%d", len(b))
	})
	proxy := through(t, origin, nil)
	for path, want := range map[string]string{
		"/taken":   "HTTP/1.1 100 Continue",
		"/hasty":   "HTTP/1.1 100 Continue",
		"/twice":   "HTTP/1.1 100 Continue",
		"/refused": "HTTP/1.1 417 Expectation Failed",
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(proxy, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n"+
			"Expect: 100-continue\r\n\r\n", path)
		in := bufio.NewReader(c)
		line, err := in.ReadString('\n')
		if err != nil || strings.TrimSpace(line) != want {
			t.Errorf("%s: %q, %v, want %q", path, line, err, want)
		}
		if path != "/refused" {
			_, _ = in.ReadString('\n')
			_, _ = io.WriteString(c, "hello")
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if b, _ := io.ReadAll(res.Body); res.StatusCode != 200 || string(b) != "5" {
				t.Errorf("%s: %s, body %q", path, res.Status, b)
			}
		}
		_ = c.Close()
	}
}

func TestR11_AnUpgradedConnectionGoesThroughBothWays(t *testing.T) {
	t.Parallel()
	origin := originOf(t, func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n" +
			"Connection: Upgrade\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString("echo " + line)
		_ = rw.Flush()
	})
	proxy := through(t, origin, func(c *oncehttp.ProxyConfig) { c.BodyTimeout = time.Second })
	c, err := net.Dial("tcp", strings.TrimPrefix(proxy, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: echo\r\n"+
		"Connection: Upgrade\r\n\r\n")
	in := bufio.NewReader(c)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", res, err)
	}
	_, _ = io.WriteString(c, "hello\n")
	if line, err := in.ReadString('\n'); err != nil || line != "echo hello\n" {
		t.Errorf("%q, %v", line, err)
	}
}

func TestABodyThatStallsIsGivenUp_AndALongAnswerIsNot(t *testing.T) {
	t.Parallel()
	const limit = 200 * time.Millisecond
	origin := originOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/long" {
			select { // longer than the server's read deadline: not a wait for something to happen
			case <-time.After(3 * limit):
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, "done")
	})
	u, _ := url.Parse(origin)
	p, err := oncehttp.NewProxy(oncehttp.ProxyConfig{Upstream: u, BodyTimeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	s := httptest.NewUnstartedServer(p)
	s.Config.ReadTimeout = limit
	s.Start()
	t.Cleanup(s.Close)
	if got := readAll(t, send(t, "GET", s.URL+"/long", nil)); got != "done" {
		t.Errorf("a long answer: %q", got)
	}
	if got := readAll(t, send(t, "POST", s.URL+"/long", strings.NewReader("x"))); got != "done" {
		t.Errorf("a long answer to a body: %q", got)
	}
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || res.StatusCode != http.StatusRequestTimeout {
		t.Errorf("a body that stalls: %v, %v, want 408", res, err)
	}
}

func TestAProxyWithoutAnUpstreamIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "ftp://h", "http://", "/path"} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := oncehttp.NewProxy(oncehttp.ProxyConfig{Upstream: u}); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	if _, err := oncehttp.NewProxy(oncehttp.ProxyConfig{}); err == nil {
		t.Error("none is accepted")
	}
}

func TestTheWorkEndsWithItsContext(t *testing.T) {
	t.Parallel()
	origin := originOf(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then a server sees that its client has left
		<-r.Context().Done()
	})
	u, _ := url.Parse(origin)
	p, err := oncehttp.NewProxy(oncehttp.ProxyConfig{Upstream: u})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("lease"))
	defer cancel()
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest("POST", "/", bytes.NewReader([]byte("x"))).WithContext(ctx))
	if w.Code != http.StatusGatewayTimeout {
		t.Errorf("status %d, want 504", w.Code)
	}
}
