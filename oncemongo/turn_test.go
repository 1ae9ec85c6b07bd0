package oncemongo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/mongotest"
	"github.com/oncekit/once/queue"
)

// patience is how long a test waits for what has to happen.
const patience = time.Minute

// await waits until cond holds.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	testserver.Until(t, patience, what, cond)
}

// dump is every document of a store but the turn, by collection and key.
func dump(t *testing.T, s *Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{callbacks, effects, arrivals, tasks, history, resources, counters,
		audit, rejected} {
		found, err := s.find(t.Context(), name, bson.D{}, nil, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range found {
			out[name+" "+raw.Lookup("_id").String()] = raw.String()
		}
	}
	return out
}

// A node that stands still after its commit, and goes on when others have long carried it out and
// gone on from there, changes nothing any more.
func TestWhatAnOvertakenNodeStillWritesChangesNothing(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, server mongotest.Server) {
		facts := factsOf(t, server)
		if facts.Transactions { // then nothing is carried out behind a commit
			return
		}
		db, clock := server.Database(t), newClock()
		cfg := Config{Now: clock.now, facts: &facts, Poll: time.Hour}
		frozen := cfg
		committed := false
		frozen.failpoint = func(p point) bool { return committed && p == pointCommitted }
		a := openIn(t, db, frozen)
		parkWaiter(t, a)
		step := queue.StepRequest{Lane: crashLane, Max: 10, Decide: transition}
		for _, name := range []string{"before", "first"} {
			if _, err := a.Append(t.Context(), []queue.Arrival{crashArrival(name)}); err != nil {
				t.Fatal(err)
			}
			if name == "before" { // so that the next one changes documents that are there
				stepAll(t, a, step)
			}
		}
		committed = true
		if _, err := a.Step(context.Background(), step); !errors.Is(err, once.ErrUnavailable) {
			t.Fatalf("the frozen node said %v", err)
		}
		late, err := a.readTurn(t.Context(), nil)
		if err != nil || len(late.Journal) == 0 {
			t.Fatalf("journal of %d writes, %v", len(late.Journal), err)
		}
		cfg.alone = true
		b := openIn(t, db, cfg)
		if _, err := b.Append(t.Context(), []queue.Arrival{crashArrival("second")}); err != nil {
			t.Fatal(err)
		}
		stepAll(t, b, step)
		before := dump(t, b)
		if err := b.carryOut(t.Context(), late.N, late.Journal); err != nil { // as a would
			t.Fatal(err)
		}
		after := dump(t, b)
		for k, v := range before {
			if after[k] != v {
				t.Errorf("%s was %s\nnow %s", k, v, after[k])
			}
		}
		if len(after) != len(before) {
			t.Errorf("%d documents, before %d", len(after), len(before))
		}
	})
}

// A node that loses the turn while it decides has decided nothing: what it found is worked out
// again, on what the other node left.
func TestADecisionThatWasOvertakenIsMadeAgainOnWhatIsThere(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, server mongotest.Server) {
		facts := factsOf(t, server)
		db, clock := server.Database(t), newClock()
		slow := Config{Now: clock.now, facts: &facts, Poll: time.Hour, turnLost: time.Hour}
		quick := slow
		quick.turnLost = 20 * time.Millisecond
		a, b := openIn(t, db, slow), openIn(t, db, quick)
		parkWaiter(t, a)
		if _, err := a.Append(t.Context(), []queue.Arrival{crashArrival("first")}); err != nil {
			t.Fatal(err)
		}
		inside, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		var done sync.WaitGroup
		done.Go(func() {
			got, err := a.Step(context.Background(), queue.StepRequest{Lane: crashLane, Max: 10,
				Decide: func(v queue.View, r queue.Row) (queue.Settlement, error) {
					once.Do(func() {
						close(inside)
						<-goOn
					})
					return transition(v, r)
				}})
			if err != nil || got.Rows != 0 {
				t.Errorf("the overtaken step: %+v, %v; want no row", got, err)
			}
		})
		<-inside
		stepAll(t, b, queue.StepRequest{Lane: crashLane, Max: 10, Decide: transition})
		wantWhole(t, b, crashArrival("first"), true)
		before := dump(t, b)
		close(goOn)
		done.Wait()
		wantWhole(t, b, crashArrival("first"), true)
		if after := dump(t, b); len(after) != len(before) {
			t.Errorf("%d documents, before %d", len(after), len(before))
		}
	})
}

