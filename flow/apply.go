package flow

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// apply carries a transition out: set, max, acquire, release, effects, in this order. Their
// expressions see the new state; those of set the fields as they were, so that their order does not
// matter, those of max the fields with set, all others the new fields.
func (w *work) apply() (queue.Settlement, error) {
	if err := w.message(); err != nil {
		return queue.Settlement{}, err
	}
	next := cloneTask(w.old)
	if err := w.take(&next); err != nil {
		return queue.Settlement{}, err
	}
	idle, err := w.assign(&next)
	if err != nil {
		return queue.Settlement{}, err
	}
	if idle != "" {
		return queue.Settlement{State: queue.Stale, Error: idle}, nil
	}
	wanted, err := w.refs("acquire", w.ev.Acquire)
	if err != nil {
		return queue.Settlement{}, err
	}
	taken, err := w.acquire(wanted, w.row.Seq)
	if err != nil {
		return queue.Settlement{}, err
	}
	if len(taken) > 0 {
		return w.busy(taken)
	}
	listed, err := w.refs("release", w.ev.Release)
	if err != nil {
		return queue.Settlement{}, err
	}
	if err := w.release(listed, w.ev.ReleaseAll); err != nil {
		return queue.Settlement{}, err
	}
	for _, ef := range w.ev.Effects {
		if err := w.effect(ef, nil, false); err != nil {
			return queue.Settlement{}, err
		}
	}
	return w.settle(next), nil
}

// take puts the task into its new state and counts the transition.
func (w *work) take(next *queue.Task) error {
	to := w.ev.To
	if to == "" {
		to = w.old.State
	}
	if w.old.Version == 0 {
		next.CreatedAt = w.now
	}
	if w.old.Version == 0 || to != w.old.State {
		w.plan.enter(next, to, w.now)
	}
	next.Retention = w.retention
	count := queue.Taken{Count: w.old.Taken[w.row.Event].Count + 1}
	if w.ev.Newer != nil {
		v, err := w.newer()
		if err != nil {
			return err
		}
		count.Newer = v
	}
	next.Taken[w.row.Event] = count
	return nil
}

// assign sets the task's fields. For an event that leaves the state as it is, idle says why nothing
// of it is to be applied: its `max` shows that it, or a later one, was applied before.
func (w *work) assign(next *queue.Task) (idle string, err error) {
	version := w.old.Version + 1
	w.vars.Task = taskVars(next, version)
	for _, f := range w.ev.Set {
		v, err := f.Value(&w.vars)
		if err != nil {
			return "", &fieldError{"set." + f.Name, err}
		}
		if v != any(Absent) {
			next.Fields[f.Name] = v
		}
	}
	w.vars.Task = taskVars(next, version)
	moved, held := false, ""
	for _, f := range w.ev.Max {
		v, err := f.Value(&w.vars)
		if err != nil {
			return "", &fieldError{"max." + f.Name, err}
		}
		if v == any(Absent) || v == nil {
			continue
		}
		up, err := above(v, next.Fields[f.Name])
		if err != nil {
			return "", &fieldError{"max." + f.Name, err}
		}
		if !up {
			held = fmt.Sprintf("max.%s: %s is not above %s", f.Name, show(v),
				show(next.Fields[f.Name]))
			continue
		}
		moved, next.Fields[f.Name] = true, v
	}
	w.vars.Task = taskVars(next, version)
	if w.ev.To != "" || len(w.ev.Max) == 0 || w.ev.Newer != nil || moved {
		return "", nil
	}
	if held == "" && len(w.ev.Effects) > 0 && w.old.Taken[w.row.Event].Count > 0 {
		held = "max: there is no value that tells it from the one before"
	}
	return held, nil
}

// above reports whether v is greater than what a field holds; a field without a value is below all.
func above(v, have any) (bool, error) {
	if _, ok := value.Compare(v, v); !ok {
		return false, fmt.Errorf("%s has no order", show(v))
	}
	if have == nil {
		return true, nil
	}
	order, ok := value.Compare(v, have)
	if !ok {
		return false, errors.New(show(v) + " and " + show(have) + " have no order")
	}
	return order > 0, nil
}

// settle puts the settlement of an applied transition together.
func (w *work) settle(next queue.Task) queue.Settlement {
	from := w.old.State
	if w.old.Version == 0 {
		from = ""
	}
	if from != next.State || len(w.ev.Acquire) > 0 || w.resourcesMayDiffer(next) {
		w.wakes = append([]queue.Wake{{Wait: queue.WaitTask(w.flow, w.task)}}, w.wakes...)
	}
	s := w.changes()
	s.State = queue.Done
	change := w.taskChange(next, from, w.row.Event)
	change.Callback = w.row.ID()
	s.Tasks = []queue.TaskChange{change}
	return s
}

// resourcesMayDiffer reports whether a callback of the task that waits for a resource might want
// another one now, or none. Robots report their progress all the time; that alone must not wake
// anybody. After an event that acquires they are woken in any case: they may be stale now, they may
// want what the task has just got, and their wait may close a circle through it.
func (w *work) resourcesMayDiffer(next queue.Task) bool {
	for name, v := range next.Fields {
		if w.plan.reads != nil && !w.plan.reads[name] {
			continue
		}
		if old, ok := w.old.Fields[name]; !ok || !reflect.DeepEqual(old, v) {
			return true
		}
	}
	return false
}
