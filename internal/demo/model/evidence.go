package model

import (
	"strconv"
	"time"
)

// Evidence is all that is known when a run is over.
type Evidence struct {
	// Callbacks in the order in which each was acknowledged first; those of one task are sent one
	// after the other, so that this is the order of their acceptance.
	Callbacks []*Callback
	// Sightings are what arrived at the destinations, in the order of arrival.
	Sightings []Sighting
	Store     Store
	// Jumps are the moments in which the server's clock was put forward, in their order.
	Jumps []Jump
}

// Jump is one: the server was killed and started again with another clock. All times are by its
// clock.
type Jump struct {
	// From is when the server was dead, To when it was ready again.
	From, To time.Time
	// Settled is when it had had its time to notice who stands still: until then an event may
	// have ended that first.
	Settled time.Time
}

// Callback is one message of a robot's controller, with all that was done with it.
type Callback struct {
	Request, Task, Event string // its key
	// Robot, Roadway, Station and Seq are its content; what the event has no use for is empty.
	Robot, Roadway, Station string
	Seq                     int
	// Early says that its predecessor was sent after it.
	Early bool
	Sends []Send
}

// Name names a callback for people.
func (c *Callback) Name() string { return c.Request + " " + c.Event }

// Acknowledged is how often it was answered with its own content.
func (c *Callback) Acknowledged() int { return c.count(false, true) }

// count counts sends of one content, all or those that were acknowledged.
func (c *Callback) count(changed, told bool) (n int) {
	for _, s := range c.Sends {
		if s.Changed == changed && (s.Told || !told) {
			n++
		}
	}
	return n
}

// Send is one request.
type Send struct {
	// At is the time since the start of the run.
	At time.Duration
	// Why it was sent: first, again, at the same time, hours late, changed.
	Why string
	// Answer is what came back: a status, or what happened instead.
	Answer string
	// Wrong says what the reply should have been, by the server's file; empty: that it was.
	Wrong string
	// Told says that it was acknowledged.
	Told bool
	// Changed says that a field differed under the same key.
	Changed bool
}

// Sighting is one arrival of an effect.
type Sighting struct {
	// At is when it arrived, by the server's clock (which the demo shifts).
	At          time.Time
	Destination string
	// ID is its Idempotency-Key.
	ID string
	// Name of the effect, its task, and the resource (kind/name) that it is about, or empty.
	Name, Task, Resource string
	// Fence of the resource; 0: none.
	Fence int64
	// Seq is the number that Progress tells.
	Seq int
	// State of the task and PayloadID, that of the effect, are what the payload says; it may leave
	// them out. Payload is all of it.
	State, PayloadID, Payload string
}

// key names an effect apart from its id: no task makes the same one twice.
func (s *Sighting) key() effect { return effect{s.Task, s.Name, s.Resource, s.Seq} }

// Store is what the server says of itself.
type Store struct {
	Callbacks []StoredCallback
	Tasks     map[string]*StoredTask
	Effects   []StoredEffect
	Resources []StoredResource
}

// StoredCallback is a callback as the server has it.
type StoredCallback struct {
	ID                    string
	Key                   []string
	State, Error          string
	Duplicates, Conflicts int
}

// StoredTask is a task as the server has it.
type StoredTask struct {
	State   string
	Fields  map[string]string // values as JSON
	History []Change
}

// Change is a line of a task's history.
type Change struct {
	At              time.Time
	Event, From, To string
	// Callback is the id of the callback that made it; empty: none did.
	Callback string
}

// StoredEffect is an effect as the server has it.
type StoredEffect struct{ ID, Destination, Name, Task, Resource, State, Error string }

// StoredResource is a resource as the server has it.
type StoredResource struct {
	Name    string // kind/name
	Owner   string // the task that has it, or had it while it is being freed
	Fence   int64
	Waiting int
}

// effect names an effect by what it is.
type effect struct {
	task, name, resource string
	seq                  int // of Progress
}

func (e effect) String() string {
	switch {
	case e.name == Progress:
		return e.name + " " + strconv.Itoa(e.seq) + " of " + e.task
	case e.resource == "":
		return e.name + " of " + e.task
	}
	return e.name + " " + e.resource + " of " + e.task
}
