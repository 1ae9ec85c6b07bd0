package oncepg_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/write"
)

// load is work that clients give to a database without a break, while its primary dies.
type load interface {
	// work does one piece of work, with a number that no other has, to the end: it repeats what
	// has no answer, as a client would.
	work(ctx context.Context, n int) error
	// check looks at what there is when n pieces are done.
	check(t *testing.T, p *pgxpool.Pool, n int)
}

// pairURL is how clients connect. The user is called as the schema of the records, where names are
// looked up first.
func pairURL(pair *testserver.PostgresPair) string { return pair.URL() + "&search_path=public" }

const (
	// loadClients are how many work at each load.
	loadClients = 4
	// loadPieces are done before the primary dies, and after it.
	loadPieces = 25
	// loadPatience is what a call of a writer gets: the client has to call again.
	loadPatience = 300 * time.Millisecond
	// loadLimit is when a client gives a call up, and calls again.
	loadLimit = 3 * time.Second
)

// underLoad lets clients work at loads, disturbs them while all are at work, if disturb is not nil,
// and lets them go on.
func underLoad(t *testing.T, p *pgxpool.Pool, disturb func(), loads ...load) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var (
		running sync.WaitGroup
		next    = make([]atomic.Int64, len(loads))
		done    = make([]atomic.Int64, len(loads))
		stop    atomic.Bool
	)
	for i, l := range loads {
		for range loadClients {
			running.Go(func() {
				for !stop.Load() {
					if err := l.work(ctx, int(next[i].Add(1)-1)); err != nil {
						t.Errorf("%T: %v", l, err)
						stop.Store(true)
					}
					done[i].Add(1)
				}
			})
		}
	}
	defer running.Wait() // also when the waiting below ends the test
	defer stop.Store(true)
	goOn := func() {
		t.Helper()
		for i := range loads {
			from := done[i].Load()
			testserver.Until(t, patience, fmt.Sprintf("%T goes on", loads[i]), func() bool {
				return stop.Load() || done[i].Load() >= from+loadPieces
			})
		}
	}
	goOn()
	if disturb != nil {
		disturb()
		goOn()
	}
	stop.Store(true)
	running.Wait()
	for i, l := range loads {
		l.check(t, p, int(next[i].Load()))
	}
}

// persist calls until there is an answer, as a client does that is told that the store is
// unavailable, or nothing at all.
func persist(ctx context.Context, call func(ctx context.Context) error) error {
	for {
		own, cancel := context.WithTimeout(ctx, loadLimit)
		err := call(own)
		cancel()
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("no answer at last: %w", errors.Join(ctx.Err(), err))
		case !errors.Is(err, once.ErrUnavailable) && !errors.Is(err, write.ErrBusy) &&
			!errors.Is(err, context.DeadlineExceeded):
			return err
		}
	}
}

// acknowledged remembers what clients were told.
type acknowledged struct {
	mu   sync.Mutex
	told map[int]string
}

func (a *acknowledged) tell(n int, what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.told == nil {
		a.told = map[int]string{}
	}
	a.told[n] = what
}

// any is one of those that were told.
func (a *acknowledged) any() (n int, what string, found bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for n, what = range a.told {
		return n, what, true
	}
	return 0, "", false
}

// What synchronous_commit says is kept: nothing that was acknowledged is lost, and nothing happens
// twice.
func TestAFailOverUnderLoadLosesAndRepeatsNothingE04(t *testing.T) {
	t.Parallel()
	for _, commit := range []string{"on", "remote_apply"} {
		t.Run(commit, func(t *testing.T) {
			t.Parallel()
			pair := testserver.PostgresWithStandby(t, commit)
			p := watchedPool(t, pairURL(pair))
			exec(t, p, suiteTables)
			conf := config()
			conf.Patience = loadPatience
			underLoad(t, p, func() { pair.FailOver(t) },
				&writerLoad{w: open(t, p, conf), p: p},
				&recordLoad{r: openRecords(t, p, oncepg.RecordsConfig{})},
				&queueLoad{s: openQueue(t, p)})
		})
	}
}

// The standby gets nothing any more, and nobody is told: that is what asynchronous replication
// costs. What made it certain here is a matter of luck elsewhere.
func TestAsynchronousReplicationForgetsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	pair := testserver.PostgresWithStandby(t, "local")
	p := watchedPool(t, pairURL(pair))
	exec(t, p, suiteTables)
	conf := config()
	w := open(t, p, conf)
	r := openRecords(t, p, oncepg.RecordsConfig{})
	if _, err := w.Write(t.Context(), add("before", 1, 1)); err != nil {
		t.Fatal(err)
	}
	if err := pair.Primary.AwaitStandby(); err != nil {
		t.Fatal(err)
	}
	pair.Log.Hold()
	if a, err := w.Write(t.Context(), add("after", 1, 10)); err != nil ||
		a.Outcome != write.Applied {
		t.Fatalf("it is acknowledged: %+v, %v", a, err)
	}
	if a, err := w.Write(t.Context(), add("after", 1, 10)); err != nil ||
		a.Outcome != write.Duplicate {
		t.Fatalf("it is acknowledged again: %+v, %v", a, err)
	}
	completeRecord(t, r, claimRecord(t, r, recordClaim("paid")), "done")
	pair.FailOver(t)
	after := pool(t, pairURL(pair))
	ids := one[[]string](t, after, "SELECT array_agg(id) FROM once_events")
	if n := one[int](t, after, "SELECT n::int FROM counters"); n != 1 ||
		len(ids) != 1 || ids[0] != "before" {
		t.Errorf("the new primary has %v, and counts %d", ids, n)
	}
	// The work that was done runs again.
	err := persist(t.Context(), func(ctx context.Context) error {
		_, err := r.Claim(ctx, recordClaim("paid"))
		return err
	})
	if err != nil {
		t.Errorf("claim of what was completed: %v", err)
	}
}
