package oncehttp_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncehttp"
	"github.com/oncekit/once/oncemem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test; nothing needs a tenth of it.
const patience = 20 * time.Second

// faultyStore is a store in memory whose steps a test can hold up, refuse or watch.
type faultyStore struct {
	*oncemem.Store

	mu       sync.Mutex
	claim    func(context.Context, once.Claim) error   // before the claim
	complete func(context.Context, once.Outcome) error // before the outcome
	release  func(context.Context) error               // before the release
	renew    func(context.Context, once.Grant) error   // before the renewal
	replay   func(*once.ReplayError)                   // changes what is replayed
	seen     []once.Claim                              // all claims
}

func (s *faultyStore) set(change func(*faultyStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *faultyStore) Claim(ctx context.Context, c once.Claim) (once.Grant, error) {
	s.mu.Lock()
	before, replay := s.claim, s.replay
	s.seen = append(s.seen, c)
	s.mu.Unlock()
	if before != nil {
		if err := before(ctx, c); err != nil {
			return once.Grant{}, err
		}
	}
	g, err := s.Store.Claim(ctx, c)
	if r, ok := err.(*once.ReplayError); ok && replay != nil {
		changed := *r
		replay(&changed)
		return g, &changed
	}
	return g, err
}

func (s *faultyStore) Complete(ctx context.Context, g once.Grant, o once.Outcome) error {
	s.mu.Lock()
	before := s.complete
	s.mu.Unlock()
	if before != nil {
		if err := before(ctx, o); err != nil {
			return err
		}
	}
	return s.Store.Complete(ctx, g, o)
}

func (s *faultyStore) Release(ctx context.Context, g once.Grant) error {
	s.mu.Lock()
	before := s.release
	s.mu.Unlock()
	if before != nil {
		if err := before(ctx); err != nil {
			return err
		}
	}
	return s.Store.Release(ctx, g)
}

func (s *faultyStore) Renew(ctx context.Context, g once.Grant, lease time.Duration) error {
	s.mu.Lock()
	before := s.renew
	s.mu.Unlock()
	if before != nil {
		if err := before(ctx, g); err != nil {
			return err
		}
	}
	return s.Store.Renew(ctx, g, lease)
}

// claims are those that the store was asked for.
func (s *faultyStore) claims() []once.Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// record is the only record of the store.
func (s *faultyStore) record(t *testing.T) once.Record {
	t.Helper()
	page, err := s.Records(t.Context(), once.RecordFilter{})
	if err != nil || len(page.Records) != 1 {
		t.Fatalf("%d records, %v, want 1", len(page.Records), err)
	}
	r, err := s.Record(t.Context(), page.Records[0].Identity)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newStore(t *testing.T) *faultyStore {
	t.Helper()
	mem, err := oncemem.New(oncemem.Config{SingleInstance: true, MaxOutcome: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return &faultyStore{Store: mem}
}

// api is a guarded handler behind a server of its own.
type api struct {
	t      *testing.T
	url    string
	client *http.Client
	store  *faultyStore
	ran    atomic.Int64 // how often the handler ran

	mu   sync.Mutex
	told []string // by Observe
}

// newAPI guards a handler as the zero value of a configuration does, after a change of it.
func newAPI(
	t *testing.T, handler http.HandlerFunc, change ...func(*oncehttp.Config),
) *api {
	t.Helper()
	a := &api{t: t, store: newStore(t)}
	serve(t, a, a.guard(handler, change...))
	return a
}

// newAPI2 does so behind a server that speaks HTTP/2.
func newAPI2(t *testing.T, handler http.HandlerFunc, change ...func(*oncehttp.Config)) *api {
	t.Helper()
	a := &api{t: t, store: newStore(t)}
	srv := httptest.NewUnstartedServer(a.guard(handler, change...))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	a.url, a.client = srv.URL, srv.Client()
	return a
}

func newClient(t *testing.T) *http.Client {
	// Without kept connections Go's transport sends nothing again by itself.
	tr := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{
		Transport: tr, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

func (a *api) guard(handler http.HandlerFunc, change ...func(*oncehttp.Config)) http.Handler {
	a.t.Helper()
	cfg := oncehttp.Config{Store: a.store, Scope: oncehttp.NoScope, Observe: a.observe}
	for _, c := range change {
		c(&cfg)
	}
	mw, err := oncehttp.Middleware(cfg)
	if err != nil {
		a.t.Fatal(err)
	}
	return mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.ran.Add(1)
		handler(w, r)
	}))
}

func (a *api) observe(_ *http.Request, what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = append(a.told, what)
}

// observed is what Observe was told.
func (a *api) observed() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.told, " ")
}

// untilState waits until the only record is in a state.
func (a *api) untilState(want once.RecordState) {
	a.t.Helper()
	until(a.t, "the record is "+string(want), func() bool {
		return a.store.record(a.t).State == want
	})
}

// got is an answer as its client has it.
type got struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
	err     error // of sending, or of reading the body
}

