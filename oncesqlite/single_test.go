package oncesqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/oncekit/once/queue"
)

// Between the lease of a row that is worked singly and its settlement a person makes an earlier row
// of its key due again.
func TestARowThatIsWorkedSinglyIsSettledThoughAnEarlierOneOfItsKeyBecomesDue(t *testing.T) {
	var probe func(Point)
	cfg := Config{Path: filepath.Join(t.TempDir(), "once.db"), Probe: func(p Point) {
		if probe != nil {
			probe(p)
		}
	}}
	s := openAt(t, cfg)
	mustAppend(t, s, flowRow("earlier", "go"))
	mustSettle(t, s, mustLease(t, s, "flow", 1)[0],
		queue.Settlement{State: queue.Dead, DeadCause: queue.CauseIllegal})
	mustAppend(t, s, flowRow("later", "go"))
	var retried sync.WaitGroup
	err := s.do(t.Context(), &op{run: func(tx *txn) error {
		s.suspects[s.lanes["flow"]] = 2 // as after a crash
		tx.after = append(tx.after, func() {
			probe = func(p Point) {
				if p != PointCommit || len(s.working) == 0 {
					return
				}
				probe = nil
				retried.Go(func() {
					id := identityOf("earlier").ID()
					by := queue.Action{Name: "retry", Actor: "ann", Reason: "test"}
					err := s.Retry(context.Background(), queue.Callback, id, by, nil)
					if err != nil {
						t.Errorf("retry: %v", err)
					}
				})
				until(t, "the retry to be handed over", func() bool { return len(s.ops) > 0 })
			}
		})
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	r := queue.StepRequest{Lane: "flow", Max: 10,
		Decide: func(_ queue.View, row queue.Row) (queue.Settlement, error) {
			order = append(order, string(row.Body))
			return queue.Settlement{State: queue.Done}, nil
		}}
	for range 5 {
		if _, err := s.Step(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		retried.Wait()
	}
	if len(order) != 2 || order[0] != "later" || order[1] != "earlier" {
		t.Errorf("worked %v, want the one in hand, then the earlier one", order)
	}
	checkFile(t, s)
}

// Whatever has the task's id for a text is found by it, so a look may have to end before it is
// sure.
func TestATaskOfWhichNobodyCanSayCountsAsBusy(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	var as []queue.Arrival
	for i := range maxBusyLooks + 10 {
		a := callback(fmt.Sprint(i))
		a.Key = []string{fmt.Sprint(i), "5"}
		as = append(as, a)
	}
	mustAppend(t, s, as...)
	for task, want := range map[string]bool{"5": true, "6": false} {
		err := s.Transact(t.Context(), func(v queue.View) (queue.Settlement, error) {
			busy, err := v.Busy("transport", task, 0)
			if busy != want {
				t.Errorf("task %s is busy: %v", task, busy)
			}
			return queue.Settlement{}, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