// D06, D05: two nodes work the same lane side by side. Each row has one owner, each key is worked
// in order, and everything is worked once.
func TestD06TwoNodesWorkOneLaneEachRowOnceAndEachKeyInOrder(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, server mongotest.Server) {
		facts := factsOf(t, server)
		db := server.Database(t)
		cfg := Config{facts: &facts, turnShare: time.Millisecond, turnYield: 5 * time.Millisecond}
		stores := []*Store{openIn(t, db, cfg), openIn(t, db, cfg)}
		const rows, keys = 24, 3
		var wg sync.WaitGroup
		var mu sync.Mutex
		accepted := map[int]int{}
		for _, s := range stores { // K03: both get each message
			wg.Go(func() {
				for i := range rows {
					a := crashArrival(fmt.Sprint(i))
					a.OrderKey, a.Lane = fmt.Sprint("key", i%keys), "handler/x"
					got, err := s.Append(context.Background(), []queue.Arrival{a})
					if err != nil {
						t.Errorf("append: %v", err)
						return
					}
					if got[0].Outcome == queue.Accepted {
						mu.Lock()
						accepted[i]++
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		if len(accepted) != rows {
			t.Fatalf("%d of %d messages were accepted", len(accepted), rows)
		}
		worked := map[string][]int64{}
		total := 0
		for _, s := range stores {
			wg.Go(func() {
				for limit := time.Now().Add(patience); time.Now().Before(limit); {
					mu.Lock()
					all := total == rows
					mu.Unlock()
					if all {
						return
					}
					got, err := s.Lease(context.Background(), queue.LeaseRequest{Lane: "handler/x",
						Max: 2, For: time.Hour})
					if err != nil {
						t.Errorf("lease: %v", err)
						return
					}
					for _, r := range got.Rows {
						mu.Lock()
						worked[r.OrderKey] = append(worked[r.OrderKey], r.Seq)
						total++
						mu.Unlock()
						err := s.Settle(context.Background(), []queue.Settlement{{
							Grant: r.Grant(), State: queue.Done}})[0]
						if err != nil {
							t.Errorf("settle: %v", err)
						}
					}
				}
			})
		}
		wg.Wait()
		if total != rows {
			t.Errorf("%d rows were worked, want %d", total, rows)
		}
		for key, seqs := range worked {
			for i := 1; i < len(seqs); i++ {
				if seqs[i] <= seqs[i-1] {
					t.Errorf("key %s was worked in the order %v", key, seqs)
				}
			}
		}
	})
}

// D08: what a node had in hand that gives no sign of life is due again, long before its lease ends,
// and the attempt counts as lost.
func TestD08WhatALostNodeHadInHandIsDueAgain(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, server mongotest.Server) {
		facts := factsOf(t, server)
		db := server.Database(t)
		cfg := Config{facts: &facts, Poll: 10 * time.Millisecond, NodeLost: 50 * time.Millisecond,
			turnLost: 50 * time.Millisecond}
		a := openIn(t, db, cfg)
		if _, err := a.Append(t.Context(), []queue.Arrival{crashArrival("x")}); err != nil {
			t.Fatal(err)
		}
		request := queue.LeaseRequest{Lane: crashLane, Max: 1, For: 24 * time.Hour}
		got, err := a.Lease(t.Context(), request)
		if err != nil || len(got.Rows) != 1 {
			t.Fatalf("leased %+v, %v", got, err)
		}
		a.kill()
		b := openIn(t, db, cfg)
		var row queue.Row
		await(t, "the row of the lost node is due", func() bool {
			got, err := b.Lease(t.Context(), request)
			if err == nil && len(got.Rows) == 1 {
				row = got.Rows[0]
			}
			return row.Seq != 0
		})
		if row.Attempt != 2 || row.Lost != 1 {
			t.Errorf("attempt %d, lost %d, want 2 and 1", row.Attempt, row.Lost)
		}
		await(t, "the lost node is not listed any more", func() bool {
			list, err := b.readNodes(t.Context())
			return err == nil && len(list) == 1
		})
	})
}

// A node that is alone keeps the turn; one that comes gets it all the same, without being told that
// anybody was lost.
func TestANodeThatIsAloneGivesTheTurnToOneThatComes(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, server mongotest.Server) {
		facts := factsOf(t, server)
		db := server.Database(t)
		cfg := Config{facts: &facts, Poll: 10 * time.Millisecond, turnLost: time.Hour,
			NodeLost: time.Hour}
		a := openIn(t, db, cfg)
		await(t, "the first node sees that it is alone", a.solo.Load)
		if _, err := a.Append(t.Context(), []queue.Arrival{crashArrival("x")}); err != nil {
			t.Fatal(err)
		}
		head, err := a.readTurn(t.Context(), headFields)
		if err != nil || head.Holder != a.node {
			t.Errorf("the turn is held by %q, want %q, %v", head.Holder, a.node, err)
		}
		b := openIn(t, db, cfg) // it opens with a batch of its own
		if len(b.singly) > 0 {
			t.Errorf("it took the turn as if a node had been lost: %v", b.singly)
		}
		if got, err := b.Append(t.Context(), []queue.Arrival{crashArrival("x")}); err != nil ||
			got[0].Outcome != queue.Duplicate {
			t.Errorf("a repeat at the other node: %+v, %v", got, err)
		}
	})
}
