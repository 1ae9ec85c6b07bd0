package load

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// echo answers as the servers of a benchmark do, and remembers the bodies.
type echo struct {
	mu     sync.Mutex
	bodies map[string]int
	wait   chan struct{} // closed: nobody waits
	wrong  string        // a reqCode that is answered wrongly
}

// ServeHTTP implements http.Handler.
func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if e.wait != nil {
		<-e.wait
	}
	e.mu.Lock()
	e.bodies[string(b)]++
	e.mu.Unlock()
	code := 0
	if e.wrong != "" && strings.Contains(string(b), e.wrong) {
		code = 1
	}
	_, req, _ := strings.Cut(string(b), `"reqCode":"`)
	_, _ = fmt.Fprintf(w, `{"code":"%d","reqCode":"%s"}`, code, req[:len("REQ-")+digits])
}

// seen returns the bodies that came, and how often.
func (e *echo) seen() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.bodies)
}

func serve(t *testing.T, e *echo) Plan {
	t.Helper()
	e.bodies = map[string]int{}
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	return Plan{Addr: strings.TrimPrefix(s.URL, "http://"), Path: "/in/rcs", Conns: 4,
		Events: RobotEvents(), Wave: 8, Want: `{"code":"0"`, Status: 200}
}

func TestAClosedLoopSendsEachNumberOnce(t *testing.T) {
	e := &echo{}
	p := serve(t, e)
	p.Count = 200
	r, err := Run(t.Context(), p)
	if err != nil || r.Errors != 0 || r.Answered != 200 || r.Sent != 200 {
		t.Fatalf("%+v, error %v", r, err)
	}
	got := e.seen()
	if len(got) != 200 {
		t.Errorf("%d different bodies came, want 200", len(got))
	}
	for n := range int64(200) {
		if times := got[string(p.Body(n))]; times != 1 {
			t.Errorf("number %d came %d times", n, times)
		}
	}
}

func TestDistinctNumbersAreSentOverAndOver(t *testing.T) {
	e := &echo{}
	p := serve(t, e)
	p.Count, p.Distinct = 100, 10
	if r, err := Run(t.Context(), p); err != nil || r.Errors != 0 || r.Answered != 100 {
		t.Fatalf("%+v, error %v", r, err)
	}
	for body, n := range e.seen() {
		if n != 10 {
			t.Errorf("%s came %d times, want 10", body, n)
		}
	}
}

func TestAnOpenLoopCountsLatencyFromWhenARequestWasDue(t *testing.T) {
	e := &echo{wait: make(chan struct{})}
	p := serve(t, e)
	p.Conns, p.Rate, p.Measure = 1, 100, 500*time.Millisecond
	// The first answer comes after 400 ms: the requests behind it were due long before.
	time.AfterFunc(400*time.Millisecond, func() { close(e.wait) })
	r, err := Run(t.Context(), p)
	if err != nil || r.Errors != 0 {
		t.Fatalf("%+v, error %v", r, err)
	}
	if r.Sent != 50 || r.Unsent != 0 {
		t.Errorf("%d requests were sent and %d not, want 50 and 0", r.Sent, r.Unsent)
	}
	if r.P50 < 100*time.Millisecond || r.Max < 350*time.Millisecond {
		t.Errorf("median %v, longest %v: waiting was not counted", r.P50, r.Max)
	}
}

func TestAWrongReplyIsAnError(t *testing.T) {
	e := &echo{wrong: "REQ-000000000000007"}
	p := serve(t, e)
	p.Count = 50
	r, err := Run(t.Context(), p)
	if err != nil || r.Errors != 1 || !strings.Contains(r.FirstError, "code") {
		t.Errorf("%+v, error %v, want one error about the code", r, err)
	}
}

func TestAPlanThatCannotBeCarriedOutIsRefused(t *testing.T) {
	good := Plan{Addr: "127.0.0.1:1", Path: "/", Conns: 1, Count: 1, Events: []string{"a"}, Wave: 1,
		Status: 200}
	for name, change := range map[string]func(*Plan){
		"no address":     func(p *Plan) { p.Addr = "here" },
		"IPv6":           func(p *Plan) { p.Addr = "[::1]:80" },
		"no connection":  func(p *Plan) { p.Conns = 0 },
		"no end":         func(p *Plan) { p.Count = 0 },
		"no event":       func(p *Plan) { p.Events = nil },
		"no status":      func(p *Plan) { p.Status = 0 },
		"two headers":    func(p *Plan) { p.Header = "A: b\r\nC: d" },
		"no header":      func(p *Plan) { p.Header = "A" },
		"nobody listens": func(*Plan) {},
	} {
		p := good
		change(&p)
		if r, err := Run(t.Context(), p); err == nil {
			t.Errorf("%s: %+v, want an error", name, r)
		}
	}
}
