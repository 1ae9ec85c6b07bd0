package oncepg_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/postgres"
	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/write"
)

// B07: a commit whose answer got lost was this call's own, and no duplicate.
func TestALostAnswerIsResolvedByReadingBackB07(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		write func(w *oncepg.Writer, proxy *testserver.Proxy) (write.Result, error)
	}{
		{"one", func(w *oncepg.Writer, _ *testserver.Proxy) (write.Result, error) {
			return w.Write(context.Background(), add("e", 1, 5))
		}},
		{"batch", func(w *oncepg.Writer, _ *testserver.Proxy) (write.Result, error) {
			rs, err := w.WriteAll(context.Background(),
				[]write.Event{add("e", 1, 5), add("e", 1, 5), add("f", "a", 1)})
			if err != nil {
				return write.Result{}, err
			}
			if rs[1].Outcome != write.Duplicate || rs[2].Outcome != write.Applied {
				return rs[0], fmt.Errorf("the others: %+v", rs[1:])
			}
			return rs[0], nil
		}},
		{"function", func(w *oncepg.Writer, proxy *testserver.Proxy) (write.Result, error) {
			do := func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO counters VALUES (1, 5)")
				proxy.Hold() // the answer that gets lost is the commit's
				return err
			}
			r, err := w.Apply(context.Background(), "e", 1, do)
			r.Numbers = write.Fields{"n": int64(5)}
			return r, err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := testserver.Postgres(t)
			admin := pool(t, db.URL())
			exec(t, admin, suiteTables)
			proxy, p := proxied(t, db, 1)
			w := open(t, p, config())
			// The tables' columns are known, and the connection has prepared what it will send.
			for _, events := range [][]write.Event{
				{add("u", 8, 0)}, {add("v", 9, 0)}, // the row is not there, as it will be
				{add("x", 9, 0), add("y", 9, 0), add("z", "w", 0)},
			} {
				if _, err := w.WriteAll(t.Context(), events); err != nil {
					t.Fatal(err)
				}
			}
			answers := make(chan answer, 1)
			if c.name != "function" {
				proxy.Hold()
			}
			go func() {
				r, err := c.write(w, proxy)
				answers <- answer{r, err}
			}()
			testserver.Until(t, limit, "it is committed", func() bool {
				return one[int](t, admin, "SELECT count(*) FROM counters WHERE id = 1") == 1
			})
			proxy.Restore()
			a := <-answers
			if a.err != nil || a.Outcome != write.Applied || a.Numbers["n"] != int64(5) {
				t.Errorf("%+v, %v", a.Result, a.err)
			}
			if n := one[int](t, admin, "SELECT n::int FROM counters WHERE id = 1"); n != 5 {
				t.Errorf("%d, want 5", n)
			}
		})
	}
}

// B06: connections that are cut at any moment neither lose an event nor count one twice.
func TestTheSumIsExactOverCutConnectionsB06(t *testing.T) {
	t.Parallel()
	db := testserver.Postgres(t)
	admin := pool(t, db.URL())
	exec(t, admin, suiteTables)
	proxy, p := proxied(t, db, 8)
	w := open(t, p, config())
	const (
		many   = 16
		events = 400
	)
	var (
		running sync.WaitGroup
		mu      sync.Mutex
		applied int
	)
	for i := range many {
		running.Go(func() {
			for j := range events / many {
				id := i*events/many + j
				for _, n := range []int{id, id, (id + 1) % events}[:1+rand.IntN(3)] {
					if rand.IntN(8) == 0 {
						proxy.CutAfter(int64(1 + rand.IntN(2000)))
					}
					r, err := w.Write(t.Context(), add(fmt.Sprint(n), n%5, n))
					if err != nil {
						t.Errorf("event %d: %v", n, err)
					}
					mu.Lock()
					if r.Outcome == write.Applied {
						applied++
					}
					mu.Unlock()
				}
			}
		})
	}
	running.Wait()
	if applied != events {
		t.Errorf("%d events were applied, want %d", applied, events)
	}
	if n := one[int](t, admin, "SELECT sum(n)::int FROM counters"); n != events*(events-1)/2 {
		t.Errorf("the sum is %d, want %d", n, events*(events-1)/2)
	}
}

func TestAServerThatIsGoneForAMomentIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := testserver.PostgresServer(t, postgres.Config{Durable: true})
	p := pool(t, s.URL("postgres"))
	exec(t, p, suiteTables)
	w := open(t, p, config())
	if _, err := w.Write(t.Context(), add("e1", 1, 1)); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	conf := config()
	conf.Patience = 200 * time.Millisecond
	impatient, err := oncepg.NewWriter(p, conf)
	if err != nil {
		t.Fatal(err)
	}
	_, err = impatient.Write(t.Context(), add("e2", 1, 1))
	if !errors.Is(err, once.ErrUnavailable) {
		t.Errorf("while it is down: %v", err)
	}
	if err := impatient.Open(t.Context()); !errors.Is(err, once.ErrUnavailable) {
		t.Errorf("open while it is down: %v", err)
	}
	answers := make(chan answer, 1)
	go func() {
		r, err := w.Write(context.Background(), add("e2", 1, 1))
		answers <- answer{r, err}
	}()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if a := <-answers; a.err != nil || a.Outcome != write.Applied || a.Numbers["n"] != int64(2) {
		t.Errorf("%+v, %v", a.Result, a.err)
	}
	r, err := w.Write(t.Context(), add("e1", 1, 1))
	if err != nil || r.Outcome != write.Duplicate {
		t.Errorf("the event before: %+v, %v", r, err)
	}
}
