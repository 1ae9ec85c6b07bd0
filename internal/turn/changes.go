package turn

import (
	"fmt"
	"maps"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// applyChanges makes the tasks, resources, effects and wakes of a settlement true. r is the row
// that they belong to; nil when a person or an overdue task is the cause.
func (t *Batch) applyChanges(set queue.Settlement, r *Row) error {
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
	if err := t.queueEffects(set.Effects); err != nil {
		return fmt.Errorf("store effects: %w", err)
	}
	for _, e := range set.Audit {
		t.record(e.Target, e.Action)
	}
	for _, w := range set.Wake {
		if err := t.wake(w, r); err != nil {
			return err
		}
	}
	return nil
}

func (t *Batch) queueEffects(list []queue.Arrival) error {
	if err := t.checkArrivals(list); err != nil {
		return err
	}
	if t.FreshEffects {
		t.takeForNew(list)
	} else if err := t.prefetchArrivals(list); err != nil {
		return err
	}
	for i := range list {
		if _, _, err := t.insert(&list[i], 0); err != nil {
			return err
		}
	}
	return nil
}

// takeForNew notes of effects of which nothing is known that they are new.
func (t *Batch) takeForNew(list []queue.Arrival) {
	for i := range list {
		key := identityKey{list[i].Kind, list[i].Identity}
		if _, known := t.byIdentity[key]; !known && list[i].Kind == queue.Effect {
			t.byIdentity[key] = nil
		}
	}
}

// checkName refuses a name that the database's indexes could not take.
func (t *Batch) checkName(what, name string) error {
	if t.MaxName > 0 && len(name) > t.MaxName {
		return fmt.Errorf("the name of a %s has %d bytes, at most %d: %w", what, len(name),
			t.MaxName, once.ErrTooLarge)
	}
	return nil
}

// changeTask gives a task its new content and a line of its history.
func (t *Batch) changeTask(c *queue.TaskChange) error {
	task := &c.Task
	key := Pair{task.Flow, task.ID}
	if err := t.checkName("task", task.ID); err != nil {
		return err
	}
	d, err := t.Tasks.get(key)
	if err != nil {
		return err
	}
	switch {
	case task.Version == 0 && d == nil:
		d = &Task{N: t.next(), Flow: task.Flow, Task: task.ID, CreatedAt: t.now}
		t.Tasks.put(d)
	case task.Version != 0 && d != nil && !d.Gone && d.Version == task.Version:
		t.Tasks.change(key)
	default:
		return fmt.Errorf("change task %s/%s: it was changed meanwhile: %w", task.Flow, task.ID,
			once.ErrConflict)
	}
	d.Fields, _ = copyValue(task.Fields).(map[string]any)
	d.Taken = maps.Clone(task.Taken)
	d.State, d.Final, d.Version = task.State, task.Final, task.Version+1
	d.SinceAt, d.UpdatedAt, d.OverdueAt = StampOf(task.SinceAt), t.now, StampOf(task.OverdueAt)
	d.RetentionMS, d.SweepAt = Millis(task.Retention), 0
	if task.Final {
		d.SweepAt = t.now + Stamp(d.RetentionMS)
	}
	if at := d.OverdueAt; at != 0 && (t.state.Overdue == 0 || at < t.state.Overdue) {
		t.set(func(s *State) { s.Overdue = at })
	}
	if c.From != "" {
		t.count(CounterKey{CountTasks, task.Flow, c.From}, -1)
	}
	t.count(CounterKey{CountTasks, task.Flow, task.State}, 1)
	t.size += rowBytes
	t.addHistory(d, c)
	return nil
}

func (t *Batch) addHistory(d *Task, c *queue.TaskChange) {
	t.History.put(&History{Task: d.N, Version: d.Version, At: t.now, Event: c.Event,
		From: c.From, To: d.State, Note: reason(c.Note), Actor: c.Actor,
		Reason: reason(c.Reason), Callback: c.Callback})
	t.size += rowBytes
}

// changeResource makes a resource as it is to be.
func (t *Batch) changeResource(r *queue.Resource) error {
	key := Pair{r.Kind, r.Name}
	if err := t.checkName("resource", r.Name); err != nil {
		return err
	}
	d, err := t.Resources.get(key)
	if err != nil {
		return err
	}
	switch {
	case r.Version == 0 && d == nil:
		d = &Resource{Kind: r.Kind, Name: r.Name}
		t.Resources.put(d)
	case r.Version != 0 && d != nil && d.Version == r.Version:
		t.Resources.change(key)
	default:
		return fmt.Errorf("change resource %s/%s: it was changed meanwhile: %w", r.Kind, r.Name,
			once.ErrConflict)
	}
	d.Fence, d.Flow, d.Task, d.Freeing = r.Fence, r.Flow, r.Task, r.Freeing
	d.SinceAt, d.Version = StampOf(r.SinceAt), r.Version+1
	t.size += rowBytes
	return nil
}

// record keeps what a person did.
func (t *Batch) record(target string, by queue.Action) {
	t.Audit.put(&Audit{Target: target, N: t.next(), At: t.now, Action: by.Name, Actor: by.Actor,
		Reason: reason(by.Reason)})
	t.size += rowBytes
}
