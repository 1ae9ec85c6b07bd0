package queuetest

import (
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

func changeCases() []Case {
	return []Case{
		{Name: "Change/TaskIsKept", Promise: "a task is stored with its fields, transitions and " +
			"times, and its version rises with each change", needs: steps, run: taskIsKept},
		{Name: "Change/TaskVersions", Promise: "a task changed in between, or created twice, is " +
			"a conflict and changes nothing", run: taskVersions},
		{Name: "Change/ResourceVersions", Promise: "a resource changed in between, or created " +
			"twice, is a conflict and changes nothing", run: resourceVersions},
		{Name: "Change/History", Promise: "each change of a task is a line of its history, with " +
			"who and why", run: history},
		{Name: "Change/TaskCounters", Promise: "tasks are counted by flow and state",
			run: taskCounters},
		{Name: "Change/AllOrNothing", Promise: "of a settlement whose last part fails nothing is " +
			"applied", run: changeAll},
		{Name: "Change/NotFound", Promise: "a task that is not there is ErrNotFound, in a view " +
			"version 0", needs: steps, run: taskNotFound},
	}
}

// change is a task as it is to be, with a line for its history.
func change(id, from, to string, version int64) queue.TaskChange {
	return queue.TaskChange{Task: queue.Task{Flow: flow, ID: id, State: to, Version: version,
		Fields: map[string]any{}, Taken: map[string]queue.Taken{}, Retention: hour},
		From: from, Event: "to " + to}
}

// apply settles a fresh row with the changes and returns the error.
func (k *kit) apply(set queue.Settlement) error {
	k.Helper()
	k.cause++
	name := fmt.Sprint("cause ", k.cause)
	a := arrival(name)
	a.Lane = "handler/apply"
	k.append(a)
	r := request(1)
	r.Lane = a.Lane
	row := k.leaseBy(r).Rows[0]
	set.Grant, set.State = row.Grant(), queue.Done
	err := k.settle(set)[0]
	if err != nil {
		k.end(row, queue.Settlement{State: queue.Stale})
	}
	return err
}

func (k *kit) task(id string) (queue.Task, []queue.HistoryEntry) {
	k.Helper()
	task, lines, err := k.b.Task(k.ctx, flow, id)
	if err != nil {
		k.Fatalf("task %s: %v", id, err)
	}
	return task, lines
}

func taskIsKept(k *kit) {
	now := k.h.Now().Truncate(time.Millisecond)
	c := change("T1", "", "moving", 0)
	c.Task.Fields = map[string]any{"n": int64(9007199254740993), "s": "a\"b", "f": 0.5, "z": nil,
		"l": []any{int64(1), "x", true}, "m": map[string]any{"k": uint64(1<<63 + 5)}}
	c.Task.Taken = map[string]queue.Taken{"start": {Count: 2, Newer: "7"}, "end": {Count: 1}}
	c.Task.SinceAt, c.Task.OverdueAt = now, now.Add(hour)
	if err := k.apply(queue.Settlement{Tasks: []queue.TaskChange{c}}); err != nil {
		k.Fatal(err)
	}
	got, _ := k.task("T1")
	if got.State != "moving" || got.Version != 1 || got.Gone || got.Final ||
		!got.SinceAt.Equal(now) || !got.OverdueAt.Equal(now.Add(hour)) || got.Retention != hour {
		k.Errorf("stored %+v", got)
	}
	if !reflect.DeepEqual(got.Fields, c.Task.Fields) {
		k.Errorf("fields %#v\nwant   %#v", got.Fields, c.Task.Fields)
	}
	if !reflect.DeepEqual(got.Taken, c.Task.Taken) {
		k.Errorf("taken %#v", got.Taken)
	}
	if new(big.Int).SetUint64(got.Fields["m"].(map[string]any)["k"].(uint64)).String() !=
		"9223372036854775813" {
		k.Error("a number above 2^63 was changed")
	}
	var seen queue.Task
	err := k.transactor().Transact(k.ctx, func(v queue.View) (queue.Settlement, error) {
		var err error
		seen, err = v.Task(flow, "T1")
		seen.State, seen.Fields = "done", map[string]any{}
		return queue.Settlement{Tasks: []queue.TaskChange{{Task: seen, From: "moving",
			Event: "move"}}}, err
	})
	if err != nil {
		k.Fatal(err)
	}
	if got, _ := k.task("T1"); got.Version != 2 || got.State != "done" || len(got.Fields) != 0 ||
		!got.CreatedAt.Equal(seen.CreatedAt) {
		k.Errorf("changed to %+v", got)
	}
}

func taskVersions(k *kit) {
	ok := func(c queue.TaskChange) {
		k.Helper()
		if err := k.apply(queue.Settlement{Tasks: []queue.TaskChange{c}}); err != nil {
			k.Fatal(err)
		}
	}
	conflict := func(c queue.TaskChange) {
		k.Helper()
		err := k.apply(queue.Settlement{Tasks: []queue.TaskChange{c},
			Effects: []queue.Arrival{effect("never")}})
		k.wantErr("a version that moved on", err, once.ErrConflict)
	}
	conflict(change("T", "", "a", 1))
	ok(change("T", "", "a", 0))
	conflict(change("T", "", "b", 0))
	ok(change("T", "a", "b", 1))
	conflict(change("T", "a", "c", 1))
	conflict(change("T", "b", "c", 3))
	if task, lines := k.task("T"); task.State != "b" || task.Version != 2 || len(lines) != 2 {
		k.Errorf("task %+v with %d lines", task, len(lines))
	}
	if rows := k.all(queue.RowQuery{Kind: queue.Effect}); len(rows) != 0 {
		k.Errorf("effects: %v", names(rows))
	}
	k.wantCounts()
}

func resourceVersions(k *kit) {
	res := func(task string, version int64) queue.Settlement {
		return queue.Settlement{Resources: []queue.Resource{{Kind: "lift", Name: "L1", Flow: flow,
			Task: task, Fence: version + 1, Version: version, SinceAt: k.h.Now()}}}
	}
	if err := k.apply(res("A", 0)); err != nil {
		k.Fatal(err)
	}
	k.wantErr("created twice", k.apply(res("B", 0)), once.ErrConflict)
	if err := k.apply(res("B", 1)); err != nil {
		k.Fatal(err)
	}
	k.wantErr("read before", k.apply(res("C", 1)), once.ErrConflict)
	page, err := k.b.Resources(k.ctx, queue.ResourceQuery{Limit: 10})
	if err != nil || len(page.Resources) != 1 {
		k.Fatalf("resources %+v, %v", page, err)
	}
	if got := page.Resources[0]; got.Task != "B" || got.Fence != 2 || got.Version != 2 {
		k.Errorf("resource %+v", got)
	}
}

func history(k *kit) {
	first := change("T", "", "a", 0)
	first.Callback, first.Note = idOf("cause"), "nothing was acquired"
	second := change("T", "a", "b", 1)
	second.Event, second.Actor, second.Reason = "move", "ann", "stuck"
	for _, c := range []queue.TaskChange{first, second} {
		if err := k.apply(queue.Settlement{Tasks: []queue.TaskChange{c}}); err != nil {
			k.Fatal(err)
		}
		k.h.Advance(time.Second)
	}
	_, lines := k.task("T")
	if len(lines) != 2 {
		k.Fatalf("%d lines", len(lines))
	}
	a, b := lines[0], lines[1]
	if a.Version != 1 || a.From != "" || a.To != "a" || a.Event != "to a" ||
		a.Callback != idOf("cause") || a.Note != "nothing was acquired" || a.Actor != "" {
		k.Errorf("first line %+v", a)
	}
	if b.Version != 2 || b.From != "a" || b.To != "b" || b.Event != "move" || b.Actor != "ann" ||
		b.Reason != "stuck" || !b.At.After(a.At) {
		k.Errorf("second line %+v", b)
	}
}

func (k *kit) wantTasks(want map[string]int64) {
	k.Helper()
	c, err := k.b.Counts(k.ctx)
	if err != nil {
		k.Fatal(err)
	}
	got := map[string]int64{}
	for t, n := range c.Tasks {
		if t.Flow != flow {
			k.Errorf("counter of flow %q", t.Flow)
		}
		if n != 0 {
			got[t.State] = n
		}
	}
	if !reflect.DeepEqual(got, want) {
		k.Errorf("tasks %v, want %v", got, want)
	}
}

func taskCounters(k *kit) {
	for _, set := range []queue.Settlement{
		{Tasks: []queue.TaskChange{change("A", "", "a", 0), change("B", "", "a", 0)}},
		{Tasks: []queue.TaskChange{change("A", "a", "b", 1), change("C", "", "c", 0)}},
	} {
		if err := k.apply(set); err != nil {
			k.Fatal(err)
		}
	}
	want := map[string]int64{"a": 1, "b": 1, "c": 1}
	k.wantTasks(want)
	k.reopen(false)
	k.wantTasks(want)
}

func changeAll(k *kit) {
	err := k.apply(queue.Settlement{
		Tasks:     []queue.TaskChange{change("T", "", "a", 0)},
		Resources: []queue.Resource{{Kind: "lift", Name: "L1"}, {Kind: "lift", Name: "L1"}},
		Effects:   []queue.Arrival{effect("e")},
	})
	k.wantErr("a resource twice", err, once.ErrConflict)
	if _, _, err := k.b.Task(k.ctx, flow, "T"); !errors.Is(err, once.ErrNotFound) {
		k.Errorf("the task: %v", err)
	}
	page, err := k.b.Resources(k.ctx, queue.ResourceQuery{Limit: 5})
	if err != nil || len(page.Resources) != 0 {
		k.Errorf("resources %+v, %v", page, err)
	}
	k.wantTasks(map[string]int64{})
	k.wantCounts()
}

func taskNotFound(k *kit) {
	if _, _, err := k.b.Task(k.ctx, flow, "none"); !errors.Is(err, once.ErrNotFound) {
		k.Errorf("task: %v", err)
	}
	err := k.transactor().Transact(k.ctx, func(v queue.View) (queue.Settlement, error) {
		task, err := v.Task(flow, "none")
		if err != nil || task.Version != 0 || task.Flow != flow || task.ID != "none" {
			k.Errorf("task %+v, %v", task, err)
		}
		res, err := v.Resource("lift", "none")
		if err != nil || res.Version != 0 || res.Kind != "lift" || !res.Free() {
			k.Errorf("resource %+v, %v", res, err)
		}
		return queue.Settlement{}, nil
	})
	if err != nil {
		k.Error(err)
	}
}
