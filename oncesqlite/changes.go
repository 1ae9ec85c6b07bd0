package oncesqlite

import (
	"fmt"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// applyChanges writes the tasks, resources, effects and wakes of a settlement. row is the row that
// they belong to; nil when a person or an overdue task is the cause.
func (t *txn) applyChanges(set queue.Settlement, row *stored) error {
	for i := range set.Tasks {
		if err := t.changeTask(&set.Tasks[i]); err != nil {
			return err
		}
	}
	for i := range set.Resources {
		if err := t.changeResource(&set.Resources[i]); err != nil {
			return err
		}
	}
	if err := checkArrivals(set.Effects); err != nil {
		return fmt.Errorf("store effects: %w", err)
	}
	for i := range set.Effects {
		if _, _, err := t.insert(&set.Effects[i], 0); err != nil {
			return fmt.Errorf("store effect: %w", err)
		}
	}
	for _, e := range set.Audit {
		if err := t.record(e.Target, e.Action); err != nil {
			return err
		}
	}
	for _, w := range set.Wake {
		if err := t.wake(w, row); err != nil {
			return err
		}
	}
	return nil
}

const (
	insertTask = `INSERT INTO tasks (flow, task, state, version, fields, taken, final, created_at,
	since_at, updated_at, overdue_at, retention, sweep_at) VALUES (?,?,?,1,?,?,?,?,?,?,?,?,?)
	ON CONFLICT DO NOTHING RETURNING id`
	updateTask = `UPDATE tasks SET state = ?, version = version + 1, fields = ?, taken = ?,
	final = ?, since_at = ?, updated_at = ?, overdue_at = ?, retention = ?, sweep_at = ?
	WHERE id = ? AND version = ? AND gone = 0`
)

// changeTask writes a task's new content and a line of its history.
func (t *txn) changeTask(c *queue.TaskChange) error {
	task := &c.Task
	fields, err := value.Encode(task.Fields)
	if err != nil {
		return fmt.Errorf("encode task %s/%s: %w", task.Flow, task.ID, err)
	}
	taken, err := encodeTaken(task.Taken)
	if err != nil {
		return fmt.Errorf("encode task %s/%s: %w", task.Flow, task.ID, err)
	}
	final, sweep := int64(0), int64(0)
	if task.Final {
		final, sweep = 1, t.now+task.Retention.Microseconds()
	}
	var id int64
	if task.Version == 0 {
		id, err = t.insertTask(task, fields, taken, final, sweep)
	} else {
		id, err = t.updateTask(task, fields, taken, final, sweep)
	}
	if err != nil {
		return err
	}
	if id == 0 {
		return fmt.Errorf("change task %s/%s: it was changed meanwhile: %w",
			task.Flow, task.ID, once.ErrConflict)
	}
	if c.From != "" {
		t.count(counterKey{taskCounts, task.Flow, c.From}, -1)
	}
	t.count(counterKey{taskCounts, task.Flow, task.State}, 1)
	if err := t.changed(*task, id); err != nil {
		return err
	}
	return t.addHistory(id, c)
}

// updateTask returns the task's number; 0: it is not as it was when it was read.
func (t *txn) updateTask(task *queue.Task, fields, taken []byte, final, sweep int64) (int64,
	error) {
	_, id, err := t.task(task.Flow, task.ID)
	if err != nil || id == 0 {
		return 0, err
	}
	err = t.c.exec(updateTask, task.State, string(fields), string(taken), final,
		micros(task.SinceAt), t.now, nullTime(micros(task.OverdueAt)),
		task.Retention.Microseconds(), nullTime(sweep), id, task.Version)
	if err != nil || t.c.raw.Changes() == 0 {
		return 0, err
	}
	return id, nil
}

func (t *txn) insertTask(task *queue.Task, fields, taken []byte, final, sweep int64) (int64,
	error) {
	return t.c.int(insertTask, task.Flow, task.ID, task.State, string(fields), string(taken), final,
		t.now, micros(task.SinceAt), t.now, nullTime(micros(task.OverdueAt)),
		task.Retention.Microseconds(), nullTime(sweep))
}

func (t *txn) addHistory(id int64, c *queue.TaskChange) error {
	return t.c.exec("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", id,
		c.Task.Version+1, t.now, c.Event, c.From, c.Task.State, nullText(c.Note),
		nullText(c.Actor), nullText(c.Reason), nullText(c.Callback))
}

// encodeTaken writes what a task has done as JSON with exact numbers.
func encodeTaken(m map[string]queue.Taken) ([]byte, error) {
	out := make(map[string]any, len(m))
	for event, taken := range m {
		one := map[string]any{"n": taken.Count}
		if taken.Newer != nil {
			one["newer"] = taken.Newer
		}
		out[event] = one
	}
	return value.Encode(out)
}

func decodeTaken(text []byte) (map[string]queue.Taken, error) {
	v, err := value.Decode(text, value.Limits{Depth: value.MaxDepth})
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("taken: %T where an object was written", v)
	}
	out := make(map[string]queue.Taken, len(m))
	for event, e := range m {
		one, ok := e.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("taken %s: %T where an object was written", event, e)
		}
		n, ok := one["n"].(int64)
		if !ok {
			return nil, fmt.Errorf("taken %s: no count", event)
		}
		out[event] = queue.Taken{Count: n, Newer: one["newer"]}
	}
	return out, nil
}

// changeResource writes a resource as it is to be.
func (t *txn) changeResource(r *queue.Resource) error {
	var err error
	if r.Version == 0 {
		err = t.c.exec("INSERT INTO resources VALUES (?, ?, ?, ?, ?, ?, ?, 1) "+
			"ON CONFLICT DO NOTHING", r.Kind, r.Name, r.Fence, r.Flow, r.Task, r.Freeing,
			micros(r.SinceAt))
	} else {
		err = t.c.exec("UPDATE resources SET fence = ?, flow = ?, task = ?, freeing = ?, "+
			"since_at = ?, version = version + 1 WHERE kind = ? AND name = ? AND version = ?",
			r.Fence, r.Flow, r.Task, r.Freeing, micros(r.SinceAt), r.Kind, r.Name, r.Version)
	}
	if err == nil && t.c.raw.Changes() == 0 {
		return fmt.Errorf("change resource %s/%s: it was changed meanwhile: %w",
			r.Kind, r.Name, once.ErrConflict)
	}
	return err
}

func nullTime(us int64) any {
	if us == 0 {
		return nil
	}
	return us
}

func nullText(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// decodeFields reads a task's own values.
func decodeFields(text []byte) (map[string]any, error) {
	v, err := value.Decode(text, value.Limits{Depth: value.MaxDepth})
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("fields: %T where an object was written", v)
	}
	return m, nil
}
