package queuetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

func stepCases() []Case {
	cases := []Case{
		{Name: "Step/InOrder", Promise: "due rows are decided in order and settled in one step, " +
			"each with its try counted", run: stepOrder},
		{Name: "Step/Max", Promise: "a step decides no more rows than asked for and says that " +
			"more are due", run: stepMax},
		{Name: "Step/DecisionFails", Promise: "a row whose decision fails waits for another try, " +
			"and its neighbours are settled", run: stepFails},
		{Name: "Step/DecisionPanics", Promise: "a row whose decision panics becomes a dead " +
			"letter, and its neighbours are settled", run: stepPanics},
		{Name: "Step/PoisonBlocks", Promise: "with Block a row that Step makes dead keeps the " +
			"later rows of its key waiting", run: stepBlocks},
		{Name: "Step/ConflictIsItsOwn", Promise: "a decision that can't be applied makes its row " +
			"wait, and its neighbours are settled", run: stepConflict},
		{Name: "Step/SeesWhatCameBefore", Promise: "a decision sees what the rows before it in " +
			"the same step changed", run: stepSees},
		{Name: "Step/KeyHeldByRetry", Promise: "a row that waits for another try holds up its " +
			"key and no other", run: stepHolds},
		{Name: "Step/Settled", Promise: "Settled is told of every row that was settled, once",
			run: stepSettled},
		{Name: "Step/BadRequests", Promise: "a step without a lane, a number or a decision is an " +
			"error, and so is one whose decision has a Commit", run: badStep},
		{Name: "Step/K08_AfterAKill", Promise: "after a kill the rows at the head are worked " +
			"singly, until all are through", run: stepAfterKill},
		{Name: "Step/D03_PoisonKillsTheProcess", Promise: "a row that kills the process again " +
			"and again is a dead letter, and the rows behind it are worked", run: stepPoison},
		{Name: "Transact/AppliesWhole", Promise: "what Transact's function returns is applied " +
			"whole, an error or a panic of it changes nothing", run: transact},
	}
	for i := range cases {
		cases[i].needs |= steps
	}
	return cases
}

type decide = func(queue.View, queue.Row) (queue.Settlement, error)

// step runs one step of the lane "flow".
func (k *kit) step(max int, fn decide) queue.Stepped {
	k.Helper()
	return k.stepTold(max, fn, nil)
}

// stepTold steps, and tells of the rows that were settled.
func (k *kit) stepTold(max int, fn decide, told func(queue.Row, queue.Settlement)) queue.Stepped {
	k.Helper()
	got, err := k.transactor().Step(k.ctx,
		queue.StepRequest{Lane: "flow", Max: max, Decide: fn, Settled: told})
	if err != nil {
		k.Fatalf("step: %v", err)
	}
	return got
}

// stepAll steps until nothing more is due, and returns the rows as they were decided on.
// A store may ask for a decision more than once; what counts is what it settled.
func (k *kit) stepAll(fn decide) (rows []queue.Row) {
	k.Helper()
	for range 10_000 {
		got := k.stepTold(10, fn, func(r queue.Row, _ queue.Settlement) { rows = append(rows, r) })
		if !got.More {
			return rows
		}
	}
	k.Fatal("the steps don't end")
	return nil
}

func always(set queue.Settlement) decide {
	return func(queue.View, queue.Row) (queue.Settlement, error) { return set, nil }
}

var done = always(queue.Settlement{State: queue.Done})

func stepOrder(k *kit) {
	k.append(ofTask("a", "A"), ofTask("b", "B"), ofTask("c", "A"))
	k.wantNames("decided", k.stepAll(func(_ queue.View, r queue.Row) (queue.Settlement, error) {
		if r.Attempt != 1 || len(r.Body) == 0 {
			k.Errorf("decided with %+v", r)
		}
		return queue.Settlement{State: queue.Done}, nil
	}), "a", "b", "c")
	got := k.row("b")
	if got.State != queue.Done || got.Attempt != 1 || got.StartedAt.IsZero() ||
		got.FinishedAt.IsZero() {
		k.Errorf("ended as %+v", got)
	}
	if d := k.detail(queue.Callback, "b"); len(d.Attempts) != 1 || d.Attempts[0].Result != "done" {
		k.Errorf("attempts %+v", d.Attempts)
	}
	k.wantCounts()
}

func stepMax(k *kit) {
	for i := range 100 {
		k.append(ofTask(fmt.Sprint(i), fmt.Sprint(i)))
	}
	n := 0
	got := k.step(30, func(queue.View, queue.Row) (queue.Settlement, error) {
		n++
		return queue.Settlement{State: queue.Done}, nil
	})
	if n != 30 || got.Rows != 30 || !got.More {
		k.Errorf("decided %d, told %+v", n, got)
	}
	if rows := k.stepAll(done); len(rows) != 70 {
		k.Errorf("then %d", len(rows))
	}
	k.wantCounts()
}

