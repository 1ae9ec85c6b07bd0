package demo

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// metrics is a server that gives these answers in turn, the last one again and again.
func metrics(t *testing.T, texts ...string) (a *admin, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := min(int(asked.Add(1)), len(texts))
		_, _ = io.WriteString(w, texts[n-1])
	}))
	t.Cleanup(server.Close)
	a = newAdmin(server.Listener.Addr().String())
	t.Cleanup(a.close)
	return a, asked
}

func TestTheJumpOfTheClockWaitsForTasksThatStandInRunning(t *testing.T) {
	t.Parallel()
	const others = "# TYPE once_tasks gauge\n" +
		`once_tasks{flow="transport",state="unloaded"} 7` + "\n" +
		`once_callbacks{source="rcs",state="running"} 9` + "\n"
	const one = others + `once_tasks{flow="transport",state="running"} 1` + "\n"
	const two = others + `once_tasks{flow="transport",state="running"} 2` + "\n"
	for name, c := range map[string]struct {
		answers []string
		robots  int
		asked   int64
	}{
		"there are two":                 {[]string{two}, 20, 1},
		"there are two after a while":   {[]string{others, one, two, others}, 20, 3},
		"a single robot has a task":     {[]string{others, one, others}, 1, 2},
		"what it says is not a number":  {[]string{others, `once_tasks{state="running"} x`}, 20, 2},
		"an answer that has no metrics": {[]string{"", two}, 20, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, asked := metrics(t, c.answers...)
			p := &rehearsal{server: &server{client: a},
				cfg: Config{Robots: c.robots, Duration: time.Minute}}
			p.awaitStanding(t.Context())
			if got := asked.Load(); got != c.asked {
				t.Errorf("asked %d times, want %d", got, c.asked)
			}
		})
	}
}

func TestTheJumpOfTheClockDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	a, asked := metrics(t, "")
	p := &rehearsal{server: &server{client: a}, cfg: Config{Robots: 9, Duration: 2 * time.Second}}
	p.awaitStanding(t.Context())
	if asked.Load() < 2 {
		t.Errorf("asked %d times", asked.Load())
	}
}
