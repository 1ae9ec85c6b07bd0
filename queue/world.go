package queue

import "time"

// Task is one document of a flow as a store holds it.
type Task struct {
	Flow, ID string
	State    string
	// Version counts the changes; 0 means that the task is not stored yet.
	Version int64
	// Fields are the document's own values, in the terms of package internal/value.
	Fields map[string]any
	// Taken remembers the transitions that the task has made, by event.
	Taken map[string]Taken
	// Gone is true for a tombstone: only Flow, ID and State are left.
	Gone bool

	CreatedAt time.Time
	// SinceAt is when the task came into its state.
	SinceAt   time.Time
	UpdatedAt time.Time
	// OverdueAt is when the task will have stood still too long; zero: never.
	OverdueAt time.Time
	// Final is true when no further event is expected; the retention runs from then on.
	Final bool
	// Retention is how long the task is kept after it became final, then as long again as a
	// tombstone.
	Retention time.Duration
}

// Taken remembers that a transition was made.
type Taken struct {
	Count int64 `json:"n"`
	// Newer is the value of the event's `newer` at its last application.
	Newer any `json:"newer,omitempty"`
}

// TaskChange is a task's new content and the line that its history gets.
type TaskChange struct {
	// Task as it is to be; Version is the one it was read at, and the store raises it by one. A
	// task that was changed in between makes the settlement fail with once.ErrConflict.
	Task Task
	// From is the state before; empty for a new task.
	From string
	// Event that moved it, or the action of a person ("move"), or "overdue".
	Event string
	// Note is what a reader of the history should know, for example a name that acquired nothing.
	Note string
	// Actor and Reason are set when a person made the change.
	Actor, Reason string
	// Callback is the public id of the callback that caused the change; empty: none.
	Callback string
}

// Resource is something that a task owns for a while.
type Resource struct {
	Kind, Name string
	// Fence rises with each new owner.
	Fence int64
	// Flow and Task of the owner, or of the last owner while Freeing; empty: free.
	Flow, Task string
	// Freeing counts the effects whose acknowledgement the resource still waits for before it
	// becomes free. While it is positive nobody can acquire the resource.
	Freeing int
	SinceAt time.Time
	// Version counts the changes; 0 means that the resource is not stored yet. It works like the
	// version of a task.
	Version int64
}

// Free reports whether the resource has no owner and waits for no effect.
func (r *Resource) Free() bool { return r.Task == "" && r.Flow == "" && r.Freeing == 0 }

// View reads the store inside one of its transactions. The values are the caller's copies. It is
// valid only during the call it was handed to and is not safe for concurrent use. Its errors are
// the store's own: a decision that met one returns it.
type View interface {
	// Now is the store's clock.
	Now() time.Time
	// Task returns the task, or one with Version 0 if there is none.
	Task(flow, id string) (Task, error)
	// Resource returns the resource, or one with Version 0 if it was never seen.
	Resource(kind, name string) (Resource, error)
	// Owned returns the resources of which the task is the owner (those being freed left out), in
	// the order in which it acquired them.
	Owned(flow, task string) ([]Resource, error)
	// FirstWaiter returns the Seq of the earliest row that waits for wait, parked or already
	// woken but not yet worked; 0 if there is none.
	FirstWaiter(wait string) (int64, error)
	// WaitsOf returns the waits of the task's parked rows.
	WaitsOf(flow, task string) ([]string, error)
	// Busy reports whether a row of the task other than except is due, running or waits for
	// another try. A store that can't say after a bounded look says yes.
	Busy(flow, task string, except int64) (bool, error)
}
