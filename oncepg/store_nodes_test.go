package oncepg

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/queue"
)

// twoNodes are two stores on one schema.
func twoNodes(t *testing.T, cfg StoreConfig) (a, b *Store) {
	t.Helper()
	address := testserver.Postgres(t).URL()
	return openStore(t, openPool(t, address, 6), cfg), openStore(t, openPool(t, address, 6), cfg)
}

// K03, G01, G02: the same messages come to two nodes at the same moment, again and again. One
// arrival of each is accepted, each other one is a duplicate and counted, and nobody is told that
// the store is away.
func TestK03G01G02OfManyArrivalsAtTwoNodesOneIsAccepted(t *testing.T) {
	t.Parallel()
	a, b := twoNodes(t, StoreConfig{})
	const messages, senders, rounds = 10, 8, 8
	var mu sync.Mutex
	outcomes := map[queue.Outcome]int{}
	var wg sync.WaitGroup
	for i := range senders {
		s := []*Store{a, b}[i%2]
		wg.Go(func() {
			for range rounds {
				for _, n := range rand.Perm(messages) {
					r, err := s.Append(context.Background(),
						[]queue.Arrival{testArrival(fmt.Sprint(n), "T")})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					outcomes[r[0].Outcome]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	const repeats = messages * (senders*rounds - 1)
	if outcomes[queue.Accepted] != messages || outcomes[queue.Duplicate] != repeats {
		t.Errorf("outcomes %v, want %d accepted and %d duplicates", outcomes, messages, repeats)
	}
	for n := range messages {
		d, err := a.Row(t.Context(), queue.Callback, testArrival(fmt.Sprint(n), "T").Identity.ID())
		if err != nil {
			t.Fatal(err)
		}
		if d.Row.Duplicates != senders*rounds-1 {
			t.Errorf("message %d has %d duplicates", n, d.Row.Duplicates)
		}
		var kept, want []int64
		for _, arrival := range d.Arrivals {
			kept = append(kept, arrival.N)
		}
		for i := range int64(senders*rounds - 1) { // the first and the last 20
			if n := i + 1; n <= 20 || n > senders*rounds-1-20 {
				want = append(want, n)
			}
		}
		if !slices.Equal(kept, want) {
			t.Errorf("of message %d the arrivals %v are kept, want %v", n, kept, want)
		}
	}
}

// Of repeats that share a window one is accepted, also the second time that they come.
func TestRepeatsThatShareAWindowAreOneAcceptedAndDuplicates(t *testing.T) {
	t.Parallel()
	s := openStore(t, openPool(t, testserver.Postgres(t).URL(), 6), StoreConfig{})
	for round, want := range [][]queue.Outcome{
		{queue.Accepted, queue.Duplicate, queue.Duplicate},
		{queue.Duplicate, queue.Duplicate, queue.Duplicate},
	} {
		var calls []*intake
		for range want {
			calls = append(calls, &intake{list: []queue.Arrival{testArrival("x", "T")},
				done: make(chan struct{})})
		}
		if later := s.appendSingle(t.Context(), "slot", calls); len(later) > 0 {
			t.Fatalf("%d calls have no answer", len(later))
		}
		for i, in := range calls {
			if in.err != nil || in.receipts[0].Outcome != want[i] {
				t.Errorf("round %d: %+v, %v, want %s", round, in.receipts, in.err, want[i])
			}
		}
	}
	d, err := s.Row(t.Context(), queue.Callback, testArrival("x", "T").Identity.ID())
	if err != nil || d.Row.Duplicates != 5 || len(d.Arrivals) != 5 {
		t.Errorf("%d duplicates, %d arrivals, %v", d.Row.Duplicates, len(d.Arrivals), err)
	}
}

// G02: an arrival waits for a rival that has stored the same and not committed yet, and is what
// that makes of it.
func TestG02AnArrivalThatMeetsAnOpenRivalIsWhatTheRivalMakesOfIt(t *testing.T) {
	t.Parallel()
	address := testserver.Postgres(t).URL()
	s, p := openStore(t, openPool(t, address, 6), StoreConfig{}), openPool(t, address, 4)
	for i, c := range []struct {
		end  string
		want queue.Outcome
	}{{"COMMIT", queue.Duplicate}, {"ROLLBACK", queue.Accepted}} {
		call := testArrival(fmt.Sprint(i), "T")
		rival, err := p.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer rival.Release()
		if _, err := rival.Exec(t.Context(), "BEGIN"); err != nil {
			t.Fatal(err)
		}
		_, err = rival.Exec(t.Context(), `WITH work AS (INSERT INTO once.queue_work (seq, phase, lane)
				VALUES ($1, 'done', 'flow'))
			INSERT INTO once.queue_content (seq, kind, identity, fingerprint, source, retention_ms,
				keep_body_ms, received_at)
			VALUES ($1, 1, $2, $3, 'robots', 1000, 1000, now())`, 1_000_000+2*i,
			call.Identity[:], call.Fingerprint[:])
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan queue.Outcome, 1)
		go func() {
			r, err := s.Append(context.Background(), []queue.Arrival{call})
			if err != nil {
				t.Error(err)
				got <- ""
				return
			}
			got <- r[0].Outcome
		}()
		testserver.Until(t, patience, "the arrival waits", func() bool {
			return ask[int](t, p, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
				AND datname = current_database()`) == 1
		})
		if _, err := rival.Exec(t.Context(), c.end); err != nil {
			t.Fatal(err)
		}
		if outcome := <-got; outcome != c.want {
			t.Errorf("after %s it is %q, want %q", c.end, outcome, c.want)
		}
	}
}

// A node that stands still while it has the turn loses it. When it goes on, nothing of what it had
// decided is in the store, and it decides anew.
func TestANodeThatStandsStillLosesTheTurn(t *testing.T) {
	t.Parallel()
	address := testserver.Postgres(t).URL()
	a := openStore(t, openPool(t, address, 6), StoreConfig{Frozen: 500 * time.Millisecond})
	b := openStore(t, openPool(t, address, 6), StoreConfig{})
	if _, err := a.Append(t.Context(), []queue.Arrival{testArrival("x", "T")}); err != nil {
		t.Fatal(err)
	}
	started, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var once sync.Once
	go func() {
		_, err := a.Step(context.Background(), queue.StepRequest{Lane: testLane, Max: 10,
			Decide: func(v queue.View, r queue.Row) (queue.Settlement, error) {
				once.Do(func() { close(started); <-goOn })
				return countTask(v, r)
			}})
		ended <- err
	}()
	<-started
	if got, err := b.Step(t.Context(), queue.StepRequest{Lane: testLane, Max: 10,
		Decide: countTask}); err != nil || got.Rows != 1 {
		t.Errorf("the other node did %+v, %v", got, err)
	}
	close(goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	task, lines, err := b.Task(t.Context(), testFlow, "T")
	if err != nil || task.Version != 1 || len(lines) != 1 {
		t.Errorf("task %+v with %d lines, %v", task, len(lines), err)
	}
	page, err := a.Rows(t.Context(), queue.RowQuery{Kind: queue.Effect, Limit: 10})
	if err != nil || len(page.Rows) != 1 {
		t.Errorf("effects %+v, %v", page.Rows, err)
	}
}

// A node that gives no sign of life loses its rows; what it then settles changes nothing.
func TestD06TheRowsOfALostNodeAreDueAgainAndItsGrantsVoid(t *testing.T) {
	t.Parallel()
	address := testserver.Postgres(t).URL()
	a := openStore(t, openPool(t, address, 6), StoreConfig{})
	if _, err := a.Append(t.Context(), []queue.Arrival{testArrival("x", "T")}); err != nil {
		t.Fatal(err)
	}
	had, err := a.Lease(t.Context(), queue.LeaseRequest{Lane: testLane, Max: 1, For: time.Hour})
	if err != nil || len(had.Rows) != 1 {
		t.Fatalf("leased %+v, %v", had, err)
	}
	a.stop() // it gives no sign of life any more
	a.background.Wait()
	b := openStore(t, openPool(t, address, 6), StoreConfig{NodeLost: 200 * time.Millisecond})
	var got queue.Leased
	testserver.Until(t, patience, "the row is due again", func() bool {
		got, err = b.Lease(t.Context(), queue.LeaseRequest{Lane: testLane, Max: 1, For: time.Hour})
		return err != nil || len(got.Rows) == 1
	})
	if err != nil || got.Rows[0].Lost != 1 || got.Rows[0].Attempt != 2 ||
		got.Rows[0].Fence <= had.Rows[0].Fence {
		t.Fatalf("leased %+v, %v", got, err)
	}
	errs := a.Settle(t.Context(), []queue.Settlement{{Grant: had.Rows[0].Grant(),
		State: queue.Done}})
	if errs[0] != once.ErrLeaseLost {
		t.Errorf("the lost node's settlement: %v", errs[0])
	}
	errs = b.Settle(t.Context(), []queue.Settlement{{Grant: got.Rows[0].Grant(),
		State: queue.Done}})
	if errs[0] != nil {
		t.Error(errs[0])
	}
}

// D05: an order key is worked in order and one at a time, whichever node takes its rows.
func TestD05AnOrderKeyStaysInOrderOverTwoNodes(t *testing.T) {
	t.Parallel()
	a, b := twoNodes(t, StoreConfig{})
	const keys, rows = 4, 10
	for i := range rows {
		for k := range keys {
			s := []*Store{a, b}[(i+k)%2]
			call := testArrival(fmt.Sprintf("%d/%d", k, i), fmt.Sprint("T", k))
			if _, err := s.Append(t.Context(), []queue.Arrival{call}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var mu sync.Mutex
	inHand, last, total := map[string]bool{}, map[string]int64{}, 0
	failed := map[int64]bool{}
	var wg sync.WaitGroup
	for _, s := range []*Store{a, b, a, b} {
		wg.Go(func() {
			for limit := time.Now().Add(2 * patience); time.Now().Before(limit); {
				got, err := s.Lease(context.Background(), queue.LeaseRequest{Lane: testLane, Max: 3,
					For: time.Hour})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				ended := total == keys*rows
				var sets []queue.Settlement
				for _, r := range got.Rows {
					if inHand[r.OrderKey] || r.Seq < last[r.OrderKey] {
						t.Errorf("%s: row %d after row %d", r.OrderKey, r.Seq, last[r.OrderKey])
					}
					inHand[r.OrderKey], last[r.OrderKey] = true, r.Seq
					set := queue.Settlement{Grant: r.Grant(), State: queue.Done}
					if rand.IntN(3) == 0 && !failed[r.Seq] {
						failed[r.Seq] = true
						set.State, set.RetryIn = queue.Pending, time.Millisecond
					} else {
						total++
					}
					sets = append(sets, set)
				}
				for _, r := range got.Rows { // others may take the key as soon as it is settled
					delete(inHand, r.OrderKey)
				}
				mu.Unlock()
				if ended {
					return
				}
				for _, err := range s.Settle(context.Background(), sets) {
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if total != keys*rows {
		t.Errorf("%d of %d rows were worked", total, keys*rows)
	}
}

// A callback that arrives while a turn runs, is worked in it and waits for a resource, is woken by
// one that arrives behind it and frees the resource in the same turn.
func TestAWaiterThatArrivesInTheMiddleOfATurnIsWokenInIt(t *testing.T) {
	t.Parallel()
	s := openStore(t, openPool(t, testserver.Postgres(t).URL(), 6), StoreConfig{Poll: time.Hour})
	receive := func(name string) {
		if _, err := s.Append(context.Background(), []queue.Arrival{testArrival(name,
			name)}); err != nil {
			t.Error(err)
		}
	}
	receive("first")
	var worked []string
	got, err := s.Step(t.Context(), queue.StepRequest{Lane: testLane, Max: 10,
		Decide: func(_ queue.View, r queue.Row) (queue.Settlement, error) {
			worked = append(worked, r.Task)
			wait := queue.WaitResource("road", "1")
			switch {
			case r.Task == "first":
				receive("waits")
				receive("frees")
			case r.Task == "frees":
				return queue.Settlement{State: queue.Done,
					Wake: []queue.Wake{{Wait: wait, First: true}}}, nil
			case len(worked) == 2:
				return queue.Settlement{State: queue.Parked,
					Park: &queue.Park{Waits: []string{wait}, Limit: time.Hour}}, nil
			}
			return queue.Settlement{State: queue.Done}, nil
		}})
	if want := []string{"first", "waits", "frees", "waits"}; err != nil ||
		!slices.Equal(worked, want) {
		t.Errorf("%+v, %v: worked %v, want %v", got, err, worked, want)
	}
}

// What is no text to PostgreSQL, and what is too long for an index, is kept as it came and found.
func TestTextsOfAnyKindAndLengthAreKeptAndFound(t *testing.T) {
	t.Parallel()
	s := openStore(t, openPool(t, testserver.Postgres(t).URL(), 6), StoreConfig{})
	long := strings.Repeat("a key that does not end, 0123456789. ", 300)
	for i, text := range []string{"nul \x00", "no UTF-8 \xff\xfe", `back\slash \x41`, long,
		long + "2", "ü"} {
		call := testArrival(fmt.Sprint(i), text)
		call.Event, call.OrderKey, call.Key, call.Body = text, text, []string{"k", text}, nil
		call.Peer, call.Cause = text, text
		if i%2 == 0 {
			call.Body = []byte(text)
		}
		if _, err := s.Append(t.Context(), []queue.Arrival{call}); err != nil {
			t.Fatal(err)
		}
		for _, q := range []queue.RowQuery{{Event: text}, {Task: text}, {Key: text},
			{Event: text, Task: text, Key: text, State: queue.Pending, Source: "robots"}} {
			q.Kind, q.Limit = queue.Callback, 10
			page, err := s.Rows(t.Context(), q)
			if err != nil || len(page.Rows) != 1 || page.Rows[0].Identity != call.Identity {
				t.Errorf("%.30q: %d rows, %v", text, len(page.Rows), err)
			}
		}
		d, err := s.Row(t.Context(), queue.Callback, call.Identity.ID())
		r := d.Row
		if err != nil || r.Event != text || r.OrderKey != text || r.Task != text ||
			r.Key[1] != text || r.Cause != text || string(r.Body) != string(call.Body) ||
			(r.Body == nil) != (call.Body == nil) {
			t.Errorf("%.30q came back as %.300q, %v", text, fmt.Sprint(r), err)
		}
	}
	got, err := s.Lease(t.Context(), queue.LeaseRequest{Lane: testLane, Max: 10, For: time.Hour})
	if err != nil || len(got.Rows) != 6 {
		t.Fatalf("leased %d rows, %v", len(got.Rows), err)
	}
	var sets []queue.Settlement
	for _, r := range got.Rows {
		sets = append(sets, queue.Settlement{Grant: r.Grant(), State: queue.Dead, Error: r.Task,
			DeadCause: queue.CausePermanent})
	}
	for _, err := range s.Settle(t.Context(), sets) {
		if err != nil {
			t.Error(err)
		}
	}
	if page, err := s.Rows(t.Context(), queue.RowQuery{Kind: queue.Callback, State: queue.Dead,
		Limit: 10}); err != nil || len(page.Rows) != 6 {
		t.Errorf("%d dead letters, %v", len(page.Rows), err)
	}
}
