package flow

import (
	"time"

	"github.com/oncekit/once/queue"
)

// Vars is what the expressions of a flow can see. A nil or zero field is a variable that does not
// exist at that place.
type Vars struct {
	Body any
	// Item and Request are the Message's.
	Item    func() (any, error)
	Request func() (Request, error)
	Source  string
	// Task as the expressions see it: the fields, and `id`, `state`, `version` above them. Inside a
	// transition state and version are those that the task is about to have, so the payload of an
	// effect of finishFE says `unloaded`. `newer` sees the task as it was before.
	Task     map[string]any
	Resource *ResourceVars
	Effect   *EffectVars
}

// ResourceVars is the variable `resource`.
type ResourceVars struct {
	Kind, Name string
	Fence      int64
}

// EffectVars is the variable `effect`.
type EffectVars struct{ ID, Name string }

// Expr is a compiled expression. It returns a value in the terms of package internal/value, or
// Absent. It is pure and safe for concurrent use.
type Expr func(*Vars) (any, error)

// Absent is what an Expr returns for an optional value that is not there.
var Absent = absent{}

type absent struct{}

// Message is a callback as a flow sees it, decoded from a row.
type Message struct {
	Body any
	// Item decodes the element that the callback is of a message with several. It is called like
	// Request; nil: the message is one callback.
	Item func() (any, error)
	// Request decodes the rest of the message. It is called only for an expression that reads it,
	// as often as there are any; nil: there is nothing.
	Request func() (Request, error)
}

// Request is what came beside the body.
type Request struct {
	Header map[string][]string // lower-case names
	Query  map[string][]string
}

// Decode makes a Message of a row's Meta and Body.
type Decode func(queue.Row) (Message, error)

// Machine is one declared flow. It is not changed after New.
type Machine struct {
	Name    string
	Initial string
	Final   []string
	// Starts names the events that may create a task. Default: those whose From has Initial.
	Starts []string
	// Early is how long an event that came too soon waits for its predecessor. Default 24h.
	Early time.Duration
	Busy  Busy
	// Overdue by state.
	Overdue map[string]Overdue
	Events  map[string]*Event
	// Retention of finished tasks, at least that of every source that feeds the flow.
	Retention time.Duration
}

// Busy says what happens to an event whose resource is taken.
type Busy struct {
	// Wait is how long the event waits for the resource; 0 with Refuse false: 10m.
	Wait time.Duration
	// Refuse makes the event a dead letter at once.
	Refuse bool
	// Effects are sent as soon as an event has to wait.
	Effects []Effect
}

// Overdue says how long a task may stay in a state, and what is sent when it stays longer.
type Overdue struct {
	After   time.Duration
	Effects []Effect
}

// Event is one legal move.
type Event struct {
	From []string
	// To is the new state; empty: the state stays.
	To  string
	Set []Field // an Absent value leaves the field as it is
	Max []Field // only moves up
	// Newer, if set, has to be greater than at the event's last application, else it is stale.
	// It sees the task as it was before the transition and must have a value.
	Newer Expr
	// Again says what a repeat of an event in a cycle is.
	Again Again
	// Acquire are expressions for "kind/name" texts; all or nothing.
	Acquire []Expr
	// AcquireReads names the task's fields that Acquire reads: a change of one of them is a reason
	// to look again at a callback that waits for a resource. Nil: every field may be read.
	AcquireReads []string
	// Release are expressions for "kind/name" texts; ReleaseAll frees what the task owns.
	Release    []Expr
	ReleaseAll bool
	Effects    []Effect
}

// Again says what becomes of an event that was taken before, whose states can come again, and which
// arrives while the task is in none of them. In one of them it is the next round and is applied,
// unless the event leaves the task in one of its own states (no To, or To among From): then a
// second one is a repeat and stale.
type Again string

// The choices for Again.
const (
	AgainUnset Again = ""
	AgainStale Again = "stale"
	AgainPark  Again = "park"
)

// Field is an assignment.
type Field struct {
	Name  string
	Value Expr
}

// Effect is something to be sent out.
type Effect struct {
	Name        string
	Destination string
	// Expires is how long after the transition it may still be sent; 0: no limit.
	Expires time.Duration
	// When, if set, has to give true, else the effect is not made (when: EXPR). It sees what Build
	// sees. Absent is false; anything but a bool is an error, a dead letter like one of Build.
	When Expr
	// Build makes the addressing and the payload; the queue stores both as they are.
	Build func(*Vars) (meta, body []byte, err error)
}

// ResourceKind says what must happen outside before a freed resource may be owned again.
type ResourceKind struct {
	Kind      string
	OnRelease []Effect
	// AtOnce frees the resource without waiting for the effects' acknowledgement.
	AtOnce bool
}
