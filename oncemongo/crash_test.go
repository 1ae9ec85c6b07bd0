package oncemongo

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver/mongotest"
	"github.com/oncekit/once/queue"
)

const (
	crashLane = "flow"
	crashFlow = "transport"
)

func crashArrival(name string) queue.Arrival {
	return queue.Arrival{Identity: once.DeriveIdentity(once.Identity{7}, name, 0),
		Fingerprint: once.FingerprintRaw([]byte(name)), Kind: queue.Callback, Lane: crashLane,
		OrderKey: "task/T", State: queue.Pending, Source: "robots", Event: name,
		Flow: crashFlow, Task: "T", Key: []string{name}, Body: []byte(name),
		Retention: 24 * time.Hour}
}

// transition moves the task on, hands it a resource, takes another one away, queues an effect and
// wakes who waits: a settlement of everything that there is.
func transition(v queue.View, r queue.Row) (queue.Settlement, error) {
	task, err := v.Task(crashFlow, "T")
	if err != nil {
		return queue.Settlement{}, err
	}
	station, err := v.Resource("station", "S")
	if err != nil {
		return queue.Settlement{}, err
	}
	lift, err := v.Resource("lift", "L")
	if err != nil {
		return queue.Settlement{}, err
	}
	station.Flow, station.Task, station.Fence = crashFlow, "T", station.Fence+1
	lift.Flow, lift.Task, lift.Fence = "", "", lift.Fence+1
	from := task.State
	task.State, task.Retention = "moved by "+r.Event, time.Hour
	task.Fields = map[string]any{"n": task.Version + 1}
	return queue.Settlement{State: queue.Done,
		Tasks:     []queue.TaskChange{{Task: task, From: from, Event: r.Event}},
		Resources: []queue.Resource{station, lift},
		Effects: []queue.Arrival{{Identity: once.DeriveIdentity(r.Identity, "open", 0),
			Kind: queue.Effect, Lane: "effect/plc", State: queue.Pending, Source: "plc",
			Event: "open", Cause: r.ID(), Retention: time.Hour}},
		Wake: []queue.Wake{{Wait: "resource/lift/L"}}}, nil
}

// parkWaiter lets one more callback wait for the lift.
func parkWaiter(t *testing.T, s *Store) {
	t.Helper()
	w := crashArrival("waiter")
	w.OrderKey, w.Lane = "task/W", "handler/wait"
	if _, err := s.Append(t.Context(), []queue.Arrival{w}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Lease(t.Context(), queue.LeaseRequest{Lane: w.Lane, Max: 1, For: time.Minute})
	if err != nil || len(got.Rows) != 1 {
		t.Fatalf("leased %v, %v", got.Rows, err)
	}
	err = s.Settle(t.Context(), []queue.Settlement{{Grant: got.Rows[0].Grant(),
		State: queue.Parked, Park: &queue.Park{Waits: []string{"resource/lift/L"},
			Limit: time.Hour}}})[0]
	if err != nil {
		t.Fatal(err)
	}
}

// Each settlement happens whole or not at all, wherever in its commit the process ends: after the
// point at which the journal is in the database it has happened, before it has not. The next
// process finds one or the other, and works what is left.
func TestACommitHappensWholeOrNotAtAllWhereverTheProcessEnds(t *testing.T) {
	mongotest.Each(t, func(t *testing.T, server mongotest.Server) {
		facts := factsOf(t, server)
		for n := int64(1); ; n++ { // the process ends at the nth point that it comes to
			ended := false
			t.Run(fmt.Sprint("point", n), func(t *testing.T) {
				ended = crashAt(t, server, facts, n)
			})
			if !ended || t.Failed() { // no point is left
				if want := int64(5); n <= want && !t.Failed() && !facts.Transactions {
					t.Errorf("a commit has %d points, want more than %d", n-1, want)
				}
				return
			}
		}
	})
}

// crashAt steps one callback in a process that ends at the nth point, and looks at what the next
// process finds. It reports false if there was no such point.
func crashAt(t *testing.T, server mongotest.Server, facts Facts, n int64) bool {
	db, clock := server.Database(t), newClock()
	var left atomic.Int64
	left.Store(1 << 40)
	var at point
	cfg := Config{Now: clock.now, facts: &facts, Poll: time.Hour}
	dying := cfg
	dying.failpoint = func(p point) bool {
		if left.Add(-1) == 0 {
			at = p
			return true
		}
		return false
	}
	s := openIn(t, db, dying)
	parkWaiter(t, s)
	first := crashArrival("first")
	if _, err := s.Append(t.Context(), []queue.Arrival{first}); err != nil {
		t.Fatal(err)
	}
	left.Store(n)
	step := queue.StepRequest{Lane: crashLane, Max: 10, Decide: transition}
	_, err := s.Step(context.Background(), step)
	if err == nil {
		return false
	}
	if !errors.Is(err, once.ErrUnavailable) {
		t.Errorf("the dying process said %v", err)
	}
	cfg.alone = true
	next := openIn(t, db, cfg)
	happened := at != pointRead
	wantWhole(t, next, first, happened)
	stepAll(t, next, step)
	wantWhole(t, next, first, true)
	return true
}

// stepAll works what is due.
func stepAll(t *testing.T, s *Store, r queue.StepRequest) {
	t.Helper()
	for range 100 {
		got, err := s.Step(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if !got.More {
			return
		}
	}
	t.Fatal("the steps don't end")
}

// wantWhole compares all that the transition changes: every part of it is there, or none.
func wantWhole(t *testing.T, s *Store, a queue.Arrival, happened bool) {
	t.Helper()
	ctx := t.Context()
	want := func(what string, got, before, after any) {
		t.Helper()
		if w := map[bool]any{false: before, true: after}[happened]; got != w {
			t.Errorf("%s: %v, want %v (happened %v)", what, got, w, happened)
		}
	}
	d, err := s.Row(ctx, queue.Callback, a.Identity.ID())
	if err != nil {
		t.Fatal(err)
	}
	want("the callback", d.Row.State, queue.Pending, queue.Done)
	task, lines, err := s.Task(ctx, crashFlow, "T")
	if err != nil && !errors.Is(err, once.ErrNotFound) {
		t.Fatal(err)
	}
	want("the task's version", task.Version, int64(0), int64(1))
	want("its history", len(lines), 0, 1)
	page, err := s.Resources(ctx, queue.ResourceQuery{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	want("resources", len(page.Resources), 0, 2)
	for _, r := range page.Resources {
		want("the fence of "+r.Kind, r.Fence, int64(0), int64(1))
	}
	effects, err := s.Rows(ctx, queue.RowQuery{Kind: queue.Effect, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	want("effects", len(effects.Rows), 0, 1)
	waiter, err := s.Row(ctx, queue.Callback, crashArrival("waiter").Identity.ID())
	if err != nil {
		t.Fatal(err)
	}
	want("who waits", waiter.Row.State, queue.Parked, queue.Pending)
	counts, err := s.Counts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	of := func(k queue.Kind, source string, st queue.State) int64 {
		return counts.Rows[queue.RowCount{Kind: k, Source: source, State: st}]
	}
	want("done callbacks", of(queue.Callback, "robots", queue.Done), int64(0), int64(1))
	want("pending callbacks", of(queue.Callback, "robots", queue.Pending), int64(1), int64(1))
	want("pending effects", of(queue.Effect, "plc", queue.Pending), int64(0), int64(1))
}
