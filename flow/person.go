package flow

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// causePerson is the cause of effects that follow from an action of a person.
const causePerson = "person"

var errNobody = errors.New("actor and reason are required")

// Move puts a task into another state because a person says so. Fields stay, and no transition
// counts as taken. A move into a final state frees everything that the task owns, with the
// effects that belong to it: nothing else would ever free it. It returns once.ErrNotFound for an
// unknown flow or task, and once.ErrState for a state that the flow doesn't have, the state that
// the task is in, and a task that is gone.
func (e *Engine) Move(
	v queue.View, flow, task, to string, by queue.Action,
) (queue.Settlement, error) {
	p := e.plans[flow]
	t, err := e.known(v, flow, task, by)
	switch {
	case err != nil:
		return queue.Settlement{}, fmt.Errorf("move task %s: %w", task, err)
	case !p.hasState(to):
		return queue.Settlement{}, fmt.Errorf("move task %s: flow %s has no state %q: %w",
			task, flow, to, once.ErrState)
	case t.State == to:
		return queue.Settlement{}, fmt.Errorf("move task %s: it is in state %s already: %w",
			task, to, once.ErrState)
	}
	d := e.personDraft(v, p, t, "move")
	from := t.State
	t = cloneTask(t)
	p.enter(&t, to, d.now)
	t.Retention = d.retention
	d.vars.Task = taskVars(&t, t.Version+1)
	if t.Final {
		if err := d.release(nil, true); err != nil {
			return queue.Settlement{}, fmt.Errorf("move task %s: %w", task, err)
		}
	}
	d.wake(queue.Wake{Wait: queue.WaitTask(flow, task)})
	s := d.changes()
	s.Tasks = []queue.TaskChange{d.byPerson(t, from, "move", by)}
	return s, nil
}

// GiveUp says what follows when a task gives up everything that it owns because its flow is gone
// from the configuration: what the kinds of resources do on release. The task itself stays as it
// is.
func (e *Engine) GiveUp(v queue.View, task queue.Task) (queue.Settlement, error) {
	d := e.personDraft(v, e.plans[task.Flow], task, "give up")
	d.vars.Task = taskVars(&task, task.Version)
	if err := d.release(nil, true); err != nil {
		return queue.Settlement{}, fmt.Errorf("free what task %s owns: %w", task.ID, err)
	}
	return d.changes(), nil
}

// ReleaseResource frees a resource because a person says so. One that is owned is freed as by its
// owner, with the on_release effects and the wait for them; one that is being freed is free at
// once: the person says that what it waits for has happened. It returns once.ErrNotFound for a
// resource that was never owned and once.ErrState for one that is free.
func (e *Engine) ReleaseResource(
	v queue.View, kind, name string, by queue.Action,
) (queue.Settlement, error) {
	r, err := ownable(v, kind, name, by)
	if err == nil && r.Free() {
		err = fmt.Errorf("it is free already: %w", once.ErrState)
	}
	if err != nil {
		return queue.Settlement{}, fmt.Errorf("release resource %s/%s: %w", kind, name, err)
	}
	t, err := v.Task(r.Flow, r.Task)
	if err != nil {
		return queue.Settlement{}, fmt.Errorf("read task %s: %w", r.Task, err)
	}
	t.Flow, t.ID = r.Flow, r.Task
	d := e.personDraft(v, e.plans[r.Flow], t, "release "+kind+"/"+name)
	d.base = deriveBase(d.base, strconv.FormatInt(r.Version, 10))
	d.vars.Task = taskVars(&t, t.Version+1)
	kept := d.keep(r)
	if r.Freeing > 0 {
		d.note("%s/%s is free: %s not waited for", kind, name, effects(r.Freeing))
		d.clear(kept)
	} else {
		d.note("%s/%s is released", kind, name)
		if err := d.free(kept); err != nil {
			return queue.Settlement{}, fmt.Errorf("release resource %s/%s: %w", kind, name, err)
		}
	}
	s := d.changes()
	s.Audit = audited(kind, name, by)
	if stored(&t) {
		s.Tasks = []queue.TaskChange{d.byPerson(t, t.State, "release", by)}
	}
	return s, nil
}

