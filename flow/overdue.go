package flow

import (
	"fmt"
	"strconv"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// Overdue says what follows when a task has stood still too long: its alarms, once in each stay
// in the state, and a line in its history. An alarm that can't be built is named there. It is
// empty for a task that is not due. Each stay has its own, stable effect ids.
func (e *Engine) Overdue(v queue.View, task queue.Task) (queue.Settlement, error) {
	if task.Version == 0 || task.Gone || task.OverdueAt.IsZero() || task.OverdueAt.After(v.Now()) {
		return queue.Settlement{}, nil
	}
	p := e.plans[task.Flow]
	d := e.newDraft(v, p, task.Flow, task.ID)
	d.base = deriveBase(once.Identity{}, "overdue", task.Flow, task.ID, task.State,
		strconv.FormatInt(task.SinceAt.UnixNano(), 10))
	d.cause = OrderKey(task.Flow, task.ID)
	d.vars.Task = taskVars(&task, task.Version)
	var alarms []Effect
	d.note("in state %s since %s", task.State, task.SinceAt.UTC().Format(time.RFC3339))
	if p != nil && !task.Final {
		alarms = p.Overdue[task.State].Effects
	}
	for _, ef := range alarms {
		if err := d.effect(ef, nil, false); err != nil {
			d.note("not sent: %v", err)
		}
	}
	task.OverdueAt = time.Time{}
	s := d.changes()
	s.Tasks = []queue.TaskChange{d.taskChange(task, task.State, "overdue")}
	return s, nil
}

// deriveBase returns what the effects of one cause are derived from.
func deriveBase(from once.Identity, parts ...string) once.Identity {
	return once.DeriveIdentity(from, fmt.Sprintf("%q", parts), 0)
}
