package turn

import (
	"maps"
	"slices"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// Pair is the key of what has a name inside a group: a task in its flow, a resource of its kind.
type Pair struct{ Group, Name string }

// Task is one document of a flow.
type Task struct {
	N          int64 // in the order of creation
	Flow, Task string
	State      string
	// Version counts the changes.
	Version int64
	// Fields and Taken are replaced, never changed in place.
	Fields      map[string]any
	Taken       map[string]queue.Taken
	Gone, Final bool

	CreatedAt, SinceAt, UpdatedAt, OverdueAt, SweepAt Stamp

	RetentionMS int64
}

func (d *Task) key() Pair { return Pair{d.Flow, d.Task} }

// Public returns the task as the queue knows it; its maps are copies.
func (d *Task) Public() queue.Task {
	task := queue.Task{Flow: d.Flow, ID: d.Task, State: d.State, Version: d.Version, Gone: d.Gone,
		Final: d.Final, CreatedAt: d.CreatedAt.Time(), SinceAt: d.SinceAt.Time(),
		UpdatedAt: d.UpdatedAt.Time(), OverdueAt: d.OverdueAt.Time(),
		Retention: time.Duration(d.RetentionMS) * time.Millisecond}
	if d.Gone {
		return task
	}
	task.Fields, _ = copyValue(d.Fields).(map[string]any)
	task.Taken = maps.Clone(d.Taken)
	if task.Fields == nil {
		task.Fields = map[string]any{}
	}
	if task.Taken == nil {
		task.Taken = map[string]queue.Taken{}
	}
	return task
}

// copyValue copies a value of a task to its depth.
func copyValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = copyValue(e)
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i := range out {
			out[i] = copyValue(out[i])
		}
		return out
	}
	return v
}

// History is a line of a task's history.
type History struct {
	Task          int64 // the N of the task
	Version       int64
	At            Stamp
	Event         string
	From, To      string
	Note          string
	Actor, Reason string
	Callback      string
}

// HistoryKey names a line.
type HistoryKey struct{ Task, Version int64 }

func (h *History) key() HistoryKey { return HistoryKey{h.Task, h.Version} }

// Resource is something that a task owns for a while.
type Resource struct {
	Kind, Name string
	Fence      int64
	Flow, Task string
	Freeing    int
	SinceAt    Stamp
	Version    int64
}

func (d *Resource) key() Pair { return Pair{d.Kind, d.Name} }

// Public returns the resource as the queue knows it.
func (d *Resource) Public() queue.Resource {
	return queue.Resource{Kind: d.Kind, Name: d.Name, Fence: d.Fence, Flow: d.Flow, Task: d.Task,
		Freeing: d.Freeing, SinceAt: d.SinceAt.Time(), Version: d.Version}
}

// Audit is what a person did.
type Audit struct {
	N                     int64
	Target                string
	At                    Stamp
	Action, Actor, Reason string
}

func (d *Audit) key() int64 { return d.N }

// Arrival is one arrival of a callback after the first.
type Arrival struct {
	Row         int64
	N           int64
	At          Stamp
	Outcome     queue.Outcome
	Peer        string
	Fingerprint once.Fingerprint
	// Accepted is the id of the revision that a person made of it.
	Accepted   string
	Meta, Body []byte // of conflicts only
}

// ArrivalKey names an arrival.
type ArrivalKey struct{ Row, N int64 }

func (d *Arrival) key() ArrivalKey { return ArrivalKey{d.Row, d.N} }

// Rejected is a refused message.
type Rejected struct {
	ID           int64
	Source, Ring string
	At           Stamp
	Outcome      queue.Outcome
	Reason, Peer string
	Size         int64
	Meta, Body   []byte
}

func (d *Rejected) key() int64 { return d.ID }
