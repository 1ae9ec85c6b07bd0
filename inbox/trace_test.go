package inbox_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/queue"
)

// parentText is the example of W3C Trace Context, section 3.2.3.
const parentText = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestATracestateIsKeptBesideAValidTraceparentAlone(t *testing.T) {
	long := "long=" + strings.Repeat("x", 150)
	many := make([]string, 33)
	for i := range many {
		many[i] = "k" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + "=v"
	}
	var wide []string // 8 members of 100 bytes each
	for i := range 8 {
		wide = append(wide, string(rune('a'+i))+"="+strings.Repeat("v", 98))
	}
	exact := long + "," + strings.Join(wide[:3], ",") + ",z=" + strings.Repeat("v", 51)
	if len(exact) != 512 {
		t.Fatalf("the text has %d bytes", len(exact))
	}
	for _, c := range []struct {
		name, parent string
		state        []string
		want         string
	}{
		{"of W3C", parentText, []string{"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"},
			"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"},
		{"several headers", parentText, []string{"a=1", "b=2,c=3"}, "a=1,b=2,c=3"},
		{"blanks and empty members", parentText, []string{" a=1 ,, b=2\t"}, "a=1,b=2"},
		{"tenant", parentText, []string{"fw529a3039@dt=FfAAAABM"}, "fw529a3039@dt=FfAAAABM"},
		{"no traceparent", "", []string{"a=1"}, ""},
		{"invalid traceparent", "00-nonsense", []string{"a=1"}, ""},
		{"no member", parentText, []string{"a=1,nonsense"}, ""},
		{"upper-case key", parentText, []string{"A=1"}, ""},
		{"empty value", parentText, []string{"a="}, ""},
		{"two equals signs", parentText, []string{"a=1=2"}, ""},
		{"no ASCII", parentText, []string{"a=ü"}, ""},
		{"32 members", parentText, many[:32], strings.Join(many[:32], ",")},
		{"33 members", parentText, many, ""},
		{"long ones go first", parentText, []string{long + "," + strings.Join(wide[:4], ",")},
			strings.Join(wide[:4], ",")},
		{"then from the end", parentText, []string{strings.Join(wide, ",")},
			strings.Join(wide[:5], ",")},
		{"512 bytes", parentText, []string{exact}, exact},
	} {
		store := newMemStore()
		rc := newReceiver(t, store, inbox.Config{}, rcs())
		if a := send(rc, finishFE, c.parent, c.state...); a.Code != http.StatusOK {
			t.Fatalf("%s: status %d: %s", c.name, a.Code, a.Body)
		}
		if got := store.accepted()[0].TraceState; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// send sends a message of the source rcs with a trace context.
func send(rc http.Handler, body, parent string, state ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/in/rcs", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if parent != "" {
		r.Header.Set("Traceparent", parent)
	}
	r.Header["Tracestate"] = state
	w := httptest.NewRecorder()
	rc.ServeHTTP(w, r)
	return w
}

// follower is a Tracer that keeps what it is told.
type follower struct {
	mu    sync.Mutex
	began []string
	ended []inbox.Received
}

func (f *follower) Receipt(_ *http.Request, source, parent, state string) inbox.Trace {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.began = append(f.began, source+" "+parent+" "+state)
	return f
}

func (f *follower) Context() (parent, state string) { return "own", "state=own" }

func (f *follower) End(got inbox.Received) {
	f.mu.Lock()
	defer f.mu.Unlock()
	got.Arrivals = append([]queue.Arrival(nil), got.Arrivals...)
	f.ended = append(f.ended, got)
}

func TestATracerIsToldOfEachMessageAndItsContextIsStored(t *testing.T) {
	store, f := newMemStore(), &follower{}
	rc := newReceiver(t, store, inbox.Config{Tracer: f}, rcs())
	send(rc, finishFE, parentText, "a=1")
	send(rc, finishFE, "")
	send(rc, "nonsense", "")
	post(rc, "/nobody", "{}")
	if want := []string{"rcs " + parentText + " a=1", "rcs  ", "rcs  "}; len(f.began) != 3 ||
		strings.Join(f.began, ";") != strings.Join(want, ";") {
		t.Errorf("begun: %q, want %q", f.began, want)
	}
	if a := store.accepted()[0]; a.TraceParent != "own" || a.TraceState != "state=own" {
		t.Errorf("stored is %q %q", a.TraceParent, a.TraceState)
	}
	for i, want := range []struct {
		outcome  queue.Outcome
		status   int
		arrivals int
	}{{queue.Accepted, 200, 1}, {queue.Duplicate, 200, 1}, {queue.Invalid, 400, 0}} {
		got := f.ended[i]
		if got.Outcome != want.outcome || got.Status != want.status ||
			len(got.Arrivals) != want.arrivals {
			t.Errorf("message %d: %+v, want %+v", i, got, want)
		}
	}
	if len(f.ended) != 3 {
		t.Errorf("%d messages ended, want 3", len(f.ended))
	}
}

func TestEachMessageIsLoggedUnderDebugAlone(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo} {
		var log testserver.Text
		rc := newReceiver(t, newMemStore(), inbox.Config{Logger: slog.New(slog.NewTextHandler(&log,
			&slog.HandlerOptions{Level: level}))}, rcs())
		send(rc, finishFE, parentText)
		line := "msg=received source=rcs outcome=accepted status=200 peer="
		has := strings.Contains(log.String(), line) &&
			strings.Contains(log.String(), "trace_id=4bf92f3577b34da6a3ce929d0e0e4736")
		if has != (level == slog.LevelDebug) {
			t.Errorf("level %s: %s", level, &log)
		}
	}
}
