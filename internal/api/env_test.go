package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/flow"
	"github.com/oncekit/once/internal/api"
	"github.com/oncekit/once/internal/api/apitest"
	"github.com/oncekit/once/internal/metrics"
	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/oncesqlite"
	"github.com/oncekit/once/queue"
)

// env is a store, a flow and the API over them.
type env struct {
	t     testing.TB
	store *oncesqlite.Store
	flow  *flow.Engine
	api   http.Handler
	cfg   api.Config
	spec  *apitest.Spec
	clock *clock
	token string
	n     byte // identities so far
}

type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	c.at = c.at.Add(d)
	c.mu.Unlock()
}

// newEnv makes the API over a fresh store at 2026-07-01 10:00:00 UTC.
func newEnv(t testing.TB, change ...func(*api.Config)) *env {
	t.Helper()
	e := &env{t: t, clock: &clock{at: time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)}}
	var err error
	e.store, err = oncesqlite.Open(t.Context(), oncesqlite.Config{
		Path: filepath.Join(t.TempDir(), "once.db"), Now: e.clock.now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.store.Close(); err != nil {
			t.Error(err)
		}
	})
	e.start(api.Config{Browser: e.store, Operator: e.store, Transactor: e.store,
		Ping: e.store.Ping}, change)
	return e
}

// newEmpty makes the API over a store that has nothing and takes no change.
func newEmpty(t testing.TB, change ...func(*api.Config)) *env {
	t.Helper()
	e := &env{t: t}
	e.start(api.Config{Browser: nothing{}, Operator: refuser{}, Transactor: refuser{},
		Ping: func(context.Context) error { return nil }}, change)
	return e
}

func (e *env) start(cfg api.Config, change []func(*api.Config)) {
	e.t.Helper()
	e.flow = plant(e.t)
	m, err := metrics.New(metrics.Config{Counts: cfg.Browser.Counts, Version: "1.2.3"})
	if err != nil {
		e.t.Fatal(err)
	}
	cfg.Engine, cfg.Metrics, cfg.Listen, cfg.Version = e.flow, m, "127.0.0.1:8081", "1.2.3"
	cfg.Route = func(r queue.Row) (queue.Arrival, error) {
		return arrival(r.Source, r.Event, r.Task, r.Key, r.Body), nil
	}
	for _, c := range change {
		c(&cfg)
	}
	e.cfg, e.token = cfg, cfg.Token
	if e.api, err = api.New(cfg); err != nil {
		e.t.Fatal(err)
	}
	if e.spec, err = apitest.Load(e.get(apitest.Path).Body.Bytes()); err != nil {
		e.t.Fatal(err)
	}
}

// arrival makes a callback of the flow.
func arrival(source, event, task string, key []string, body []byte) queue.Arrival {
	return queue.Arrival{
		Kind: queue.Callback, Lane: flow.Lane, OrderKey: flow.OrderKey("transport", task),
		State: queue.Pending, Source: source, Event: event, Flow: "transport", Task: task, Key: key,
		Meta: []byte(meta), Body: body, Peer: "192.0.2.7:4711", Retention: 7 * 24 * time.Hour,
	}
}

const meta = `{"method":"POST","path":"/in/rcs","query":"a=1","host":"once.test",` +
	`"peer":"192.0.2.7:4711","header":{"Content-Type":["application/json"]},` +
	`"digest":{"Authorization":["hmac:00112233445566778899aabbccddeeff"]}}`

func (e *env) identity() once.Identity {
	e.n++
	return once.Identity{0: e.n, 31: 1}
}

// add stores an arrival under the next identity, or under its own, and returns its public id.
func (e *env) add(a queue.Arrival) string {
	e.t.Helper()
	if a.Identity.IsZero() {
		a.Identity = e.identity()
	}
	if _, err := e.store.Append(e.t.Context(), []queue.Arrival{a}); err != nil {
		e.t.Fatal(err)
	}
	return a.Identity.ID()
}

// callback stores a callback for a lane that nothing works by itself.
func (e *env) callback(change ...func(*queue.Arrival)) string {
	e.t.Helper()
	a := arrival("rcs", "startFE", "TASK-001", []string{"REQ-1", "TASK-001", "startFE"},
		[]byte(`{"taskCode":"TASK-001"}`))
	a.Lane, a.Fingerprint = "handler/h", once.Fingerprint{1}
	for _, c := range change {
		c(&a)
	}
	return e.add(a)
}

func (e *env) effect(change ...func(*queue.Arrival)) string {
	e.t.Helper()
	a := queue.Arrival{
		Kind: queue.Effect, Lane: "effect/plant", State: queue.Pending, Source: "plant",
		Event: "unlock", Flow: "transport", Task: "TASK-001", Cause: "person",
		Meta: []byte(`{"topic":"a/b"}`), Body: []byte(`{"id":1}`), Retention: time.Hour,
	}
	for _, c := range change {
		c(&a)
	}
	return e.add(a)
}

// settle takes the next row of a lane and settles it.
func (e *env) settle(lane string, set queue.Settlement) {
	e.t.Helper()
	got, err := e.store.Lease(e.t.Context(),
		queue.LeaseRequest{Lane: lane, Max: 1, For: time.Minute})
	if err != nil || len(got.Rows) != 1 {
		e.t.Fatalf("leased %d rows of %s: %v", len(got.Rows), lane, err)
	}
	set.Grant = got.Rows[0].Grant()
	e.clock.advance(time.Second)
	if err := e.store.Settle(e.t.Context(), []queue.Settlement{set})[0]; err != nil {
		e.t.Fatal(err)
	}
}