func stepFails(k *kit) {
	k.append(ofTask("a", "A"), ofTask("bad", "B"), ofTask("c", "C"))
	fn := func(_ queue.View, r queue.Row) (queue.Settlement, error) {
		if r.Key[0] == "bad" {
			return queue.Settlement{}, errors.New("no such field")
		}
		return queue.Settlement{State: queue.Done}, nil
	}
	k.wantNames("decided", k.stepAll(fn), "a", "bad", "c")
	k.wantState("a", queue.Done)
	k.wantState("c", queue.Done)
	got := k.row("bad")
	if got.State != queue.Pending || got.Error != "no such field" || got.Attempt != 1 ||
		!got.NextAt.After(k.h.Now()) {
		k.Errorf("waits as %+v", got)
	}
	k.h.Advance(time.Minute)
	k.wantNames("decided again", k.stepAll(fn), "bad")
	if got := k.row("bad"); got.Attempt != 2 {
		k.Errorf("attempt %d, want 2", got.Attempt)
	}
	k.h.Advance(time.Minute)
	k.stepAll(done)
	k.wantState("bad", queue.Done)
	k.wantCounts()
}

func stepPanics(k *kit) {
	k.append(ofTask("a", "A"), ofTask("bad", "B"), ofTask("c", "C"))
	k.stepAll(func(_ queue.View, r queue.Row) (queue.Settlement, error) {
		if r.Key[0] == "bad" {
			panic("nil map")
		}
		return queue.Settlement{State: queue.Done}, nil
	})
	k.wantState("a", queue.Done)
	k.wantState("c", queue.Done)
	got := k.row("bad")
	if got.State != queue.Dead || got.DeadCause != queue.CausePoison || got.Error == "" {
		k.Errorf("ended as %+v", got)
	}
	k.wantCounts()
}

func stepBlocks(k *kit) {
	k.append(ofTask("bad", "B"), ofTask("behind", "B"), ofTask("open", "C"), ofTask("next", "C"))
	fn := func(_ queue.View, r queue.Row) (queue.Settlement, error) {
		if r.Key[0] == "bad" || r.Key[0] == "open" {
			panic("nil map")
		}
		return queue.Settlement{State: queue.Done}, nil
	}
	for more := true; more; {
		got, err := k.transactor().Step(k.ctx, queue.StepRequest{Lane: "flow", Max: 10, Decide: fn,
			Block: func(r queue.Row) bool { return r.Key[0] == "bad" }})
		if err != nil {
			k.Fatal(err)
		}
		more = got.More
	}
	for name, want := range map[string]queue.State{"bad": queue.Dead, "behind": queue.Pending,
		"open": queue.Dead, "next": queue.Done} {
		k.wantState(name, want)
	}
	k.wantCounts()
}

func stepConflict(k *kit) {
	k.append(ofTask("a", "A"), ofTask("bad", "B"), ofTask("c", "C"))
	k.stepAll(func(_ queue.View, r queue.Row) (queue.Settlement, error) {
		set := queue.Settlement{State: queue.Done,
			Effects: []queue.Arrival{effect("effect " + r.Key[0])}}
		if r.Key[0] == "bad" {
			set.Tasks = []queue.TaskChange{change("B", "x", "y", 5)}
		}
		return set, nil
	})
	k.wantState("bad", queue.Pending)
	k.wantNames("effects", k.all(queue.RowQuery{Kind: queue.Effect}), "effect c", "effect a")
	k.wantCounts()
}

func stepSees(k *kit) {
	for i := range 5 {
		k.append(ofTask(fmt.Sprint(i), "T"))
	}
	k.stepAll(func(v queue.View, r queue.Row) (queue.Settlement, error) {
		task, err := v.Task(flow, "T")
		if err != nil {
			return queue.Settlement{}, err
		}
		c := change("T", task.State, "s"+r.Key[0], task.Version)
		return queue.Settlement{State: queue.Done, Tasks: []queue.TaskChange{c}}, nil
	})
	if task, lines := k.task("T"); task.Version != 5 || task.State != "s4" || len(lines) != 5 {
		k.Errorf("task %+v with %d lines", task, len(lines))
	}
	k.wantTasks(map[string]int64{"s4": 1})
}

func stepHolds(k *kit) {
	k.append(ofTask("a1", "A"), ofTask("a2", "A"), ofTask("b", "B"))
	retry := func(_ queue.View, r queue.Row) (queue.Settlement, error) {
		if r.Key[0] == "a1" {
			return queue.Settlement{State: queue.Pending, RetryIn: time.Minute}, nil
		}
		return queue.Settlement{State: queue.Done}, nil
	}
	k.wantNames("decided", k.stepAll(retry), "a1", "b")
	k.append(ofTask("a3", "A"))
	k.wantNames("while a1 waits", k.stepAll(retry))
	k.h.Advance(time.Minute)
	k.wantNames("after the wait", k.stepAll(done), "a1", "a2", "a3")
	k.wantCounts()
}

