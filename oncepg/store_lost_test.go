package oncepg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/postgres"
	"github.com/oncekit/once/queue"
)

const (
	testLane = "flow"
	testFlow = "transport"
)

// testArrival is a callback of a task, which is its order key.
func testArrival(name, task string) queue.Arrival {
	return queue.Arrival{Identity: once.DeriveIdentity(once.Identity{7}, name, 0),
		Fingerprint: once.FingerprintRaw([]byte(name)), Kind: queue.Callback, Lane: testLane,
		State: queue.Pending, Source: "robots", Event: "moved", Flow: testFlow, Task: task,
		OrderKey: "task/" + task, Key: []string{name}, Body: []byte(name), Retention: time.Hour}
}

// countTask moves the task of a callback on by one, and sends a message of it.
func countTask(v queue.View, r queue.Row) (queue.Settlement, error) {
	task, err := v.Task(testFlow, r.Task)
	if err != nil {
		return queue.Settlement{}, err
	}
	from := task.State
	task.State, task.Retention = "counting", time.Hour
	return queue.Settlement{State: queue.Done,
		Tasks: []queue.TaskChange{{Task: task, From: from, Event: r.Event}},
		Effects: []queue.Arrival{{Identity: once.DeriveIdentity(r.Identity, "told", 0),
			Kind: queue.Effect, Lane: "effect/plc", State: queue.Pending, Source: "plc",
			Event: "told", Cause: r.ID(), Retention: time.Hour}}}, nil
}

// behindProxy is a database that is reached through a proxy, and directly.
func behindProxy(t *testing.T, conns int32) (proxy *testserver.Proxy,
	through, direct *pgxpool.Pool) {
	t.Helper()
	db := testserver.Postgres(t)
	proxy = testserver.NewProxy(t, db.Server.Addr())
	return proxy, openPool(t, postgres.URL(proxy.Addr(), db.Name), conns), openPool(t, db.URL(), 4)
}

// ask returns one value.
func ask[T any](t testing.TB, p *pgxpool.Pool, sql string, args ...any) (v T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.QueryRow(ctx, sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// B07: an arrival whose commit had no answer was stored by this very call, and is no duplicate.
func TestB07AnArrivalWhoseAnswerWasLostIsAccepted(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			proxy, through, direct := behindProxy(t, 6)
			s := openStore(t, through, StoreConfig{Windows: 1, Poll: time.Hour})
			call := func(name string) []queue.Arrival {
				var list []queue.Arrival
				for i := range n {
					list = append(list, testArrival(fmt.Sprint(name, i), "T"))
				}
				return list
			}
			if _, err := s.Append(t.Context(), call("warm")); err != nil { // prepares statements
				t.Fatal(err)
			}
			if n == 1 {
				proxy.Hold()
			} else { // its commit is a round trip of its own
				holdCommits(t, direct, proxy)
			}
			type result struct {
				receipts []queue.Receipt
				err      error
			}
			done := make(chan result, 1)
			go func() {
				r, err := s.Append(context.Background(), call("x"))
				done <- result{r, err}
			}()
			testserver.Until(t, patience, "it is stored", func() bool {
				return ask[int](t, direct, "SELECT count(*) FROM once.queue_rows") == 2*n
			})
			proxy.Restore()
			r := <-done
			if r.err != nil {
				t.Fatal(r.err)
			}
			for i, receipt := range r.receipts {
				if receipt.Outcome != queue.Accepted || receipt.Seq == 0 {
					t.Errorf("arrival %d: %+v", i, receipt)
				}
			}
			if got := ask[int](t, direct, "SELECT count(*) FROM once.queue_rows"); got != 2*n {
				t.Errorf("%d rows, want %d", got, 2*n)
			}
		})
	}
}

