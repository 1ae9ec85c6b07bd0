package oncesqlite

import (
	"fmt"
	"time"

	"github.com/oncekit/once/queue"
)

// view reads the store inside the writer's transaction. It remembers its first error: not everybody
// whom it is handed to can return one.
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

// Now is the time of the transaction: one instant for all that it decides.
func (v *view) Now() time.Time { return timeOf(v.t.now) }

const taskColumns = `id, flow, task, state, version, fields, taken, gone, final, created_at,
	since_at, updated_at, overdue_at, retention`

// Task returns the task, or one with Version 0.
func (v *view) Task(flow, id string) (queue.Task, error) {
	task, _, err := v.t.task(flow, id)
	return task, v.note(err)
}

// readTask returns the task and its number in the file; 0 if there is none.
func readTask(c *conn, flow, id string) (queue.Task, int64, error) {
	task, row := queue.Task{Flow: flow, ID: id}, int64(0)
	err := c.query("SELECT "+taskColumns+" FROM tasks WHERE flow = ? AND task = ?",
		func(r *stmt) (err error) {
			task, row, err = scanTask(r)
			return err
		}, flow, id)
	return task, row, err
}

func scanTask(r *stmt) (task queue.Task, id int64, err error) {
	task = queue.Task{
		Flow: r.text(1), ID: r.text(2), State: r.text(3), Version: r.int(4),
		Gone: r.int(7) != 0, Final: r.int(8) != 0,
		CreatedAt: timeOf(r.int(9)), SinceAt: timeOf(r.int(10)), UpdatedAt: timeOf(r.int(11)),
		OverdueAt: timeOf(r.int(12)), Retention: time.Duration(r.int(13)) * time.Microsecond,
	}
	if task.Gone {
		return task, r.int(0), nil
	}
	if task.Fields, err = decodeFields(r.raw.ColumnRawText(5)); err == nil {
		task.Taken, err = decodeTaken(r.raw.ColumnRawText(6))
	}
	if err != nil {
		return task, 0, fmt.Errorf("read task %s/%s: %w", task.Flow, task.ID, err)
	}
	return task, r.int(0), nil
}

const resourceColumns = "kind, name, fence, flow, task, freeing, since_at, version"

func scanResource(r *stmt) queue.Resource {
	return queue.Resource{
		Kind: r.text(0), Name: r.text(1), Fence: r.int(2), Flow: r.text(3), Task: r.text(4),
		Freeing: int(r.int(5)), SinceAt: timeOf(r.int(6)), Version: r.int(7),
	}
}

// Resource returns the resource, or one with Version 0.
func (v *view) Resource(kind, name string) (queue.Resource, error) {
	res := queue.Resource{Kind: kind, Name: name}
	_, err := v.t.c.one("SELECT "+resourceColumns+" FROM resources WHERE kind = ? AND name = ?",
		func(r *stmt) { res = scanResource(r) }, kind, name)
	return res, v.note(err)
}

// Owned returns the resources of a task, in the order in which it acquired them.
func (v *view) Owned(flow, task string) ([]queue.Resource, error) {
	var out []queue.Resource
	if task == "" {
		return nil, nil
	}
	err := v.t.c.query("SELECT "+resourceColumns+" FROM resources WHERE flow = ? AND task = ? "+
		"AND task <> '' AND freeing = 0 ORDER BY since_at, kind, name", func(r *stmt) error {
		out = append(out, scanResource(r))
		return nil
	}, flow, task)
	return out, v.note(err)
}

// FirstWaiter returns the earliest row that waits, or was woken and is not yet worked.
func (v *view) FirstWaiter(wait string) (int64, error) {
	if v.t.s.waiting == 0 {
		return 0, nil
	}
	seq, err := v.t.c.int("SELECT min(seq) FROM waits WHERE wait = ?", wait)
	return seq, v.note(err)
}

// WaitsOf returns the waits of the task's parked rows.
func (v *view) WaitsOf(flow, task string) ([]string, error) {
	var out []string
	if v.t.s.waiting == 0 {
		return nil, nil
	}
	err := v.t.c.query("SELECT r.waits FROM waits AS w JOIN rows AS r ON r.seq = w.seq "+
		"WHERE w.wait = ? AND r.phase = 4 ORDER BY w.seq", func(r *stmt) error {
		var waits []string
		if err := texts(r.text(0), &waits); err != nil {
			return err
		}
		out = append(out, waits...)
		return nil
	}, waitOwner(flow, task))
	return out, v.note(err)
}

// maxBusyLooks bounds the rows that Busy looks at, in the writer: any of a text equal to the task's
// id is found by it.
const maxBusyLooks = 2000

// Busy reports whether another row of the task is due, running or waits for another try. Where so
// many rows carry the text that it can't say, it says yes: a limit goes on for another time.
func (v *view) Busy(flow, task string, except int64) (bool, error) {
	busy, looks := false, 0
	err := v.t.s.findTerm(v.t.c, termOf(task), func(seq int64) (bool, error) {
		if looks++; looks > maxBusyLooks {
			busy = true
			return false, nil
		}
		if seq == except {
			return true, nil
		}
		n, err := v.t.c.int("SELECT count(*) FROM rows WHERE seq = ? AND kind = 1 AND flow = ? "+
			"AND task = ? AND phase BETWEEN 0 AND 3", seq, flow, task)
		busy = n > 0
		return !busy, err
	})
	return busy, v.note(err)
}