func stepSettled(k *kit) {
	k.append(ofTask("a", "A"), ofTask("bad", "B"), ofTask("c", "C"))
	told := map[string]queue.State{}
	_, err := k.transactor().Step(k.ctx, queue.StepRequest{Lane: "flow", Max: 10,
		Decide: func(_ queue.View, r queue.Row) (queue.Settlement, error) {
			if r.Key[0] == "bad" {
				return queue.Settlement{}, errors.New("bad")
			}
			return queue.Settlement{State: queue.Stale}, nil
		},
		Settled: func(r queue.Row, set queue.Settlement) {
			if _, twice := told[r.Key[0]]; twice {
				k.Errorf("told twice of %v", r.Key)
			}
			told[r.Key[0]] = set.State
		}})
	want := map[string]queue.State{"a": queue.Stale, "bad": queue.Pending, "c": queue.Stale}
	if err != nil || fmt.Sprint(told) != fmt.Sprint(want) {
		k.Errorf("told %v, %v", told, err)
	}
}

func badStep(k *kit) {
	for _, r := range []queue.StepRequest{
		{Max: 1, Decide: done}, {Lane: "flow", Decide: done}, {Lane: "flow", Max: 1},
	} {
		if _, err := k.transactor().Step(k.ctx, r); err == nil {
			k.Errorf("%+v: no error", r)
		}
	}
}

func stepAfterKill(k *kit) {
	for i := range 30 {
		k.append(ofTask(fmt.Sprint(i), fmt.Sprint(i%7)))
	}
	k.step(10, done)
	k.reopen(false)
	rows := k.stepAll(done)
	if len(rows) != 20 {
		k.Errorf("%d rows were worked after the kill, want 20", len(rows))
	}
	for i, r := range rows {
		if r.Key[0] != fmt.Sprint(i+10) || r.Lost != 0 || r.Attempt != 1 {
			k.Errorf("row %d is %v, attempt %d, lost %d", i, r.Key, r.Attempt, r.Lost)
		}
	}
	k.append(ofTask("late", "L"))
	k.wantNames("after all", k.stepAll(done), "late")
	k.wantCounts()
}

func stepPoison(k *kit) {
	k.append(ofTask("a", "A"), ofTask("bad", "B"), ofTask("behind", "B"), ofTask("c", "C"))
	lives := 0
	for ; lives < 20; lives++ {
		var next *Harness
		fn := func(_ queue.View, r queue.Row) (queue.Settlement, error) {
			if r.Key[0] == "bad" { // the process ends here: what follows is not seen by the next
				h := k.h.Reopen(k.T, false)
				next = &h
				return queue.Settlement{}, errors.New("the process is gone")
			}
			return queue.Settlement{State: queue.Done}, nil
		}
		for more := true; more && next == nil; {
			got, err := k.transactor().Step(k.ctx, queue.StepRequest{Lane: "flow", Max: 10,
				MaxLost: 3, Decide: fn, Block: func(queue.Row) bool { return true }})
			if err != nil && next == nil {
				k.Fatal(err)
			}
			more = got.More
		}
		if next == nil {
			break
		}
		k.use(*next)
	}
	if lives < 3 || lives > 5 {
		k.Errorf("it took %d processes", lives)
	}
	k.wantState("a", queue.Done)
	k.wantState("behind", queue.Pending)
	k.wantState("c", queue.Done)
	got := k.row("bad")
	if got.State != queue.Dead || got.DeadCause != queue.CausePoison {
		k.Errorf("ended as %+v", got)
	}
	k.wantCounts()
}

func transact(k *kit) {
	k.append(ofTask("waits", "T"))
	k.stepAll(always(queue.Settlement{State: queue.Parked, Park: &queue.Park{Limit: hour,
		Waits: []string{queue.WaitTask(flow, "T")}}}))
	run := func(fn func() (queue.Settlement, error)) error {
		return k.transactor().Transact(k.ctx, func(queue.View) (queue.Settlement, error) {
			return fn()
		})
	}
	set := queue.Settlement{Tasks: []queue.TaskChange{change("T", "", "a", 0)},
		Effects: []queue.Arrival{effect("e")},
		Wake:    []queue.Wake{{Wait: queue.WaitTask(flow, "T")}},
		State:   queue.Dead, Grant: queue.Grant{Seq: 1, Fence: 1}}
	cause := errors.New("no")
	k.wantErr("its error", run(func() (queue.Settlement, error) { return set, cause }), cause)
	if err := run(func() (queue.Settlement, error) { panic("no") }); err == nil {
		k.Error("a panic is no error")
	}
	if _, _, err := k.b.Task(k.ctx, flow, "T"); !errors.Is(err, once.ErrNotFound) {
		k.Errorf("the task: %v", err)
	}
	if err := run(func() (queue.Settlement, error) { return set, nil }); err != nil {
		k.Fatal(err)
	}
	k.wantErr("a version that moved on",
		run(func() (queue.Settlement, error) { return set, nil }), once.ErrConflict)
	k.wantNames("woken", k.stepAll(done), "waits")
	k.wantNames("effects", k.all(queue.RowQuery{Kind: queue.Effect}), "e")
	k.wantCounts()
}
