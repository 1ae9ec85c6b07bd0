package oncesqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/oncekit/once/queue"
)

// tally is what two dispatchers did with each row.
type tally struct {
	mu    sync.Mutex
	owned map[queue.Grant]bool
	done  map[string]int
	tries int
}

// attempt pauses, now and then for longer than its lease and deaf to its context, as a process does
// that was stopped. The pauses are real time, as the leases of the store are.
func (y *tally) attempt(t *testing.T) func(context.Context, queue.Row) queue.Settlement {
	return func(ctx context.Context, r queue.Row) queue.Settlement {
		y.mu.Lock()
		y.tries++
		grant := r.Grant()
		if y.owned[grant] {
			t.Errorf("row %d has two owners with the fence %d", r.Seq, r.Fence)
		}
		y.owned[grant] = true
		y.mu.Unlock()
		pause := time.Duration(rand.IntN(3)) * time.Millisecond
		if rand.IntN(40) == 0 {
			pause = 150 * time.Millisecond
		}
		<-time.After(pause)
		set := queue.Settlement{State: queue.Done,
			Effects: []queue.Arrival{effectOf(string(r.Body))}}
		set.Then = func(_ queue.View, r queue.Row) queue.Settlement {
			y.mu.Lock()
			y.done[string(r.Body)]++
			y.mu.Unlock()
			return queue.Settlement{}
		}
		return set
	}
}

// frozen is a store that a process stopped in the middle can't renew its leases at.
type frozen struct{ *Store }

func (f frozen) Renew(_ context.Context, grants []queue.Grant, _ time.Duration) []error {
	errs := make([]error, len(grants))
	for i := range errs {
		errs[i] = errors.New("this process stands still")
	}
	return errs
}

// The case is of two processes, of which SIGSTOP stops one now and then for longer than its lease.
// One process alone has a file of SQLite, so two dispatchers in one process stand for them: they
// share nothing but the store, can't renew their leases, and pause in their tries.
func TestD06_TwoDispatchersSettleEachRowOnce(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	const rows = 1000
	var as []queue.Arrival
	for i := range rows {
		a := callback(fmt.Sprint(i))
		a.OrderKey = map[int]string{3: "A", 7: "B"}[i%20]
		if as = append(as, a); len(as) == 100 {
			mustAppend(t, s, as...)
			as = nil
		}
	}
	y := &tally{owned: map[queue.Grant]bool{}, done: map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 2 {
		d, err := queue.NewDispatcher(frozen{s}, []queue.Worker{{Lane: testLane, Concurrency: 8,
			Lease: 100 * time.Millisecond, MaxLost: 1000, Attempt: y.attempt(t)}}, nil,
			queue.Config{Poll: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { d.Run(ctx) })
	}
	until(t, "all rows to be done", func() bool {
		return scan(t, s, "SELECT count(*) FROM rows WHERE kind = 1 AND phase IS NOT NULL")[0] == 0
	})
	cancel()
	wg.Wait()
	for i := range rows {
		if n := y.done[fmt.Sprint(i)]; n != 1 {
			t.Errorf("row %d was settled %d times", i, n)
		}
	}
	if n := scan(t, s, "SELECT count(*) FROM rows WHERE kind = 2")[0]; n != rows {
		t.Errorf("%d effects of %d rows", n, rows)
	}
	if y.tries <= rows {
		t.Errorf("%d tries of %d rows: no lease was lost", y.tries, rows)
	}
	checkFile(t, s)
}

func TestADispatcherWorksAStoreToItsEnd(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	order := map[string][]string{}
	failed := map[string]bool{}
	attempt := func(_ context.Context, r queue.Row) queue.Settlement {
		mu.Lock()
		defer mu.Unlock()
		if r.Seq%7 == 0 && !failed[string(r.Body)] {
			failed[string(r.Body)] = true
			return queue.Settlement{State: queue.Pending, RetryIn: 5 * time.Millisecond}
		}
		order[r.OrderKey] = append(order[r.OrderKey], string(r.Body))
		return queue.Settlement{State: queue.Done}
	}
	d, err := queue.NewDispatcher(s, []queue.Worker{{Lane: testLane, Attempt: attempt}}, nil,
		queue.Config{Poll: time.Hour}) // the bells alone
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { d.Run(ctx) })
	const keys, each = 4, 30
	for i := range each {
		for key := range keys {
			a := callback(fmt.Sprint(key, "/", i))
			a.OrderKey = fmt.Sprint(key)
			mustAppend(t, s, a)
		}
	}
	until(t, "all rows to be done", func() bool {
		return scan(t, s, "SELECT count(*) FROM rows WHERE phase IS NOT NULL")[0] == 0
	})
	cancel()
	wg.Wait()
	for key := range keys {
		for i, name := range order[fmt.Sprint(key)] {
			if name != fmt.Sprint(key, "/", i) {
				t.Errorf("key %d: %s in place %d", key, name, i)
			}
		}
	}
	checkFile(t, s)
}