// A commit of the turn that had no answer is known to have happened: nothing is decided twice.
func TestB07ADecisionWhoseAnswerWasLostIsMadeOnce(t *testing.T) {
	t.Parallel()
	proxy, through, direct := behindProxy(t, 1)
	s := openStore(t, through, StoreConfig{Windows: 1, Poll: time.Hour})
	step := func(decide func(queue.View, queue.Row) (queue.Settlement, error)) (queue.Stepped,
		error) {
		return s.Step(context.Background(), queue.StepRequest{Lane: testLane, Max: 1,
			Decide: decide})
	}
	for i := range 2 {
		list := []queue.Arrival{testArrival(fmt.Sprint(i), "T")}
		if _, err := s.Append(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		if i == 0 { // prepares the statements
			if _, err := step(countTask); err != nil {
				t.Fatal(err)
			}
		}
	}
	var decided atomic.Int32
	type result struct {
		stepped queue.Stepped
		err     error
	}
	done := make(chan result, 1)
	go func() {
		out, err := step(func(v queue.View, r queue.Row) (queue.Settlement, error) {
			set, err := countTask(v, r)
			decided.Add(1)
			proxy.Hold() // the answer that gets lost is the commit's
			return set, err
		})
		done <- result{out, err}
	}()
	testserver.Until(t, patience, "it is committed", func() bool {
		return ask[int](t, direct, "SELECT version::int FROM once.tasks") == 2
	})
	proxy.Restore()
	r := <-done
	if r.err != nil || r.stepped.Rows != 1 || decided.Load() != 1 {
		t.Errorf("%+v, %v, decided %d times", r.stepped, r.err, decided.Load())
	}
	if n := ask[int](t, direct, "SELECT count(*) FROM once.queue_rows WHERE kind = 2"); n != 2 {
		t.Errorf("%d effects, want 2", n)
	}
}

// B06, B07: connections are cut at any moment, before a statement, after it, and between its effect
// and its answer. Whoever got no answer asks again. Each message is there once, and each moved its
// task once.
func TestB06B07CutConnectionsLoseNothingAndDoubleNothingInTheStore(t *testing.T) {
	t.Parallel()
	proxy, through, direct := behindProxy(t, 6)
	s := openStore(t, through, StoreConfig{Windows: 2})
	const senders, each, taskCount = 4, 10, 3
	stop := make(chan struct{})
	var cutting, wg sync.WaitGroup
	cutting.Go(func() {
		r := rand.New(rand.NewPCG(7, 7))
		for {
			select {
			case <-stop:
				proxy.Restore()
				return
			default:
			}
			proxy.CutAfter(int64(500 + r.IntN(40_000)))
			for before, i := proxy.Forwarded(), 0; i < 50 && proxy.Forwarded() == before; i++ {
				select { // until something went through, or nobody asks
				case <-stop:
				case <-time.After(time.Millisecond):
				}
			}
		}
	})
	for n := range senders {
		wg.Go(func() {
			for i := range each {
				list := []queue.Arrival{testArrival(fmt.Sprintf("%d/%d", n, i),
					fmt.Sprint("T", i%taskCount))}
				insist(t, func(ctx context.Context) error {
					_, err := s.Append(ctx, list)
					return err
				})
			}
		})
	}
	wg.Wait()
	insist(t, func(ctx context.Context) error {
		for {
			got, err := s.Step(ctx, queue.StepRequest{Lane: testLane, Max: 5, Decide: countTask})
			if err != nil || !got.More {
				return err
			}
		}
	})
	close(stop)
	cutting.Wait()
	for what, want := range map[string]int{
		"SELECT count(*) FROM once.queue_rows WHERE kind = 1 AND phase = 'done'": senders * each,
		"SELECT count(*) FROM once.queue_rows WHERE kind = 1":                    senders * each,
		"SELECT count(*) FROM once.queue_rows WHERE kind = 2":                    senders * each,
		"SELECT sum(version)::int FROM once.tasks":                               senders * each,
		"SELECT count(*) FROM once.task_history":                                 senders * each,
		"SELECT sum(n)::int FROM once.counters WHERE state = 'done'":             senders * each,
		"SELECT sum(n)::int FROM once.counters WHERE what = 'callback'":          senders * each,
	} {
		if got := ask[int](t, direct, what); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
}

// insist asks until the store answers.
func insist(t *testing.T, fn func(context.Context) error) {
	for limit := time.Now().Add(2 * patience); ; {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := fn(ctx)
		cancel()
		if err == nil {
			return
		}
		if !errors.Is(err, once.ErrUnavailable) || time.Now().After(limit) {
			t.Errorf("the store said %v", err)
			return
		}
	}
}

// holdCommits holds the answers back once a transaction has stored something: until then a lock
// keeps it waiting.
func holdCommits(t *testing.T, direct *pgxpool.Pool, proxy *testserver.Proxy) {
	t.Helper()
	_, err := direct.Exec(t.Context(), `CREATE FUNCTION once.slow() RETURNS trigger
		LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.2); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON once.queue_content
		DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION once.slow()`)
	if err != nil {
		t.Fatal(err)
	}
	go func() { // the commit is under way when the insert has its answer
		for ask[int](t, direct, `SELECT count(*) FROM pg_stat_activity
			WHERE query ILIKE 'commit%' AND wait_event = 'PgSleep'`) == 0 {
			select {
			case <-t.Context().Done():
				return
			case <-time.After(time.Millisecond):
			}
		}
		proxy.Hold()
	}()
}
