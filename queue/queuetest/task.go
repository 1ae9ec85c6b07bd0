package queuetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

func taskCases() []Case {
	return []Case{
		{Name: "Task/Overdue", Promise: "a task that stood still too long is handed to Overdue, " +
			"once for each time it sets", needs: steps, run: overdue},
		{Name: "Task/OverdueFails", Promise: "an Overdue that fails is not asked for ever, and " +
			"holds up no other task", needs: steps, run: overdueFails},
		{Name: "Task/NextOverdue", Promise: "a step tells when the next task will have stood " +
			"still too long", needs: steps, run: nextOverdue},
		{Name: "Task/Tombstone", Promise: "a final task is kept for its retention, then as a " +
			"tombstone with id and state as long again, then forgotten",
			needs: steps, run: tombstone},
		{Name: "Task/LivingIsNeverSwept", Promise: "a task that is not final stays for ever",
			run: livingTask},
	}
}

func (k *kit) stepOverdue(fn func(queue.View, queue.Task) (queue.Settlement, error)) queue.Stepped {
	k.Helper()
	got, err := k.transactor().Step(k.ctx, queue.StepRequest{Lane: "flow", Max: 10, Decide: done,
		Overdue: fn})
	if err != nil {
		k.Fatalf("step: %v", err)
	}
	return got
}

// standing stores tasks that will have stood still too long.
func (k *kit) standing(after time.Duration, tasks ...string) {
	k.Helper()
	var set queue.Settlement
	for _, id := range tasks {
		c := change(id, "", "a", 0)
		c.Task.OverdueAt = k.h.Now().Add(after)
		set.Tasks = append(set.Tasks, c)
	}
	k.change(set)
}

func overdue(k *kit) {
	k.standing(time.Minute, "A", "B")
	k.standing(hour, "late")
	var asked []string
	fn := func(_ queue.View, t queue.Task) (queue.Settlement, error) {
		asked = append(asked, t.ID)
		e := effect("alarm " + t.ID)
		t.OverdueAt = time.Time{}
		return queue.Settlement{Effects: []queue.Arrival{e},
			Tasks: []queue.TaskChange{{Task: t, From: t.State, Event: "overdue"}}}, nil
	}
	k.stepOverdue(fn)
	if len(asked) != 0 {
		k.Fatalf("asked too early for %v", asked)
	}
	k.h.Advance(time.Minute)
	for range 3 {
		k.stepOverdue(fn)
	}
	if len(asked) != 2 {
		k.Errorf("asked for %v", asked)
	}
	if rows := k.all(queue.RowQuery{Kind: queue.Effect}); len(rows) != 2 {
		k.Errorf("alarms: %v", names(rows))
	}
	k.wantTasks(map[string]int64{"a": 3})
}

func overdueFails(k *kit) {
	k.standing(time.Minute, "A", "panics", "B")
	k.h.Advance(time.Minute)
	asked := map[string]int{}
	for range 5 {
		k.stepOverdue(func(_ queue.View, t queue.Task) (queue.Settlement, error) {
			asked[t.ID]++
			switch t.ID {
			case "panics":
				panic("overdue")
			case "A":
				return queue.Settlement{}, errors.New("no such effect")
			}
			t.OverdueAt = time.Time{}
			return queue.Settlement{Tasks: []queue.TaskChange{{Task: t, From: t.State,
				Event: "overdue"}}}, nil
		})
	}
	if fmt.Sprint(asked) != "map[A:1 B:1 panics:1]" {
		k.Errorf("asked %v", asked)
	}
}

func nextOverdue(k *kit) {
	none := func(queue.View, queue.Task) (queue.Settlement, error) {
		return queue.Settlement{}, errors.New("not due")
	}
	if got := k.stepOverdue(none); !got.NextAt.IsZero() {
		k.Errorf("next at %v with no task", got.NextAt)
	}
	k.standing(hour, "A")
	k.standing(time.Minute, "B")
	want := k.h.Now().Add(time.Minute)
	if got := k.stepOverdue(none); got.NextAt.Sub(want).Abs() > time.Millisecond {
		k.Errorf("next at %v, want %v", got.NextAt, want)
	}
}

func tombstone(k *kit) {
	c := change("T", "", "finished", 0)
	c.Task.Final, c.Task.Fields = true, map[string]any{"x": "y"}
	k.change(queue.Settlement{Tasks: []queue.TaskChange{c}})
	k.h.Advance(hour - time.Second)
	k.sweepAll()
	if task, lines := k.task("T"); task.Gone || task.Fields["x"] != "y" || len(lines) != 1 {
		k.Fatalf("swept too early: %+v", task)
	}
	k.h.Advance(2 * time.Second)
	k.sweepAll()
	task, lines := k.task("T")
	if !task.Gone || task.State != "finished" || task.ID != "T" || len(task.Fields) != 0 ||
		len(lines) != 0 || task.Version == 0 {
		k.Errorf("tombstone %+v with %d lines", task, len(lines))
	}
	k.look(func(v queue.View) error {
		task, err := v.Task(flow, "T")
		if !task.Gone || task.Version == 0 {
			k.Errorf("in a view %+v", task)
		}
		return err
	})
	k.wantTasks(map[string]int64{})
	k.wantErr("the tombstone can't be changed",
		k.apply(queue.Settlement{Tasks: []queue.TaskChange{change("T", "finished", "a",
			task.Version)}}), once.ErrConflict)
	k.h.Advance(hour)
	k.sweepAll()
	if _, _, err := k.b.Task(k.ctx, flow, "T"); !errors.Is(err, once.ErrNotFound) {
		k.Errorf("after twice its retention: %v", err)
	}
	k.change(queue.Settlement{Tasks: []queue.TaskChange{change("T", "", "a", 0)}})
	if task, lines := k.task("T"); task.Version != 1 || len(lines) != 1 {
		k.Errorf("anew: %+v with %d lines", task, len(lines))
	}
	k.wantTasks(map[string]int64{"a": 1})
}

func livingTask(k *kit) {
	err := k.apply(queue.Settlement{Tasks: []queue.TaskChange{change("T", "", "a", 0)}})
	if err != nil {
		k.Fatal(err)
	}
	k.h.Advance(10000 * hour)
	k.sweepAll()
	if task, _ := k.task("T"); task.Gone {
		k.Error("it was swept")
	}
}
