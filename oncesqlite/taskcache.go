package oncesqlite

import (
	"fmt"
	"maps"
	"time"

	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// taskKey names a task.
type taskKey struct{ flow, id string }

// maxCachedTasks bounds the tasks that are remembered; past it all are forgotten.
const maxCachedTasks = 8192

// taskCache remembers tasks as the writer's transaction sees them: the events of a task come close
// after each other. What is put in during a transaction is forgotten when it is undone. It belongs
// to the goroutine that writes.
type taskCache map[taskKey]cachedTask

type cachedTask struct {
	task queue.Task
	row  int64 // its number in the file
}

// remember keeps a task until it is changed, or the transaction is undone.
func (t *txn) remember(task queue.Task, row int64) {
	cache, key := t.s.tasks, taskKey{task.Flow, task.ID}
	if len(cache) >= maxCachedTasks {
		clear(cache)
	}
	cache[key] = cachedTask{task, row}
	t.onUndo(func() { delete(cache, key) })
}

// task returns a task and its number; 0: there is none. The copy is the caller's.
func (t *txn) task(flow, id string) (queue.Task, int64, error) {
	if c, ok := t.s.tasks[taskKey{flow, id}]; ok {
		c.task.Fields, c.task.Taken = maps.Clone(c.task.Fields), maps.Clone(c.task.Taken)
		return c.task, c.row, nil
	}
	task, row, err := readTask(t.c, flow, id)
	if err == nil && row != 0 {
		kept := task
		kept.Fields, kept.Taken = maps.Clone(task.Fields), maps.Clone(task.Taken)
		t.remember(kept, row)
	}
	return task, row, err
}

// changed remembers a task as it was just written.
func (t *txn) changed(task queue.Task, row int64) error {
	fields := make(map[string]any, len(task.Fields))
	for name, v := range task.Fields {
		exact, err := value.Normalize(v) // as it is read again
		if err != nil {
			return fmt.Errorf("field %s: %w", name, err)
		}
		fields[name] = exact
	}
	taken := maps.Clone(task.Taken)
	if taken == nil {
		taken = map[string]queue.Taken{}
	}
	task.Fields, task.Taken = fields, taken
	if task.Version == 0 {
		task.CreatedAt = timeOf(t.now)
	}
	task.Version++
	task.UpdatedAt, task.SinceAt = timeOf(t.now), timeOf(micros(task.SinceAt))
	task.OverdueAt = timeOf(micros(task.OverdueAt))
	task.Retention = task.Retention.Truncate(time.Microsecond)
	t.remember(task, row)
	return nil
}

// forgetTasks is called where tasks change by other ways.
func (t *txn) forgetTasks() { clear(t.s.tasks) }
