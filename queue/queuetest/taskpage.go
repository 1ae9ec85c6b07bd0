package queuetest

import (
	"fmt"
	"slices"

	"github.com/oncekit/once/queue"
)

// manyTasks stores tasks of two flows in three states, and returns what they are, latest first:
// flow, id and state.
func (k *kit) manyTasks(n int) (all []queue.Task) {
	k.Helper()
	for i := range n {
		c := change(fmt.Sprint("T", i), "", []string{"created", "running", "done"}[i*7%3], 0)
		if i*5%4 == 0 {
			c.Task.Flow = "other"
		}
		c.Task.Final = c.Task.State == "done"
		c.Task.Fields = map[string]any{"x": "y"}
		k.change(queue.Settlement{Tasks: []queue.TaskChange{c}})
		all = append(all, c.Task)
	}
	slices.Reverse(all)
	return all
}

// tasks reads all pages.
func (k *kit) tasks(q queue.TaskQuery, between func()) (all []queue.Task) {
	k.Helper()
	for range 1_000_000 {
		page, err := k.b.Tasks(k.ctx, q)
		if err != nil {
			k.Fatalf("tasks %+v: %v", q, err)
		}
		if len(page.Tasks) > q.Limit {
			k.Errorf("a page of %d has %d", q.Limit, len(page.Tasks))
		}
		all = append(all, page.Tasks...)
		if page.Next == "" {
			return all
		}
		q.Cursor = page.Next
		if between != nil {
			between()
		}
	}
	k.Fatal("the pages don't end")
	return nil
}

func taskNames(list []queue.Task) []string {
	out := []string{}
	for _, t := range list {
		out = append(out, t.Flow+"/"+t.ID+" "+t.State)
	}
	return out
}

func taskPages(k *kit) {
	all := k.manyTasks(40)
	check := func(what string) {
		k.Helper()
		for _, f := range []string{"", flow, "other", "none"} {
			for _, state := range []string{"", "created", "running", "done", "none"} {
				for _, limit := range []int{1, 3, 13, 40, 1000} {
					want := []queue.Task{}
					for _, t := range all {
						if (f == "" || t.Flow == f) && (state == "" || t.State == state) {
							want = append(want, t)
						}
					}
					q := queue.TaskQuery{Flow: f, State: state, Limit: limit}
					got := k.tasks(q, nil)
					if !slices.Equal(taskNames(got), taskNames(want)) {
						k.Errorf("%s, %+v: %v, want %v", what, q, taskNames(got),
							taskNames(want))
					}
				}
			}
		}
	}
	check("all")
	got := k.tasks(queue.TaskQuery{Limit: 1}, nil)[0]
	if got.Version != 1 || got.Fields != nil || got.Taken != nil || got.Final ||
		!got.CreatedAt.Equal(k.h.Now()) || !got.UpdatedAt.Equal(k.h.Now()) {
		k.Errorf("the last one is %+v", got)
	}
	k.h.Advance(hour) // the retention of the final ones
	k.sweepAll()
	all = slices.DeleteFunc(all, func(t queue.Task) bool { return t.State == "done" })
	check("without tombstones")
	for _, q := range []queue.TaskQuery{{}, {Limit: -1}, {Limit: 1001}, {Limit: 1, Cursor: "-1"},
		{Limit: 1, Cursor: "no cursor!"}} {
		if _, err := k.b.Tasks(k.ctx, q); err == nil {
			k.Errorf("%+v: no error", q)
		}
	}
}

func taskPagesMoving(k *kit) {
	all := k.manyTasks(40)
	n, left := 0, map[string]bool{}
	for _, t := range all {
		if t.State == "running" {
			left[t.Flow+"/"+t.ID+" running"] = true
		}
	}
	// Between two pages two tasks move, out of the state that is asked for or into it: one of the
	// latest, one of the first. And one is made.
	moved := slices.DeleteFunc(slices.Clone(all), func(t queue.Task) bool {
		return t.State == "done"
	})
	between := func() {
		for _, i := range []int{n, len(moved) - 1 - n} {
			t := moved[i]
			from := t.State
			t.State = map[string]string{"created": "running", "running": "created"}[from]
			delete(left, t.Flow+"/"+t.ID+" running")
			t.Version = 1
			k.change(queue.Settlement{Tasks: []queue.TaskChange{{Task: t, From: from,
				Event: "go"}}})
		}
		n++
		k.change(queue.Settlement{Tasks: []queue.TaskChange{
			change(fmt.Sprint("new", n), "", "running", 0)}})
	}
	for _, name := range taskNames(k.tasks(queue.TaskQuery{State: "running", Limit: 2}, between)) {
		delete(left, name)
	}
	if n == 0 || len(left) > 0 {
		k.Errorf("after %d times %v are on no page", n, left)
	}
}
