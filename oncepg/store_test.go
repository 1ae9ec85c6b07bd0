package oncepg

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/queue/queuetest"
)

// patience is how long a test waits for what has to happen.
const patience = time.Minute

// slower is by how much a handler's Commit may take longer here than the suite asks: each of its
// statements is two round trips, on a machine that does much else.
const slower = 60

// storeClock is the time of a store under test.
type storeClock struct {
	mu sync.Mutex
	t  time.Time
}

func newStoreClock() *storeClock {
	return &storeClock{t: time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)}
}

func (c *storeClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *storeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// schemas is a database whose cases have a schema each: a database takes longer to make.
type schemas struct {
	url string
	n   atomic.Int64
}

func newSchemas(t testing.TB) *schemas {
	t.Helper()
	return &schemas{url: testserver.Postgres(t).URL()}
}

// next names a schema that nobody has, in which unnamed tables of handlers are too.
func (s *schemas) next() (address, schema string) {
	schema = fmt.Sprintf("case %d", s.n.Add(1))
	return s.url + "&search_path=" + url.PathEscape(`"`+schema+`"`), schema
}

// openPool connects to a database.
func openPool(t testing.TB, address string, conns int32) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = conns
	p, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// openStore opens a store that is closed when the test ends.
func openStore(t testing.TB, p *pgxpool.Pool, cfg StoreConfig) *Store {
	t.Helper()
	s, err := NewStore(p, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Open(ctx); err != nil {
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
func (s *Store) kill() {
	s.killed.Store(true)
	if c := s.holding.Load(); c != nil { // its transaction ends with its connection
		_ = (*c).Close()
	}
}

func storeHarness(t *testing.T, address string, clock *storeClock, cfg StoreConfig,
) queuetest.Harness {
	s := openStore(t, openPool(t, address, 5), cfg)
	return queuetest.Harness{
		Store: s, Now: clock.now, Advance: clock.advance, SQL: true,
		Reopen: func(t *testing.T, clean bool) queuetest.Harness {
			if clean {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				return storeHarness(t, address, clock, cfg)
			}
			s.kill()
			next := cfg
			next.alone = true
			return storeHarness(t, address, clock, next)
		},
	}
}

func TestStoreConformance(t *testing.T) { storeConformance(t, "") }

// The same without prepared statements, as behind a pooler that does not know them.
func TestStoreConformanceWithoutPreparedStatements(t *testing.T) {
	storeConformance(t, "&default_query_exec_mode=exec", "Append/", "Change/", "Wait/Wo", "Task/Ov",
		"Browse/EveryF")
}

func storeConformance(t *testing.T, options string, prefixes ...string) {
	db := newSchemas(t)
	queuetest.Run(t, func(t *testing.T, opts queuetest.Options) queuetest.Harness {
		address, schema := db.next()
		address += options
		clock := newStoreClock()
		return storeHarness(t, address, clock, StoreConfig{Schema: schema, Now: clock.now,
			RejectedPerSource: opts.RejectedPerSource, Windows: 2,
			CommitLimit: opts.CommitTimeout * slower})
	}, prefixes...)
}
