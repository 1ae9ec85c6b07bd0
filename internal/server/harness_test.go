package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekit/once/internal/api/apitest"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/server"
	"github.com/oncekit/once/internal/testserver"
)

// patience is how long a test waits for what has to happen.
const patience = time.Minute

// service is a server that runs, and how to speak to it.
type service struct {
	t       *testing.T
	url     string // of senders
	admin   string
	effects *testserver.Text // lines of destinations of type log
	log     *testserver.Text
	end     func() // drains; the second call does nothing
	client  *http.Client
}

// load reads a configuration whose relative paths begin in dir, on free ports.
func load(dir, yaml string) (*config.Config, error) {
	return config.Parse(filepath.Join(dir, "once.yaml"), []byte(yaml), config.Env{
		Override: config.Override{Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0"},
	})
}

// serve runs a server on the store in dir until the test ends.
func serve(t *testing.T, dir, yaml string, change ...func(*server.Options)) *service {
	t.Helper()
	cfg, err := load(dir, yaml)
	if err != nil {
		t.Fatalf("load configuration: %v", err)
	}
	s := &service{t: t, effects: &testserver.Text{}, log: &testserver.Text{}}
	o := server.Options{Config: cfg, Effects: s.effects, Version: "test",
		Logger: slog.New(slog.NewTextHandler(s.log, nil))}
	for _, f := range change {
		f(&o)
	}
	srv, err := server.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open server: %v", err)
	}
	s.url, s.admin = "http://"+srv.Addr(), "http://"+srv.AdminAddr()
	transport := &http.Transport{MaxIdleConnsPerHost: 128}
	s.client = &http.Client{Timeout: patience,
		Transport: &apitest.Transport{Host: srv.AdminAddr(), Base: transport}}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(ctx) }()
	s.end = sync.OnceFunc(func() {
		transport.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run server: %v", err)
		}
	})
	t.Cleanup(func() {
		s.end()
		if t.Failed() {
			t.Logf("the server's log:\n%s", s.log)
		}
	})
	return s
}

// answer is what a caller was told.
type answer struct {
	status int
	header http.Header
	body   string
}

// send makes a request; header is a list of names and values.
func (s *service) send(method, url, body string, header ...string) (answer, error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
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

// post sends a JSON message to a source and wants a status.
func (s *service) post(want int, source, body string, header ...string) answer {
	s.t.Helper()
	header = append(header, "Content-Type", "application/json")
	a, err := s.send(http.MethodPost, s.url+"/in/"+source, body, header...)
	if err != nil {
		s.t.Fatalf("post to %s: %v", source, err)
	}
	if a.status != want {
		s.t.Fatalf("post %s to %s: status %d, want %d: %s", body, source, a.status, want, a.body)
	}
	return a
}

// get reads from the operator's listener; with a nil target any status is fine.
func (s *service) get(path string, into any) answer {
	s.t.Helper()
	a, err := s.send(http.MethodGet, s.admin+path, "")
	if err != nil {
		s.t.Fatalf("get %s: %v", path, err)
	}
	if into == nil {
		return a
	}
	if a.status != http.StatusOK {
		s.t.Fatalf("get %s: status %d: %s", path, a.status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), into); err != nil {
		s.t.Fatalf("get %s: %v in %s", path, err, a.body)
	}
	return a
}

// change makes a change as a person, with further members of its body, and wants a status.
func (s *service) change(want int, path, members string) answer {
	s.t.Helper()
	body := `{"actor":"ann","reason":"test"` + members + `}`
	a, err := s.send(http.MethodPost, s.admin+path, body, "Content-Type", "application/json")
	if err != nil {
		s.t.Fatalf("post %s: %v", path, err)
	}
	if a.status != want {
		s.t.Fatalf("post %s: status %d, want %d: %s", path, a.status, want, a.body)
	}
	return a
}

// callback is a callback as the API shows it; in lists the members from Receipts on are empty.
type callback struct {
	ID, Source, Event, Task, State, Error string
	Key                                   []string
	Attempt                               int
	Duplicates, Conflicts                 int64
	DeadCause                             string              `json:"dead_cause"`
	RevisionOf                            string              `json:"revision_of"`
	Headers                               map[string][]string `json:"headers"`
	Hidden                                map[string][]string `json:"hidden_headers"`
	Element                               *struct{ Index, Of int }
	Body                                  any
	Receipts                              []struct {
		N                 int64
		Outcome, Accepted string
		Body              any
	}
	Attempts []struct {
		N             int
		Result, Error string
	}
	Audit []struct{ Action, Actor, Reason string }
}

// callbacks lists callbacks, latest first.
func (s *service) callbacks(query string) []callback {
	s.t.Helper()
	var page struct{ Items []callback }
	s.get("/api/v1/callbacks?limit=200&"+query, &page)
	return page.Items
}

// callback returns the only callback that a query finds, with its details.
func (s *service) callback(query string) callback {
	s.t.Helper()
	list := s.callbacks(query)
	if len(list) != 1 {
		s.t.Fatalf("%d callbacks for %s, want 1", len(list), query)
	}
	var c callback
	s.get("/api/v1/callbacks/"+list[0].ID, &c)
	return c
}

// awaitCallback waits until the only callback of a query is in a state.
func (s *service) awaitCallback(query, state string) callback {
	s.t.Helper()
	last := ""
	defer func() {
		if s.t.Failed() {
			s.t.Logf("%s was last: %s", query, last)
		}
	}()
	testserver.Until(s.t, patience, query+" is "+state, func() bool {
		list := s.callbacks(query)
		if len(list) == 1 {
			last = list[0].State + " " + list[0].Error
		}
		return len(list) == 1 && list[0].State == state
	})
	return s.callback(query)
}

// task is a task as the API shows it.
type task struct {
	ID, State string
	Version   int64
	Fields    map[string]any
	Next      []string
	History   []struct {
		At                                             time.Time
		Event, From, To, Note, Actor, Reason, Callback string
	}
}

// task returns a task of the flow transport; found is false if there is none.
func (s *service) task(id string) (t task, found bool) {
	s.t.Helper()
	path := "/api/v1/tasks/transport/" + id
	if s.get(path, nil).status == http.StatusNotFound {
		return task{}, false
	}
	s.get(path, &t)
	return t, true
}

// awaitTask waits until a task is in a state.
func (s *service) awaitTask(id, state string) task {
	s.t.Helper()
	var t task
	testserver.Until(s.t, patience, "task "+id+" is "+state, func() bool {
		t, _ = s.task(id)
		return t.State == state
	})
	return t
}

// effect is an effect as the API lists it.
type effect struct {
	ID, Destination, Name, Task, Resource, State, Error string
	Attempt                                             int
}

// listEffects lists effects, latest first.
func (s *service) listEffects(query string) []effect {
	s.t.Helper()
	var page struct{ Items []effect }
	s.get("/api/v1/effects?limit=200&"+query, &page)
	return page.Items
}

// awaitEffects waits until exactly n effects answer a query.
func (s *service) awaitEffects(query string, n int) []effect {
	s.t.Helper()
	var list []effect
	testserver.Until(s.t, patience, "the effects are "+query, func() bool {
		list = s.listEffects(query)
		return len(list) == n
	})
	return list
}

// metric returns the value of one line of /metrics, by its name and labels as they are printed; 0
// if it isn't there.
func (s *service) metric(line string) string {
	s.t.Helper()
	for _, l := range strings.Split(s.get("/metrics", nil).body, "\n") {
		if rest, ok := strings.CutPrefix(l, line+" "); ok {
			return rest
		}
	}
	return "0"
}

// awaitMetrics waits until /metrics has lines: a gateway counts a request when it is over, and its
// client may have the answer before that.
func (s *service) awaitMetrics(lines ...string) {
	s.t.Helper()
	for _, line := range lines {
		testserver.Until(s.t, patience, "the metrics have "+line, func() bool {
			return strings.Contains(s.get("/metrics", nil).body, "\n"+line+"\n")
		})
	}
}

// example reads a file of the examples and replaces texts that have to be in it: pairs of old and
// new.
func example(t *testing.T, name string, edits ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "examples", name))
	if err != nil {
		t.Fatal(err)
	}
	return edit(t, string(b), edits...)
}

