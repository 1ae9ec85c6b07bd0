package demo

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// screen is a terminal that is written to while it is looked at.
type screen struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestTheTerminalIsTakenDrawnOnAndGivenBack(t *testing.T) {
	t.Parallel()
	var out screen
	var mu sync.Mutex
	columns := 100
	p := &rehearsal{book: newLedger(), seen: &sightings{}, server: &server{state: up, lives: 1},
		start: time.Now(), robots: []*robot{{}, {}},
		cfg: Config{Robots: 2, Seed: 9, Duration: time.Minute, Out: &out, Live: true,
			Size: func() (int, int) {
				mu.Lock()
				defer mu.Unlock()
				return columns, 30
			}}}
	l := newShow(p)
	l.happens("something was before")
	l.begin()
	await := func(what string, is func(string) bool) {
		t.Helper()
		for limit := time.Now().Add(time.Minute); !is(out.text()); {
			if time.Now().After(limit) {
				t.Fatalf("%s: %q", what, out.text())
			}
			pause(t.Context(), time.Millisecond)
		}
	}
	const begin, end, wipe = "\x1b[?2026h", "\x1b[?2026l", "\x1b[2J"
	await("two frames", func(s string) bool { return strings.Count(s, end) >= 2 })
	mu.Lock()
	columns = 60
	mu.Unlock()
	await("a frame of another size", func(s string) bool {
		return strings.Count(s, begin+wipe) == 2
	})
	l.end()
	l.end()
	got := out.text()
	if !strings.HasPrefix(got, takeTerminal) || !strings.HasSuffix(got, end+RestoreTerminal) ||
		strings.Count(got, RestoreTerminal) != 1 {
		t.Errorf("the terminal is not given back as it was: %q", got)
	}
	if n := strings.Count(got, wipe); n != 3 { // taken, first frame, other size
		t.Errorf("the screen was wiped %d times, want 3: it flickers", n)
	}
	frames := strings.Split(got, begin)
	for _, want := range []string{" once demo", "2 robots · seed 9", "● up, life 1",
		"something was before"} {
		if !strings.Contains(frames[1], want) {
			t.Errorf("the first frame lacks %q: %q", want, frames[1])
		}
	}
}
