package oncemongo

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/oncekit/once/internal/testserver/mongotest"
	"github.com/oncekit/once/queue/queuetest"
)

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

// openIn opens a store that is closed when the test ends.
func openIn(t *testing.T, db *mongo.Database, cfg Config) *Store {
	t.Helper()
	s, err := OpenStore(context.Background(), db, cfg)
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

// kill leaves the database as if the store's process had been killed now.
func (s *Store) kill() { s.killed.Store(true) }

func harness(t *testing.T, db *mongo.Database, clock *fakeClock, cfg Config) queuetest.Harness {
	s := openIn(t, db, cfg)
	return queuetest.Harness{
		Store: s, Now: clock.now, Advance: clock.advance, Slow: !cfg.facts.Now,
		Reopen: func(t *testing.T, clean bool) queuetest.Harness {
			if clean {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				return harness(t, db, clock, cfg)
			}
			s.kill()
			next := cfg
			next.alone = true
			return harness(t, db, clock, next)
		},
	}
}

func conformance(t *testing.T, server mongotest.Server, cfg Config, prefixes ...string) {
	facts := factsOf(t, server)
	queuetest.Run(t, func(t *testing.T, opts queuetest.Options) queuetest.Harness {
		clock := newClock()
		cfg := cfg
		cfg.Now, cfg.RejectedPerSource, cfg.facts = clock.now, opts.RejectedPerSource, &facts
		return harness(t, server.Database(t), clock, cfg)
	}, prefixes...)
}

func factsOf(t *testing.T, server mongotest.Server) Facts {
	t.Helper()
	facts, err := Probe(t.Context(), server.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

// slow are the cases with a hundred rows and more. FerretDB looks at every document for every
// question, so they take minutes there; they run against a real MongoDB alone.
var slow = []string{"Order/LongLines", "Wait/VeryMany", "Wait/VeryManyOverARestart",
	"Browse/EveryFilter", "Browse/FilterOverSweptRows", "Browse/CountsScanNothing",
	"Restart/I08_EverythingIsThere"}

func TestConformance(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, server mongotest.Server) {
		var names []string
		for _, c := range queuetest.Cases() {
			if _, real := mongotest.Real(); real && server.Name != "ferretdb" ||
				!slices.Contains(slow, c.Name) {
				names = append(names, c.Name)
			}
		}
		conformance(t, server, Config{}, names...)
	})
}

// The same with a store that keeps no rows in memory, as one does whose node takes turns with
// others: where rows are found, in order.
func TestConformanceOfWhatIsAskedOfTheDatabase(t *testing.T) {
	server := mongotest.Ferret(t)
	conformance(t, server, Config{noLive: true}, "Order/D", "Order/R", "Lost/D", "Lost/W",
		"Wait/Wo", "Wait/T", "Wait/An", "Wait/B", "Step/In", "Step/KeyHeld", "Restart/Lines",
		"Task/Ov")
}
