package queue

import (
	"strings"
	"time"

	"github.com/oncekit/once"
)

// Row is one callback or effect as a store holds it. Rows handed out by a store are the caller's
// own copies; Meta and Body must not be changed.
type Row struct {
	// Seq is the order of acceptance within the store. It rises; gaps are allowed.
	Seq int64
	// Identity is what the row is unique by; its ID method gives the public id.
	Identity once.Identity
	// Fingerprint of the first arrival's content. Zero for effects.
	Fingerprint once.Fingerprint
	Kind        Kind
	// Lane names who works the row: "flow", "source/NAME", or EffectLane's.
	Lane string
	// OrderKey: rows of one lane with equal order keys are worked one at a time, in the order of
	// Seq. Empty: no order.
	OrderKey string
	State    State
	// Source of a callback; for an effect the destination.
	Source string
	// Event of a callback; for an effect its name.
	Event string
	// Flow and Task that the row belongs to; empty where there is none.
	Flow, Task string
	// Key is the key's parts as texts, for people and for the search.
	Key []string
	// Resource that an effect is about, as "kind/name"; empty otherwise.
	Resource string
	// Frees is true for an effect whose acknowledgement sets its resource free.
	Frees bool
	// Cause is the public id of the callback that an effect comes from, or "task/FLOW/ID" for an
	// alarm of a task that stands still, or "person" for an action of a person.
	Cause string
	// Attempt counts the tries that were started, the running one included.
	Attempt int
	// Lost counts the tries in a row whose worker was lost. Reset by every try that ends.
	Lost int
	// Fence of the present or last lease. It rises with every lease.
	Fence int64
	// Revision is 0 for what came first and n for the nth later content accepted by a person.
	Revision int
	// Duplicates and Conflicts count the later arrivals.
	Duplicates, Conflicts int64

	ReceivedAt time.Time // when the first arrival was accepted, by the store's clock
	LastAt     time.Time // when the last arrival came
	NextAt     time.Time // next try, or limit of the wait; zero: it waits for no time
	StartedAt  time.Time // start of the last attempt; zero: never started
	FinishedAt time.Time // end of the work; zero: not ended
	ExpiresAt  time.Time // an effect is not sent later than this; zero: no limit

	// Error is the reason for the state, for people.
	Error string
	// DeadCause says why a dead row is dead; empty otherwise.
	DeadCause Cause
	// LimitPassed is true when a parked row was made due because its wait came to its limit.
	LimitPassed bool
	// Waits is what a parked row waits for: WaitTask or WaitResource texts. A woken row keeps them,
	// and with them its turn, until its next settlement that is no retry.
	Waits []string
	// WaitUntil is when the wait of a row comes to its limit that is parked, or was and is not
	// worked since; zero for others.
	WaitUntil time.Time
	// TraceParent is the trace context that the row came with (W3C Trace Context, section 3.2): of
	// a callback that of its receipt, or the sender's own where receipts are not traced; of an
	// effect that of its cause. Empty: none. TraceState is what belongs to it (section 3.3).
	TraceParent, TraceState string
	// Meta is what the row's own layer stores beside the body: the request of a callback, the
	// addressing of an effect. Opaque to the queue, JSON by convention.
	Meta []byte
	// Body is the payload, byte for byte. Nil after it was swept.
	Body []byte
}

// ID returns the row's public id, stable for the life of the row and beyond.
func (r *Row) ID() string { return r.Identity.ID() }

// Grant returns what a settlement of the row has to show.
func (r *Row) Grant() Grant { return Grant{Seq: r.Seq, Fence: r.Fence} }

// CausedByCallback reports whether the Cause of an effect is the id of a callback: not a person,
// and not an alarm of a task that stands still.
func (r *Row) CausedByCallback() bool {
	return r.Cause != "" && r.Cause != "person" && !strings.Contains(r.Cause, "/")
}

// EffectLane returns the lane in which the effects of a destination wait.
func EffectLane(destination string) string { return "effect/" + destination }

// Grant is a lease as its owner holds it: the row and the fence. A write under a grant whose fence
// is not the row's present one changes nothing and fails with once.ErrLeaseLost.
type Grant struct {
	Seq   int64
	Fence int64
}

// Arrival is a message to be stored as a row, or an effect to be queued.
type Arrival struct {
	Identity    once.Identity
	Fingerprint once.Fingerprint
	Kind        Kind
	Lane        string
	OrderKey    string
	// State is Pending, or Unrouted for a callback that nothing is declared for.
	State      State
	Source     string
	Event      string
	Flow, Task string
	Key        []string
	Resource   string
	Frees      bool
	Cause      string
	// TraceParent and TraceState as in Row; TraceState only with a TraceParent.
	TraceParent, TraceState string
	Meta                    []byte
	Body                    []byte
	// Peer is the address of the sender, kept with each arrival.
	Peer string
	// Expires is how long after its storing an effect may still be sent; 0: no limit.
	Expires time.Duration
	// Retention is how long the identity is remembered after the later of the last arrival and
	// the end of the work. It must be positive.
	Retention time.Duration
	// KeepBody is how long the body and Meta are kept, counted like Retention; 0: as long as it.
	KeepBody time.Duration
	// ReplaceDead lets a conflicting arrival take the place of a first one that is dead and had
	// no effect.
	ReplaceDead bool
	// NewAfter makes the arrival of a known identity that comes longer than this after the last
	// one, by the store's clock, a new callback with an identity of its own, whatever its content
	// and however the older one stands. Later arrivals under the identity belong to the newest one.
	// It is at most Retention. 0: never.
	NewAfter time.Duration
}

// Receipt is what came of one arrival.
type Receipt struct {
	Outcome Outcome // Accepted, Duplicate or Conflict
	// Seq of the row that the identity belongs to.
	Seq int64
	// Identity of that row where it is not the arrival's own; see Arrival.NewAfter. Zero: it is.
	Identity once.Identity
	// State of that row as of the answer; empty for a duplicate that the store answered without
	// reading it.
	State State
	// Revived is true when the arrival made a dead row due again.
	Revived bool
}
