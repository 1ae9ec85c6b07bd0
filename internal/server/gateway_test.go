package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/server"
)

// origin is a service that doesn't know of keys. It counts what it really ran.
type origin struct {
	*httptest.Server
	ran atomic.Int64
}

func newOrigin(t *testing.T, h http.HandlerFunc) *origin {
	t.Helper()
	o := &origin{}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.ran.Add(1)
		h(w, r)
	}))
	t.Cleanup(o.Close)
	return o
}

// numbered answers with the number of the run.
func numbered() http.HandlerFunc {
	var run atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"run":%d,"bytes":%d}`, run.Add(1), len(b))
	}
}

// gatewayTo is a file with a gateway alone. The routes are one line each.
func gatewayTo(upstream, settings string, routes ...string) string {
	text := "gateway:\n  upstream: " + upstream + "\n" + settings + "  routes:\n"
	for _, r := range routes {
		text += "    - " + r + "\n"
	}
	return text
}

const byAccount = "  scope: \"header['x-account']\"\n"

func (s *service) pay(path, key, body string, header ...string) answer {
	s.t.Helper()
	a, err := s.payAs(path, key, body, header...)
	if err != nil {
		s.t.Fatalf("POST %s: %v", path, err)
	}
	return a
}

// payAs sends a guarded request to a host that stays the same over restarts.
func (s *service) payAs(path, key, body string, header ...string) (answer, error) {
	req, err := http.NewRequest(http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Host = "api.example"
	header = append([]string{"Idempotency-Key", key, "X-Account", "a1",
		"Content-Type", "application/json"}, header...)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res, err := s.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(b)}, err
}

func wantStatus(t *testing.T, a answer, status int, problem string) {
	t.Helper()
	told := problem == "" || strings.Contains(a.body, "urn:once:problem:"+problem)
	if a.status != status || !told {
		t.Errorf("got %d %s, want %d %s", a.status, a.body, status, problem)
	}
}

func wantReplayOf(t *testing.T, again, first answer) {
	t.Helper()
	if again.status != first.status || again.body != first.body ||
		again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %d %s %v, want the replay of %d %s", again.status, again.body, again.header,
			first.status, first.body)
	}
}

func TestGateway_ARepeatGetsTheFirstAnswerAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, numbered())
	dir := t.TempDir()
	file := gatewayTo(o.URL, byAccount, "{match: POST /payments, key: required, on_unknown: hold}",
		"{match: POST /}")
	s := serve(t, dir, file)
	first := s.pay("/payments", "k1", `{"amount":100}`)
	wantStatus(t, first, 201, "")
	if first.header.Get("Idempotent-Replayed") != "" {
		t.Error("the first answer is called a replay")
	}
	wantReplayOf(t, s.pay("/payments", `"k1"`, `{"amount": 100}`), first)
	wantStatus(t, s.pay("/payments", "k1", `{"amount":200}`), 422, "mismatch")
	wantStatus(t, s.pay("/payments", "", "{}"), 400, "key-missing")
	if a, _ := s.send("POST", s.url+"/payments", "{}", "Idempotency-Key", "k2"); a.status != 401 {
		t.Errorf("without a scope: %d %s", a.status, a.body)
	}
	s.end()
	s = serve(t, dir, file)
	wantReplayOf(t, s.pay("/payments", "k1", `{"amount":100}`), first)
	if n := o.ran.Load(); n != 1 {
		t.Errorf("the origin ran %d times, want once", n)
	}
}

func TestGateway_S01_EachScopeHasItsOwnKeys(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, numbered())
	s := serve(t, t.TempDir(), gatewayTo(o.URL, byAccount, "{match: POST /}"))
	first := s.pay("/p", "k", "{}")
	other, err := s.send("POST", s.url+"/p", "{}", "Idempotency-Key", "k", "X-Account", "a2")
	if err != nil || other.body == first.body || o.ran.Load() != 2 {
		t.Errorf("%v: another account got %s after %s", err, other.body, first.body)
	}
	twice, err := s.send("POST", s.url+"/p", "{}", "Idempotency-Key", "k", "X-Account", "a1",
		"X-Account", "a2")
	if err != nil || twice.status != 401 {
		t.Errorf("two accounts: %d %s, %v", twice.status, twice.body, err)
	}
}

func TestGateway_TheMostSpecificRouteAndTheOriginsPathCount(t *testing.T) {
	t.Parallel()
	paths := make(chan string, 10)
	o := newOrigin(t, func(_ http.ResponseWriter, r *http.Request) { paths <- r.RequestURI })
	s := serve(t, t.TempDir(), gatewayTo(o.URL, "  scope: none\n",
		"{match: POST /, key: optional}",
		"{match: POST /payments, key: required, on_unknown: retry}",
		"{match: POST /free/, key: ignored}"))
	for path, status := range map[string]int{
		"/payments": 400, "//payments": 400, "/%70ayments": 400, "/x/../payments": 400,
		"/payments/": 400, "/payments;a=1": 400, "/payments%2F": 400, "/payments/7": 200, "/x": 200,
		"/free/payments": 200,
	} {
		a := rawPost(t, s.url, path)
		if a != status {
			t.Errorf("POST %s: %d, want %d", path, a, status)
		}
	}
	if a := rawPost(t, s.url, "//a/.//b"); a != 200 {
		t.Errorf("status %d", a)
	}
	for sent := range paths {
		if sent == "/a/b" {
			break
		}
		if len(paths) == 0 {
			t.Error("the origin did not get the path that was compared")
			break
		}
	}
	s.awaitMetrics(
		`once_requests_total{outcome="key-missing",route="POST /payments"} 5`,
		`once_requests_total{outcome="path-ambiguous",route=""} 2`,
		`once_requests_total{outcome="unguarded",route="POST /"} 3`,
		`once_requests_total{outcome="ignored",route="POST /free/"} 1`)
}

// rawPost sends a path as it stands and returns the status.
func rawPost(t *testing.T, url, path string) int {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", path)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("POST %s: %v", path, err)
	}
	return res.StatusCode
}

func TestGateway_H09H10_SafeRequestsPassUnguardedAndAreCounted(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Headers", "idempotency-key")
		_, _ = io.WriteString(w, r.Method)
	})
	s := serve(t, t.TempDir(), gatewayTo(o.URL, "  scope: none\n",
		"{match: POST /, key: required, on_unknown: retry}"))
	for _, method := range []string{"OPTIONS", "GET", "GET", "PUT"} {
		a, err := s.send(method, s.url+"/orders", "", "Idempotency-Key", "k",
			"Access-Control-Request-Headers", "idempotency-key")
		if err != nil || a.status != 200 || a.body != method {
			t.Errorf("%s: %d %s, %v", method, a.status, a.body, err)
		}
	}
	s.awaitMetrics(`once_requests_total{outcome="unmatched",route=""} 4`)
	if n := o.ran.Load(); n != 4 {
		t.Errorf("the origin ran %d times", n)
	}
}

func TestGateway_R14_AClientThatLeavesDoesNotStopTheWork(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan struct{}, 2), make(chan struct{})
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		began <- struct{}{}
		select {
		case <-goOn:
			_, _ = io.WriteString(w, "done")
		case <-r.Context().Done():
		}
	})
	s := serve(t, t.TempDir(), gatewayTo(o.URL, byAccount,
		"{match: POST /, key: required, on_unknown: hold, in_flight: {wait: 20s}}"))
	ctx, leave := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", s.url+"/p", strings.NewReader("{}"))
	req.Host = "api.example"
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "k")
	req.Header.Set("X-Account", "a1")
	go func() {
		<-began
		leave()
	}()
	if res, err := s.client.Do(req); err == nil {
		res.Body.Close()
		t.Fatal("the client did not leave")
	}
	again := make(chan answer, 1)
	go func() { again <- s.pay("/p", "k", "{}") }()
	close(goOn)
	if a := <-again; a.body != "done" || a.header.Get("Idempotent-Replayed") != "true" ||
		o.ran.Load() != 1 {
		t.Errorf("got %d %s %v; the origin ran %d times", a.status, a.body, a.header, o.ran.Load())
	}
}

func TestGateway_P01_AnAnswerThatNeverCameIsHeldAndOneThatWasNeverSentIsFree(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/cut" {
			panic(http.ErrAbortHandler)
		}
	})
	routes := []string{"{match: POST /, key: required, on_unknown: hold, store_errors: always}"}
	s := serve(t, t.TempDir(), gatewayTo(o.URL, byAccount, routes...))
	if a := s.pay("/ok", "k0", "{}"); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	wantStatus(t, s.pay("/cut", "k1", "{}"), 502, "upstream-lost")
	wantStatus(t, s.pay("/cut", "k1", "{}"), 409, "held")
	if n := o.ran.Load(); n != 2 {
		t.Errorf("the origin ran %d times, want twice", n)
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	s = serve(t, t.TempDir(), gatewayTo(gone.URL, byAccount, routes...))
	for range 2 {
		wantStatus(t, s.pay("/p", "k2", "{}"), 503, "upstream-unreachable")
	}
}

func TestGateway_P04_RequestsEndInOrderAndLeasesAreRenewedMeanwhile(t *testing.T) {
	t.Parallel()
	const n = 20
	began, goOn := make(chan struct{}, n), make(chan struct{})
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		began <- struct{}{}
		<-goOn
		_, _ = io.WriteString(w, "done")
	})
	dir := t.TempDir()
	file := gatewayTo(o.URL, byAccount+"  lease: 1s\n",
		"{match: POST /, key: required, on_unknown: hold}")
	s := serve(t, dir, file)
	answers := make(chan answer, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			a, err := s.payAs("/p", fmt.Sprint("k", i), "{}")
			if err != nil {
				t.Error(err)
			}
			answers <- a
		})
	}
	for range n {
		<-began
	}
	ended := make(chan struct{})
	go func() {
		s.end()
		close(ended)
	}()
	time.AfterFunc(2*time.Second, func() { close(goOn) }) // twice the lease
	wg.Wait()
	<-ended
	close(answers)
	for a := range answers {
		if a.status != 200 || a.body != "done" {
			t.Errorf("got %d %s", a.status, a.body)
		}
	}
	s = serve(t, dir, file)
	for i := range n {
		a := s.pay("/p", fmt.Sprint("k", i), "{}")
		if a.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("k%d: %d %s", i, a.status, a.body)
		}
	}
	if ran := o.ran.Load(); ran != n {
		t.Errorf("the origin ran %d times, want %d", ran, n)
	}
}

func TestGateway_P04_WhatDoesNotEndInTimeIsMarked(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 1)
	o := newOrigin(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		began <- struct{}{}
		<-r.Context().Done()
	})
	dir := t.TempDir()
	file := "shutdown: {drain: 200ms}\n" + gatewayTo(o.URL, byAccount,
		"{match: POST /, key: required, on_unknown: hold}")
	s := serve(t, dir, file)
	done := make(chan struct{})
	go func() {
		_, _ = s.payAs("/p", "k", "{}")
		close(done)
	}()
	<-began
	s.end()
	<-done
	s = serve(t, dir, file)
	wantStatus(t, s.pay("/p", "k", "{}"), 409, "held")
	if n := o.ran.Load(); n != 1 {
		t.Errorf("the origin ran %d times", n)
	}
}

// hangs is a store that doesn't answer claims until its context ends.
type hangs struct{ recordStore }

// recordStore is what a guard uses of a store.
type recordStore interface {
	once.Store
	once.Renewer
	once.Resolver
}

func (hangs) Claim(ctx context.Context, _ once.Claim) (once.Grant, error) {
	<-ctx.Done()
	return once.Grant{}, fmt.Errorf("claim: %w: %w", once.ErrUnavailable, ctx.Err())
}

func TestGateway_E06_AStoreThatHangsIs503UnlessTheRouteFailsOpen(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, numbered())
	s := serve(t, t.TempDir(), gatewayTo(o.URL, byAccount+"  lease: 1s\n",
		"{match: POST /closed, key: required, on_unknown: hold}",
		"{match: POST /open, key: required, on_unknown: retry, fail_open: true}"),
		func(opts *server.Options) {
			opts.Records = func(st once.Store) once.Store { return hangs{st.(recordStore)} }
		})
	a := s.pay("/closed", "k", "{}")
	wantStatus(t, a, 503, "store-unavailable")
	if a.header.Get("Retry-After") != "1" || o.ran.Load() != 0 {
		t.Errorf("Retry-After %q; the origin ran %d times", a.header.Get("Retry-After"),
			o.ran.Load())
	}
	for i := range 2 {
		a := s.pay("/open", "k", "{}")
		if a.status != 201 || a.header.Get("Idempotency-Guarded") != "false" ||
			o.ran.Load() != int64(i+1) || !strings.Contains(a.body, `"bytes":2`) {
			t.Errorf("fails open: %d %s %v", a.status, a.body, a.header)
		}
	}
	s.awaitMetrics(`once_requests_total{outcome="fail-open",route="POST /open"} 2`)
}

func TestGateway_AnInboxInTheSameFileKeepsItsOwnPaths(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, numbered())
	s := serve(t, t.TempDir(), flowOf("go: {from: [a], to: z}")+
		gatewayTo(o.URL, "  scope: none\n", "{match: POST /}"))
	if a := s.pay("/in/none", "k", "{}"); a.status != 404 || o.ran.Load() != 0 {
		t.Errorf("a source that isn't there: %d %s", a.status, a.body)
	}
	if a := s.pay("/inside", "k", "{}"); a.status != 201 {
		t.Errorf("beside the inbox: %d %s", a.status, a.body)
	}
}

func TestGateway_TheServiceKnowsTheFenceAndNobodyElseSaysIt(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 3)
	o := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	s := serve(t, t.TempDir(), gatewayTo(o.URL, byAccount, "{match: POST /}"))
	s.pay("/p", "k", "{}", "Idempotency-Fence", "99")
	s.pay("/p", "k", "{}")
	s.pay("/p", "", "{}", "Idempotency-Fence", "99")
	first, second, unguarded := <-got, <-got, <-got
	if a, b := first.Get("Idempotency-Fence"), second.Get("Idempotency-Fence"); len(a) != len(b) ||
		a >= b || second.Get("Idempotency-Attempt") != "2" {
		t.Errorf("fences %s and %s, attempt %s", a, b, second.Get("Idempotency-Attempt"))
	}
	if f := unguarded["Idempotency-Fence"]; f != nil {
		t.Errorf("a client's own fence reached the service: %v", f)
	}
}