// edit replaces texts that have to be there.
func edit(t *testing.T, s string, edits ...string) string {
	t.Helper()
	for i := 0; i+1 < len(edits); i += 2 {
		if !strings.Contains(s, edits[i]) {
			t.Fatalf("the file has no %q", edits[i])
		}
		s = strings.ReplaceAll(s, edits[i], edits[i+1])
	}
	return s
}

// refusal opens a server that has to refuse its configuration, and returns why.
func refusal(t *testing.T, dir, yaml string) string {
	t.Helper()
	cfg, err := load(dir, yaml)
	if err == nil {
		var srv *server.Server
		srv, err = server.Open(t.Context(), server.Options{Config: cfg, Effects: io.Discard})
		if err == nil {
			ctx, stop := context.WithCancel(context.Background())
			stop()
			t.Fatalf("the server opened; want a refusal (and it ended with %v)", srv.Run(ctx))
		}
	}
	var wrong *config.Error
	if !errors.As(err, &wrong) {
		t.Fatalf("%v is no refusal of the file", err)
	}
	return err.Error()
}

// withTimeout sets the time of one try of a destination, withProbe the pause after a refusal.
func withTimeout(destination, d string) func(*server.Options) {
	return func(o *server.Options) { destinationOf(o, destination).Policy.Timeout = duration(d) }
}

func withProbe(destination, d string) func(*server.Options) {
	return func(o *server.Options) { destinationOf(o, destination).Probe = duration(d) }
}

func destinationOf(o *server.Options, name string) *config.DestinationConfig {
	for i := range o.Config.Destinations {
		if d := &o.Config.Destinations[i]; d.Name == name {
			return d
		}
	}
	panic("no destination " + name)
}

func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}

// jsonMember returns a text of a JSON object.
func jsonMember(t *testing.T, b []byte, name string) string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	v, ok := m[name].(string)
	if !ok {
		t.Fatalf("%s has no text %q", b, name)
	}
	return v
}

// openError opens a server that can't open, and returns why.
func openError(t *testing.T, yaml string) string {
	t.Helper()
	cfg, err := load(t.TempDir(), yaml)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.Open(t.Context(), server.Options{Config: cfg, Effects: io.Discard})
	if err == nil {
		ctx, stop := context.WithCancel(context.Background())
		stop()
		t.Fatalf("the server opened (and ended with %v)", srv.Run(ctx))
	}
	return err.Error()
}
