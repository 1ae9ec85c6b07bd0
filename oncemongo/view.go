package oncemongo

import (
	"cmp"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once/queue"
)

// view reads the store inside a batch. It remembers its first error: not everybody whom it is
// handed to can return one.
type view struct {
	t   *txn
	err error
}

func (t *txn) view() *view { return &view{t: t} }

func (v *view) note(err error) error {
	if v.err == nil {
		v.err = err
	}
	return err
}

// Now is the time of the batch: one instant for all that it decides.
func (v *view) Now() time.Time { return v.t.now.time() }

// Task returns the task, or one with Version 0.
func (v *view) Task(flow, id string) (queue.Task, error) {
	d, err := v.t.tasks.get(pairID(flow, id))
	if err != nil || d == nil {
		return queue.Task{Flow: flow, ID: id}, v.note(err)
	}
	task, err := d.public()
	return task, v.note(err)
}

// Resource returns the resource, or one with Version 0.
func (v *view) Resource(kind, name string) (queue.Resource, error) {
	d, err := v.t.resources.get(pairID(kind, name))
	if err != nil || d == nil {
		return queue.Resource{Kind: kind, Name: name}, v.note(err)
	}
	return d.public(), nil
}

// Owned returns the resources of a task, in the order in which it acquired them.
func (v *view) Owned(flow, task string) ([]queue.Resource, error) {
	if task == "" {
		return nil, nil
	}
	owned, err := v.t.owned(flow, task)
	if err != nil {
		return nil, v.note(err)
	}
	var out []queue.Resource
	for _, d := range owned {
		out = append(out, d.public())
	}
	return out, nil
}

func (t *txn) owned(flow, task string) ([]*resourceDoc, error) {
	stored, err := t.find(resources, bson.D{{Key: "flow", Value: flow},
		{Key: "task", Value: task}}, nil, 0)
	if err != nil {
		return nil, err
	}
	var out []*resourceDoc
	add := func(d *resourceDoc) {
		if d != nil && d.Flow == flow && d.Task == task && d.Freeing == 0 {
			out = append(out, d)
		}
	}
	for _, raw := range stored {
		id, _ := raw.Lookup("_id").StringValueOK()
		if c := t.resources.cells[id]; c != nil && c.touched {
			continue
		}
		d, err := t.resources.keep(id, raw)
		if err != nil {
			return nil, err
		}
		add(d)
	}
	for _, id := range t.resources.dirty {
		add(t.resources.cells[id].now)
	}
	slices.SortFunc(out, func(a, b *resourceDoc) int {
		return cmp.Or(cmp.Compare(a.SinceAt, b.SinceAt), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// FirstWaiter returns the earliest row that waits, or was woken and is not yet worked.
func (v *view) FirstWaiter(wait string) (int64, error) {
	if v.t.state.Waiting == 0 {
		return 0, nil
	}
	r, err := v.t.selectOne(rowQuery{Kind: queue.Callback, Wait: wait})
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
	rows, err := v.t.selectRows(rowQuery{Kind: queue.Callback, Phases: []phase{phaseParked},
		Tasked: true, Flow: flow, Task: task}, maxParked)
	var out []string
	for _, r := range rows {
		out = append(out, r.Waits...)
	}
	return out, v.note(err)
}

// Busy reports whether another row of the task is due, running or waits for another try.
func (v *view) Busy(flow, task string, except int64) (bool, error) {
	rows, err := v.t.selectRows(rowQuery{Kind: queue.Callback, Phases: busyPhases, Tasked: true,
		Flow: flow, Task: task}, 2)
	for _, r := range rows {
		if r.Seq != except {
			return true, nil
		}
	}
	return false, v.note(err)
}

// prefetchTasks reads the tasks of rows in one question.
func (t *txn) prefetchTasks(rows []*row) error {
	var ids []string
	for _, r := range rows {
		if r.Task != "" {
			ids = append(ids, pairID(r.Flow, r.Task))
		}
	}
	return t.tasks.load(ids)
}
