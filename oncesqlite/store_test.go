package oncesqlite

import (
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncekit/once/queue/queuetest"
)

// Generations are so small here that all tests see rows in memory, on their way, and in the table.
func TestMain(m *testing.M) {
	placeGeneration = 24
	goleak.VerifyTestMain(m)
}

// fakeClock is the time of a store under test.
type fakeClock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *fakeClock {
	return &fakeClock{t: time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)}
}

func (c *fakeClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// openAt opens a store that is closed when the test ends.
func openAt(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func harness(t *testing.T, clock *fakeClock, cfg Config) queuetest.Harness {
	s := openAt(t, cfg)
	return queuetest.Harness{
		Store: s, Now: clock.now, Advance: clock.advance, SQL: true,
		Reopen: func(t *testing.T, clean bool) queuetest.Harness {
			next := cfg
			if clean {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			} else {
				next.Path = filepath.Join(t.TempDir(), "killed.db")
				copyStore(t, cfg.Path, next.Path)
			}
			return harness(t, clock, next)
		},
	}
}

// copyStore copies what a killed process would leave behind. The database comes before its WAL: it
// changes only when the WAL is written back, which takes more pages than these tests write.
func copyStore(t *testing.T, from, to string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		src, err := os.Open(from + suffix)
		if err != nil {
			t.Fatal(err)
		}
		dst, err := os.Create(to + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(dst, src); err != nil {
			t.Fatal(err)
		}
		if err := dst.Close(); err != nil {
			t.Fatal(err)
		}
		if err := src.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func conformance(t *testing.T, cfg Config, prefixes ...string) {
	queuetest.Run(t, func(t *testing.T, opts queuetest.Options) queuetest.Harness {
		clock := newClock()
		cfg := cfg
		cfg.Path, cfg.Now = filepath.Join(t.TempDir(), "once.db"), clock.now
		cfg.RejectedPerSource, cfg.CommitTimeout = opts.RejectedPerSource, opts.CommitTimeout
		return harness(t, clock, cfg)
	}, prefixes...)
}

func TestConformance(t *testing.T) { conformance(t, Config{}) }

// The search index in segments of a few rows, so that every page goes over many of them.
func TestConformanceOverManySegments(t *testing.T) {
	conformance(t, Config{segmentRows: 16}, "Browse", "Repeat", "Sweep", "Operate", "Random",
		"Wait/Busy")
}