// TransferResource makes a task the owner of a resource because a person says so, whoever owned
// it before: with a new fence and without effects. The task's waiting callbacks are woken. It
// returns once.ErrNotFound for a resource that was never owned and an unknown flow or task,
// once.ErrState for a task that is final or gone or owns the resource already.
func (e *Engine) TransferResource(
	v queue.View, kind, name, toFlow, toTask string, by queue.Action,
) (queue.Settlement, error) {
	r, err := ownable(v, kind, name, by)
	var t queue.Task
	if err == nil {
		t, err = e.known(v, toFlow, toTask, by)
	}
	owned := r.Flow == toFlow && r.Task == toTask && r.Freeing == 0
	switch {
	case err != nil:
	case t.Final || e.plans[toFlow].final[t.State]:
		err = fmt.Errorf("task %s is in the final state %s: %w", toTask, t.State, once.ErrState)
	case owned:
		err = fmt.Errorf("task %s owns it already: %w", toTask, once.ErrState)
	}
	if err != nil {
		return queue.Settlement{}, fmt.Errorf("transfer resource %s/%s: %w", kind, name, err)
	}
	d := e.personDraft(v, e.plans[toFlow], t, "transfer")
	before := owner{r.Flow, r.Task}
	d.give(d.keep(r), toFlow, toTask)
	d.wake(queue.Wake{Wait: queue.WaitTask(toFlow, toTask)})
	d.note("%s/%s is transferred from %s to %s", kind, name, before, owner{toFlow, toTask})
	s := d.changes()
	s.Audit = audited(kind, name, by)
	s.Tasks = []queue.TaskChange{d.byPerson(t, t.State, "transfer", by)}
	if before == (owner{}) || before == (owner{toFlow, toTask}) {
		return s, nil
	}
	last, err := v.Task(before.flow, before.task)
	if err != nil {
		return queue.Settlement{}, fmt.Errorf("read task %s: %w", before.task, err)
	}
	if stored(&last) {
		s.Tasks = append(s.Tasks, d.byPerson(last, last.State, "transfer", by))
	}
	return s, nil
}

// String names the task for people.
func (o owner) String() string {
	if o == (owner{}) {
		return "nobody"
	}
	return "task " + o.flow + "/" + o.task
}

func stored(t *queue.Task) bool { return t.Version > 0 && !t.Gone }

// known returns a task that a person can act on.
func (e *Engine) known(v queue.View, flow, task string, by queue.Action) (queue.Task, error) {
	if by.Actor == "" || by.Reason == "" {
		return queue.Task{}, errNobody
	}
	if e.plans[flow] == nil {
		return queue.Task{}, fmt.Errorf("flow %q: %w", flow, once.ErrNotFound)
	}
	t, err := v.Task(flow, task)
	if err != nil {
		return queue.Task{}, fmt.Errorf("read task %s: %w", task, err)
	}
	if t.Version == 0 {
		return queue.Task{}, fmt.Errorf("task %s: %w", task, once.ErrNotFound)
	}
	if t.Gone {
		return queue.Task{}, fmt.Errorf("task %s is gone: %w", task, once.ErrState)
	}
	t.Flow, t.ID = flow, task
	return t, nil
}

// ownable returns a resource that a person can act on.
func ownable(v queue.View, kind, name string, by queue.Action) (queue.Resource, error) {
	if by.Actor == "" || by.Reason == "" {
		return queue.Resource{}, errNobody
	}
	r, err := v.Resource(kind, name)
	if err != nil {
		return queue.Resource{}, fmt.Errorf("read resource: %w", err)
	}
	if r.Version == 0 {
		return queue.Resource{}, once.ErrNotFound
	}
	r.Kind, r.Name = kind, name
	return r, nil
}

// personDraft is a draft whose effects come from a person's action on the task as it is now.
func (e *Engine) personDraft(v queue.View, p *plan, t queue.Task, action string) *draft {
	d := e.newDraft(v, p, t.Flow, t.ID)
	d.cause = causePerson
	d.base = deriveBase(once.Identity{}, causePerson, action, t.Flow, t.ID,
		strconv.FormatInt(t.Version, 10))
	return d
}

func (d *draft) byPerson(
	t queue.Task, from, event string, by queue.Action,
) queue.TaskChange {
	c := d.taskChange(t, from, event)
	c.Actor, c.Reason = by.Actor, by.Reason
	return c
}

// audited is what is remembered of an action on a resource, also when no task has a history of it.
func audited(kind, name string, by queue.Action) []queue.AuditEntry {
	return []queue.AuditEntry{{Target: "resource/" + kind + "/" + name, Action: by}}
}
