package turn

import (
	"slices"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// KindOf returns the kind of a row by its number: callbacks have even ones, effects odd ones, so
// that a grant, which is a number and a fence, names it.
func KindOf(seq int64) queue.Kind {
	if seq%2 == 0 {
		return queue.Callback
	}
	return queue.Effect
}

// Row is a callback or an effect as a batch sees it. Slices in it are replaced, never changed in
// place, so that a copy of it stays as it was.
type Row struct {
	Seq         int64
	Identity    once.Identity
	Fingerprint once.Fingerprint
	State       queue.State
	Phase       Phase
	Lane        string
	OrderKey    string
	// InLine is true for a row that holds up the later rows of its order key, or waits behind one.
	InLine     bool
	Source     string
	Event      string
	Flow, Task string
	Key        []string
	Resource   string
	Frees      bool
	Cause      string
	Peer       string

	Attempt, Lost, Revision int
	Fence                   int64

	Duplicates, Conflicts int64

	ReceivedAt, LastAt, NextAt, StartedAt, FinishedAt, ExpiresAt, SweepAt Stamp
	// LeaseUntil and Node say until when who has it.
	LeaseUntil Stamp
	Node       string

	Error       string
	DeadCause   queue.Cause
	Blocks      bool
	LimitPassed bool
	Waits       []string
	WaitUntil   Stamp
	Attempts    []Attempt
	// Acted is true once a person did something to it.
	Acted bool
	// Accepted are the revisions that people made of conflicting arrivals.
	Accepted []Revision
	// Newest is the number of the newest callback under the identity of this one, if that is
	// another one; 0 otherwise.
	Newest int64

	RetentionMS, KeepBodyMS int64
	TraceParent, TraceState string
	Meta, Body              []byte

	// tried is true while what came of a try is settled, not the decision of a person or of the
	// store itself.
	tried bool
}

// Attempt is one try as a row remembers it. The names of its fields are stored.
type Attempt struct {
	N         int    `json:"n"`
	StartedAt Stamp  `json:"started_at,omitempty"`
	EndedAt   Stamp  `json:"ended_at"`
	Result    string `json:"result"`
	Error     string `json:"error,omitempty"`
}

// Revision is other content that a person accepted. The names of its fields are stored.
type Revision struct {
	N           int64            `json:"n"`
	Fingerprint once.Fingerprint `json:"fingerprint"`
	ID          string           `json:"id"`
}

// ID is the row's public id.
func (r *Row) ID() string { return r.Identity.ID() }

// Kind of the row.
func (r *Row) Kind() queue.Kind { return KindOf(r.Seq) }

// SetPhase gives the row a phase, and the state that belongs to it.
func (r *Row) SetPhase(p Phase) { r.Phase, r.State = p, p.State(r.Kind()) }

// Public returns the row as the queue knows it, without what can be long if head is true.
func (r *Row) Public(head bool) queue.Row {
	out := queue.Row{
		Seq: r.Seq, Identity: r.Identity, Fingerprint: r.Fingerprint, Kind: r.Kind(),
		Lane: r.Lane, OrderKey: r.OrderKey, State: r.State,
		Source: r.Source, Event: r.Event, Flow: r.Flow, Task: r.Task,
		Key: slices.Clone(r.Key), Resource: r.Resource, Frees: r.Frees, Cause: r.Cause,
		Attempt: r.Attempt, Lost: r.Lost, Fence: r.Fence, Revision: r.Revision,
		Duplicates: r.Duplicates, Conflicts: r.Conflicts,
		ReceivedAt: r.ReceivedAt.Time(), LastAt: max(r.LastAt, r.ReceivedAt).Time(),
		NextAt: r.NextAt.Time(), StartedAt: r.StartedAt.Time(), FinishedAt: r.FinishedAt.Time(),
		ExpiresAt: r.ExpiresAt.Time(), Error: r.Error, DeadCause: r.DeadCause,
		LimitPassed: r.LimitPassed, Waits: slices.Clone(r.Waits), WaitUntil: r.WaitUntil.Time(),
		TraceParent: r.TraceParent, TraceState: r.TraceState,
	}
	if !head {
		out.Meta, out.Body = slices.Clone(r.Meta), slices.Clone(r.Body)
	}
	return out
}

// Tries returns the remembered tries of a row, and the last one where that is kept in the row
// itself.
func (r *Row) Tries() (out []queue.Attempt) {
	for _, a := range r.Attempts {
		out = append(out, queue.Attempt{N: a.N, StartedAt: a.StartedAt.Time(),
			EndedAt: a.EndedAt.Time(), Result: a.Result, Error: a.Error})
	}
	switch r.State {
	case queue.Done, queue.Stale, queue.Unrouted, queue.Expired, queue.Parked:
	default:
		return out
	}
	if n := len(r.Attempts); r.StartedAt == 0 || n > 0 &&
		r.Attempts[n-1].N == r.Attempt && r.Attempts[n-1].StartedAt == r.StartedAt {
		return out
	}
	last := queue.Attempt{N: r.Attempt, StartedAt: r.StartedAt.Time(),
		EndedAt: r.FinishedAt.Time(), Result: string(r.State), Error: r.Error}
	if r.State == queue.Parked { // decided and parked in one commit
		last.EndedAt = last.StartedAt
	}
	return append(out, last)
}

// Stamp is a time in milliseconds since 1970; 0: none.
type Stamp int64

// StampOf is a time as a stamp; what is smaller than a millisecond is cut.
func StampOf(t time.Time) Stamp {
	if t.IsZero() {
		return 0
	}
	return Stamp(t.UnixMilli())
}

// Time is the reverse of StampOf.
func (s Stamp) Time() time.Time {
	if s == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(s)).UTC()
}

// Add returns a later time; d is at least a millisecond where it is above 0.
func (s Stamp) Add(d time.Duration) Stamp { return s + Stamp(Millis(d)) }

// Millis rounds up, so that what is asked for is never cut short.
func Millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
