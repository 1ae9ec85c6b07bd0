package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestLogWritesOneReadableLineAnEffect(t *testing.T) {
	now := func() time.Time { return time.Date(2030, 1, 2, 12, 4, 5, 0, time.UTC) }
	for name, test := range map[string]struct {
		m    Message
		want string
	}{
		"a topic": {
			Message{ID: "0a1b", Name: "unlock", Destination: "plant", Attempt: 1, Fence: 3,
				Meta: Meta{Topic: "roadway/17/unlock"}, Payload: []byte(`{"task":"T 1"}`)},
			"12:04:05 plant → roadway/17/unlock  {\"task\":\"T 1\"}  (unlock, id 0a1b, fence 3)\n",
		},
		"a path": {
			Message{ID: "0a1b", Name: "tell", Destination: "wms", Attempt: 2,
				Meta: Meta{Path: "/x"}},
			"12:04:05 wms → POST http://wms/x  (tell, id 0a1b, try 2)\n",
		},
		"retained, hostile": {
			Message{ID: "0a1b", Name: "n\n", Destination: "d",
				Meta: Meta{Topic: "t", Retain: true}, Payload: []byte("\x1b[2J\nfake")},
			"12:04:05 d → t (retained)  \"\\x1b[2J\\nfake\"  (\"n\\n\", id 0a1b)\n",
		},
		"long": {
			Message{ID: "0a1b", Name: "n", Destination: "d", Meta: Meta{Topic: "t"},
				Payload: []byte("aaaaaaaaaaaaaaaaaaaé")},
			"12:04:05 d → t  aaaaaaaaaaaaaaaaaaa… (21 bytes)  (n, id 0a1b)\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			l := NewLog(&out, LogConfig{URL: "http://wms", MaxPayload: 20, Now: now})
			if err := l.Send(t.Context(), test.m); err != nil {
				t.Fatal(err)
			}
			if out.String() != test.want {
				t.Errorf("got  %swant %s", out.String(), test.want)
			}
		})
	}
}

// lineWriter fails the test if it gets anything but one line a write.
type lineWriter struct {
	t     *testing.T
	mu    sync.Mutex
	lines int
}

func (w *lineWriter) Write(p []byte) (int, error) {
	if !w.mu.TryLock() {
		w.t.Error("two writes at once")
		return 0, nil
	}
	defer w.mu.Unlock()
	if strings.Count(string(p), "\n") != 1 || p[len(p)-1] != '\n' {
		w.t.Errorf("no line: %q", p)
	}
	w.lines++
	return len(p), nil
}

func TestLogWritesLinesOneAtATime(t *testing.T) {
	w := &lineWriter{t: t}
	l := NewLog(w, LogConfig{})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			m := Message{ID: fmt.Sprint(i), Payload: []byte("a\nb")}
			if err := l.Send(t.Context(), m); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if w.lines != 50 {
		t.Errorf("%d lines", w.lines)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("closed") }

func TestLogThatCantWriteIsTriedAgain(t *testing.T) {
	err := NewLog(brokenWriter{}, LogConfig{}).Send(t.Context(), Message{})
	if class, _ := classOf(err); class != Transient {
		t.Errorf("class %d: %v", class, err)
	}
}
