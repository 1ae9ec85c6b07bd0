package turn

import (
	"cmp"
	"slices"
	"time"

	"github.com/oncekit/once/queue"
)

// view reads the store inside a batch. It remembers its first error: not everybody whom it is
// handed to can return one.
type view struct {
	t   *Batch
	err error
}

func (t *Batch) view() *view { return &view{t: t} }

func (v *view) note(err error) error {
	if v.err == nil {
		v.err = err
	}
	return err
}

// Now is the time of the batch: one instant for all that it decides.
func (v *view) Now() time.Time { return v.t.now.Time() }

// Task returns the task, or one with Version 0.
func (v *view) Task(flow, id string) (queue.Task, error) {
	d, err := v.t.Tasks.get(Pair{flow, id})
	if err != nil || d == nil {
		return queue.Task{Flow: flow, ID: id}, v.note(err)
	}
	return d.Public(), nil
}

// Resource returns the resource, or one with Version 0.
func (v *view) Resource(kind, name string) (queue.Resource, error) {
	d, err := v.t.Resources.get(Pair{kind, name})
	if err != nil || d == nil {
		return queue.Resource{Kind: kind, Name: name}, v.note(err)
	}
	return d.Public(), nil
}

// Owned returns the resources of a task, in the order in which it acquired them.
func (v *view) Owned(flow, task string) ([]queue.Resource, error) {
	if task == "" {
		return nil, nil
	}
	if err := v.t.loadOwned(Pair{flow, task}); err != nil {
		return nil, v.note(err)
	}
	owned := v.t.Resources.merge(v.t.owned[Pair{flow, task}], func(d *Resource) bool {
		return d.Flow == flow && d.Task == task && d.Freeing == 0
	})
	slices.SortFunc(owned, func(a, b *Resource) int {
		return cmp.Or(cmp.Compare(a.SinceAt, b.SinceAt), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Name, b.Name))
	})
	var out []queue.Resource
	for _, d := range owned {
		out = append(out, d.Public())
	}
	return out, nil
}

// loadOwned reads what a task owned before the batch, and with the same question what the other
// tasks did that the batch has read: most of those that end own something.
func (t *Batch) loadOwned(task Pair) error {
	if _, known := t.owned[task]; known {
		return nil
	}
	ask := []Pair{task}
	for key := range t.Tasks.cells {
		if _, known := t.owned[key]; !known && key != task {
			ask = append(ask, key)
		}
	}
	found, err := t.stored.Owned(ask)
	if err != nil {
		return err
	}
	for _, key := range ask {
		t.owned[key] = nil
	}
	for _, d := range found {
		key := Pair{d.Flow, d.Task}
		t.owned[key] = append(t.owned[key], d)
	}
	return nil
}

// FirstWaiter returns the earliest row that waits, or was woken and is not yet worked.
func (v *view) FirstWaiter(wait string) (int64, error) {
	if v.t.state.Waiting == 0 {
		return 0, nil
	}
	r, err := v.t.selectOne(RowQuery{Kind: queue.Callback, Wait: wait})
	if err != nil || r == nil {
		return 0, v.note(err)
	}
	return r.Seq, nil
}

// maxParked bounds the parked rows of a task whose waits are told.
const maxParked = 1000

// WaitsOf returns the waits of the task's parked rows.
func (v *view) WaitsOf(flow, task string) ([]string, error) {
	if v.t.state.Waiting == 0 {
		return nil, nil
	}
	rows, err := v.t.selectRows(RowQuery{Kind: queue.Callback, Phases: []Phase{Parked},
		Tasked: true, Flow: flow, Task: task}, maxParked)
	var out []string
	for _, r := range rows {
		out = append(out, r.Waits...)
	}
	return out, v.note(err)
}

// Busy reports whether another row of the task is due, running or waits for another try.
func (v *view) Busy(flow, task string, except int64) (bool, error) {
	rows, err := v.t.selectRows(RowQuery{Kind: queue.Callback, Phases: busyPhases, Tasked: true,
		Flow: flow, Task: task}, 2)
	for _, r := range rows {
		if r.Seq != except {
			return true, nil
		}
	}
	return false, v.note(err)
}

// prefetchTasks reads the tasks of rows in one question.
func (t *Batch) prefetchTasks(rows []*Row) error {
	var keys []Pair
	for _, r := range rows {
		if r.Task != "" {
			keys = append(keys, Pair{r.Flow, r.Task})
		}
	}
	return t.Tasks.load(keys)
}