func (g got) replayed() bool { return g.header.Get(oncehttp.HeaderReplayed) == "true" }

// problem is the last part of a problem's type.
func (g got) problem() string {
	var p oncehttp.Problem
	if json.Unmarshal([]byte(g.body), &p) != nil {
		return ""
	}
	return strings.TrimPrefix(p.Type, "urn:once:problem:")
}

// post sends a body with a key to /orders. Headers are pairs of name and value.
func (a *api) post(key, body string, header ...string) got {
	a.t.Helper()
	return a.do(http.MethodPost, "/orders", key, strings.NewReader(body), header...)
}

func (a *api) do(method, path, key string, body io.Reader, header ...string) got {
	a.t.Helper()
	if key != "" {
		header = append(header, "Idempotency-Key", key)
	}
	req := a.request(method, path, body, header...)
	return a.send(req)
}

func (a *api) request(method, path string, body io.Reader, header ...string) *http.Request {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), method, a.url+path, body)
	if err != nil {
		a.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Content-Type" {
			req.Header.Del("Content-Type")
		}
		req.Header.Add(header[i], header[i+1])
	}
	return req
}

func (a *api) send(req *http.Request) got {
	resp, err := a.client.Do(req)
	if err != nil {
		return got{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return got{resp.StatusCode, resp.Header, resp.Trailer, string(body), err}
}

// wantRan fails unless the handler ran as often.
func (a *api) wantRan(want int64) {
	a.t.Helper()
	if n := a.ran.Load(); n != want {
		a.t.Errorf("the handler ran %d times, want %d", n, want)
	}
}

// wantProblem fails unless an answer is this problem.
func wantProblem(t *testing.T, g got, status int, name string) {
	t.Helper()
	if g.err != nil || g.status != status || g.problem() != name {
		t.Errorf("%d %q (%v), want the problem %d %s", g.status, g.body, g.err, status, name)
		return
	}
	if c := g.header.Get("Content-Type"); c != "application/problem+json" {
		t.Errorf("Content-Type of %s is %q", name, c)
	}
	if c := g.header.Get("Cache-Control"); c != "no-store" {
		t.Errorf("Cache-Control of %s is %q", name, c)
	}
}

// wantReplay fails unless an answer is the first one's replay, byte for byte.
func wantReplay(t *testing.T, first, again got) {
	t.Helper()
	if again.err != nil || again.status != first.status || again.body != first.body {
		t.Errorf("the repeat got %d %.200q (%v), the first one %d %.200q",
			again.status, again.body, again.err, first.status, first.body)
	}
	if first.replayed() || !again.replayed() {
		t.Errorf("replayed: first %v, repeat %v", first.replayed(), again.replayed())
	}
}

// until waits until a condition holds.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(what)
		}
	}
}

// receive waits for a channel.
func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("never: %s", what)
		panic("unreachable")
	}
}

// created answers 201 with JSON that differs at each run.
func created(a **api) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", "/orders/7")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"run":`+string(rune('0'+(*a).ran.Load()))+`}`)
	}
}

// orders is an api whose handler answers 201.
func orders(t *testing.T, change ...func(*oncehttp.Config)) *api {
	t.Helper()
	var a *api
	a = newAPI(t, func(w http.ResponseWriter, r *http.Request) { created(&a)(w, r) }, change...)
	return a
}

// serve puts a handler behind the api's server.
func serve(t *testing.T, a *api, h http.Handler) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	a.url, a.client = srv.URL, newClient(t)
}

// soon lets a guard give up soon on a store that is away.
func soon(c *oncehttp.Config) {
	c.Guard.StoreTimeout, c.Guard.CompleteTimeout = 80*time.Millisecond, 250*time.Millisecond
}
