package oncemongo

import (
	"fmt"
	"strings"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// taskDoc is a task.
type taskDoc struct {
	ID    string `bson:"_id"`
	V     int64  `bson:"v"`
	N     int64  `bson:"n"` // in the order of creation
	Flow  string `bson:"flow"`
	Task  string `bson:"task"`
	State string `bson:"state"`
	// Version counts the changes.
	Version   int64  `bson:"version"`
	Fields    fields `bson:"fields,omitempty"`
	Taken     fields `bson:"taken,omitempty"`
	Gone      bool   `bson:"gone,omitempty"`
	Final     bool   `bson:"final,omitempty"`
	CreatedAt stamp  `bson:"created_at"`
	SinceAt   stamp  `bson:"since_at,omitempty"`
	UpdatedAt stamp  `bson:"updated_at"`
	OverdueAt stamp  `bson:"overdue_at,omitempty"`
	SweepAt   stamp  `bson:"sweep_at,omitempty"`

	RetentionMS int64 `bson:"retention_ms"`
}

// historyDoc is a line of a task's history.
type historyDoc struct {
	ID       string `bson:"_id"`
	V        int64  `bson:"v"`
	Task     int64  `bson:"task"` // the N of the task
	Version  int64  `bson:"version"`
	At       stamp  `bson:"at"`
	Event    string `bson:"event"`
	From     string `bson:"from,omitempty"`
	To       string `bson:"to"`
	Note     string `bson:"note,omitempty"`
	Actor    string `bson:"actor,omitempty"`
	Reason   string `bson:"reason,omitempty"`
	Callback string `bson:"callback,omitempty"`
}

// resourceDoc is a resource.
type resourceDoc struct {
	ID      string `bson:"_id"`
	V       int64  `bson:"v"`
	Kind    string `bson:"kind"`
	Name    string `bson:"name"`
	Fence   int64  `bson:"fence"`
	Flow    string `bson:"flow,omitempty"`
	Task    string `bson:"task,omitempty"`
	Freeing int    `bson:"freeing,omitempty"`
	SinceAt stamp  `bson:"since_at,omitempty"`
	Version int64  `bson:"version"`
}

// auditDoc is what a person did.
type auditDoc struct {
	ID     string `bson:"_id"`
	V      int64  `bson:"v"`
	Target string `bson:"target"`
	N      int64  `bson:"n"`
	At     stamp  `bson:"at"`
	Action string `bson:"action"`
	Actor  string `bson:"actor"`
	Reason string `bson:"reason"`
}

// pairID is the key of what has a name inside a group: the group's own slashes are written so that
// no two pairs are equal.
func pairID(group, name string) string {
	return strings.NewReplacer("%", "%25", "/", "%2F").Replace(group) + "/" + name
}

func (d *taskDoc) public() (queue.Task, error) {
	task := queue.Task{Flow: d.Flow, ID: d.Task, State: d.State, Version: d.Version, Gone: d.Gone,
		Final: d.Final, CreatedAt: d.CreatedAt.time(), SinceAt: d.SinceAt.time(),
		UpdatedAt: d.UpdatedAt.time(), OverdueAt: d.OverdueAt.time(),
		Retention: time.Duration(d.RetentionMS) * time.Millisecond}
	if d.Gone {
		return task, nil
	}
	var err error
	if task.Fields, err = d.Fields.decode(); err == nil {
		task.Taken, err = decodeTaken(d.Taken)
	}
	if err != nil {
		return task, fmt.Errorf("read task %s/%s: %w", d.Flow, d.Task, err)
	}
	return task, nil
}

func (d *resourceDoc) public() queue.Resource {
	return queue.Resource{Kind: d.Kind, Name: d.Name, Fence: d.Fence, Flow: d.Flow, Task: d.Task,
		Freeing: d.Freeing, SinceAt: d.SinceAt.time(), Version: d.Version}
}

// applyChanges makes the tasks, resources, effects and wakes of a settlement true. r is the row
// that they belong to; nil when a person or an overdue task is the cause.
func (t *txn) applyChanges(set queue.Settlement, r *row) error {
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

func (t *txn) queueEffects(list []queue.Arrival) error {
	if err := checkArrivals(list); err != nil {
		return err
	}
	if err := t.prefetchArrivals(list); err != nil {
		return err
	}
	for i := range list {
		if _, _, err := t.insert(&list[i], 0); err != nil {
			return err
		}
	}
	return nil
}

// changeTask gives a task its new content and a line of its history.
func (t *txn) changeTask(c *queue.TaskChange) error {
	task := &c.Task
	id := pairID(task.Flow, task.ID)
	d, err := t.tasks.get(id)
	if err != nil {
		return err
	}
	switch {
	case task.Version == 0 && d == nil:
		d = &taskDoc{ID: id, N: t.next(), Flow: task.Flow, Task: task.ID, CreatedAt: t.now}
		t.tasks.put(id, d)
	case task.Version != 0 && d != nil && !d.Gone && d.Version == task.Version:
		t.tasks.change(id)
	default:
		return fmt.Errorf("change task %s/%s: it was changed meanwhile: %w", task.Flow, task.ID,
			once.ErrConflict)
	}
	if d.Fields, err = encodeFields(task.Fields); err == nil {
		d.Taken, err = encodeTaken(task.Taken)
	}
	if err != nil {
		return fmt.Errorf("encode task %s/%s: %w", task.Flow, task.ID, err)
	}
	d.State, d.Final, d.Version = task.State, task.Final, task.Version+1
	d.SinceAt, d.UpdatedAt, d.OverdueAt = stampOf(task.SinceAt), t.now, stampOf(task.OverdueAt)
	d.RetentionMS, d.SweepAt = millis(task.Retention), 0
	if task.Final {
		d.SweepAt = t.now + stamp(d.RetentionMS)
	}
	if at := d.OverdueAt; at != 0 && (t.state.Overdue == 0 || at < t.state.Overdue) {
		t.set(func(s *turnState) { s.Overdue = at })
	}
	if c.From != "" {
		t.count(counterKey{countTask, task.Flow, c.From}, -1)
	}
	t.count(counterKey{countTask, task.Flow, task.State}, 1)
	t.size += rowBytes + d.Fields.size() + d.Taken.size()
	t.addHistory(d, c)
	return nil
}

func (t *txn) addHistory(d *taskDoc, c *queue.TaskChange) {
	h := &historyDoc{ID: fmt.Sprintf("%d/%d", d.N, d.Version), Task: d.N, Version: d.Version,
		At: t.now, Event: c.Event, From: c.From, To: d.State, Note: reason(c.Note),
		Actor: c.Actor, Reason: reason(c.Reason), Callback: c.Callback}
	t.history.put(h.ID, h)
	t.size += rowBytes
}

// changeResource makes a resource as it is to be.
func (t *txn) changeResource(r *queue.Resource) error {
	id := pairID(r.Kind, r.Name)
	d, err := t.resources.get(id)
	if err != nil {
		return err
	}
	switch {
	case r.Version == 0 && d == nil:
		d = &resourceDoc{ID: id, Kind: r.Kind, Name: r.Name}
		t.resources.put(id, d)
	case r.Version != 0 && d != nil && d.Version == r.Version:
		t.resources.change(id)
	default:
		return fmt.Errorf("change resource %s/%s: it was changed meanwhile: %w", r.Kind, r.Name,
			once.ErrConflict)
	}
	d.Fence, d.Flow, d.Task, d.Freeing = r.Fence, r.Flow, r.Task, r.Freeing
	d.SinceAt, d.Version = stampOf(r.SinceAt), r.Version+1
	t.size += rowBytes
	return nil
}

// record keeps what a person did.
func (t *txn) record(target string, by queue.Action) {
	n := t.next()
	d := &auditDoc{ID: fmt.Sprint(n), Target: target, N: n, At: t.now, Action: by.Name,
		Actor: by.Actor, Reason: reason(by.Reason)}
	t.audit.put(d.ID, d)
	t.size += rowBytes
}