// work decides what is due in the flow.
func (e *env) work() {
	e.t.Helper()
	for more := true; more; {
		s, err := e.store.Step(e.t.Context(), queue.StepRequest{Lane: flow.Lane, Max: 100,
			Decide: e.flow.Decide, Overdue: e.flow.Overdue})
		if err != nil {
			e.t.Fatal(err)
		}
		more = s.More
	}
}

// event has an event of a task worked by the flow.
func (e *env) event(event, task, body string) string {
	e.t.Helper()
	id := e.add(arrival("rcs", event, task, []string{task, event}, []byte(body)))
	e.work()
	return id
}

// plant is a flow with one kind of resource whose release has to be acknowledged.
func plant(t testing.TB) *flow.Engine {
	roadway := func(v *flow.Vars) (any, error) {
		name, _ := v.Body.(map[string]any)["roadway"].(string)
		return "roadway/" + name, nil
	}
	seq := func(v *flow.Vars) (any, error) {
		if s, ok := v.Body.(map[string]any)["seq"]; ok {
			return s, nil
		}
		return flow.Absent, nil
	}
	unlock := flow.Effect{Name: "unlock", Destination: "plant",
		Build: func(*flow.Vars) (meta, body []byte, err error) {
			return []byte(`{"topic":"roadway/unlock"}`), []byte(`{}`), nil
		}}
	m := &flow.Machine{
		Name: "transport", Initial: "created", Final: []string{"finished"},
		Events: map[string]*flow.Event{
			"startFE": {From: []string{"created"}, To: "running",
				Set:     []flow.Field{{Name: "seq", Value: seq}},
				Acquire: []flow.Expr{roadway}},
			"finish": {From: []string{"running"}, To: "finished", ReleaseAll: true},
		},
	}
	decode := func(r queue.Row) (flow.Message, error) {
		body, err := value.Decode(r.Body, value.Limits{})
		return flow.Message{Body: body}, err
	}
	kind := flow.ResourceKind{Kind: "roadway", OnRelease: []flow.Effect{unlock}}
	engine, err := flow.New([]*flow.Machine{m}, []flow.ResourceKind{kind}, decode, flow.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// answer is what came back.
type answer struct {
	t testing.TB
	*httptest.ResponseRecorder
}

// raw sends a request as a plain client on this machine does; nothing is validated.
func (e *env) raw(method, target, body string, change ...func(*http.Request)) answer {
	e.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:8081"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if e.token != "" {
		r.Header.Set("Authorization", "Bearer "+e.token)
	}
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	e.api.ServeHTTP(w, r)
	a := answer{e.t, w}
	a.checkHeaders()
	if e.spec != nil {
		if err := e.spec.Check(r, a.Code, a.Header(), a.Body.Bytes()); err != nil {
			e.t.Fatal(err)
		}
	}
	return a
}

func (e *env) get(target string) answer {
	e.t.Helper()
	return e.raw(http.MethodGet, target, "")
}

func (e *env) post(target, body string) answer {
	e.t.Helper()
	return e.raw(http.MethodPost, target, body)
}

// by is the body of a change by anna.
const by = `{"actor":"anna","reason":"tested"}`

func (a answer) checkHeaders() {
	a.t.Helper()
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		"Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
	} {
		if got := a.Header().Get(name); got != want {
			a.t.Fatalf("%s is %q, want %q", name, got, want)
		}
	}
}

// ok returns the JSON of a 200.
func (a answer) ok() map[string]any {
	a.t.Helper()
	if a.Code != http.StatusOK {
		a.t.Fatalf("status %d, want 200: %s", a.Code, a.Body)
	}
	return a.json()
}

func (a answer) json() map[string]any {
	a.t.Helper()
	var out map[string]any
	if err := json.Unmarshal(a.Body.Bytes(), &out); err != nil {
		a.t.Fatalf("answer is no JSON: %v: %s", err, a.Body)
	}
	return out
}

// problem checks a refusal: its status, its type, and that its detail holds a text.
func (a answer) problem(status int, kind, detail string) {
	a.t.Helper()
	p := a.json()
	if a.Code != status || a.Header().Get("Content-Type") != "application/problem+json" ||
		p["type"] != "/problems/"+kind || p["status"] != float64(status) || p["title"] == "" {
		a.t.Fatalf("status %d, %s: %s; want %d %s", a.Code, a.Header().Get("Content-Type"), a.Body,
			status, kind)
	}
	if text, _ := p["detail"].(string); !strings.Contains(text, detail) {
		a.t.Fatalf("detail %q, want it to hold %q", text, detail)
	}
}

// items returns the items of a page and its next.
func (a answer) items() (items []map[string]any, next string) {
	a.t.Helper()
	page := a.ok()
	for _, i := range page["items"].([]any) {
		items = append(items, i.(map[string]any))
	}
	next, _ = page["next"].(string)
	return items, next
}

// exactly compares the text of a 200.
func (a answer) exactly(want string) {
	a.t.Helper()
	if got := a.Body.String(); a.Code != http.StatusOK || got != want {
		a.t.Fatalf("status %d, answer\n%s\nwant\n%s", a.Code, got, want)
	}
}
