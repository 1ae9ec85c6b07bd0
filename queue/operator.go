package queue

import (
	"context"
	"time"

	"github.com/oncekit/once"
)

// Browser answers the questions of an operator. Every filter is backed by an index, or a page looks
// at a bounded number of things and says where to go on: it takes a bounded time however many there
// are. Safe for concurrent use.
type Browser interface {
	// Rows returns a page of rows, latest first. Bodies and Meta are left out.
	Rows(ctx context.Context, q RowQuery) (RowPage, error)
	// Row returns one row with body, arrivals and attempts; once.ErrNotFound if there is none.
	Row(ctx context.Context, k Kind, id string) (RowDetail, error)
	// Task returns a task and its history, earliest first; once.ErrNotFound if there is none.
	Task(ctx context.Context, flow, id string) (Task, []HistoryEntry, error)
	// Tasks returns a page of tasks, those that were created last first. Tombstones, Fields and
	// Taken are left out.
	Tasks(ctx context.Context, q TaskQuery) (TaskPage, error)
	// Resources returns a page of resources by kind and name.
	Resources(ctx context.Context, q ResourceQuery) (ResourcePage, error)
	// Rejected returns the latest refused messages, latest first; source may be empty.
	Rejected(ctx context.Context, source string, limit int) ([]Rejected, error)
	// Counts returns the kept counters; it scans nothing.
	Counts(ctx context.Context) (Counts, error)
}

// RowQuery selects rows. Empty fields select everything.
type RowQuery struct {
	Kind   Kind
	Source string // for effects the destination
	State  State
	Event  string // for effects the name
	Task   string
	Key    string // equals any part of the key
	Limit  int    // 1 to 1000
	Cursor string // from the page before
}

// RowPage is one page. A page may be shorter than its limit, even empty, while Next is set: then
// the store has looked at as many rows as a page may cost.
type RowPage struct {
	Rows []Row
	Next string // empty: no further page
}

// RowDetail is a row with everything that is kept about it.
type RowDetail struct {
	Row      Row
	Arrivals []StoredArrival // the first and last ones; of a conflict with its body
	Attempts []Attempt       // the latest ones, earliest first
	Audit    []AuditEntry
}

// StoredArrival is one arrival of a callback after the first.
type StoredArrival struct {
	N           int64 // 1 is the first repeat
	At          time.Time
	Outcome     Outcome
	Peer        string
	Fingerprint once.Fingerprint
	Meta        []byte // of conflicts only
	Body        []byte // of conflicts only
	// Accepted is the public id of the revision that a person made of it; empty: none.
	Accepted string
}

// Attempt is one try of a row.
type Attempt struct {
	N         int
	StartedAt time.Time
	EndedAt   time.Time
	// Result is "done", "retry", "dead", "held", "lost", "parked", or the final state.
	Result string
	Error  string
}

// HistoryEntry is one line of a task's history.
type HistoryEntry struct {
	Version       int64
	At            time.Time
	Event         string
	From, To      string
	Note          string
	Actor, Reason string
	Callback      string
}

// TaskQuery selects tasks. Empty fields select everything.
type TaskQuery struct {
	Flow   string
	State  string
	Limit  int    // 1 to 1000
	Cursor string // from the page before
}

// TaskPage is one page of tasks. Like a RowPage it may be shorter than its limit while Next is set.
type TaskPage struct {
	Tasks []Task
	Next  string // empty: no further page
}

// ResourceQuery selects resources.
type ResourceQuery struct {
	Kind   string // empty: every kind
	Limit  int    // 1 to 1000
	Cursor string // from the page before
}

// ResourcePage is one page of resources.
type ResourcePage struct {
	Resources []ResourceStatus
	Next      string // empty: no further page
}

// ResourceStatus is a resource and how many rows wait for it.
type ResourceStatus struct {
	Resource
	// Waiting rows; 1000 stands for that many or more.
	Waiting int
}

// Rejected is a message that became no callback.
type Rejected struct {
	ID      int64
	Source  string
	At      time.Time
	Outcome Outcome // Invalid, or Unauthorized
	Reason  string
	Peer    string
	Meta    []byte
	Body    []byte // cut to a limit
	Size    int64  // of the whole body as far as it was read
}

// Counts are the kept counters.
type Counts struct {
	// Rows by kind, source (or destination) and state.
	Rows map[RowCount]int64
	// Tasks by flow and state.
	Tasks map[TaskCount]int64
}

// RowCount names one counter of rows.
type RowCount struct {
	Kind   Kind
	Source string
	State  State
}

// TaskCount names one counter of tasks.
type TaskCount struct{ Flow, State string }

// Operator is what a person can do to rows. Each action is kept with its actor and reason. An
// action that the row's state does not allow returns once.ErrState and changes nothing.
type Operator interface {
	// Retry makes a parked, unrouted, dead or held row due again. For an unrouted callback route
	// gives the lane, flow, task and order key it has by today's configuration; nil keeps it.
	Retry(ctx context.Context, k Kind, id string, by Action, route func(Row) (Arrival, error)) error
	// Discard gives up a row that is not finished and not in anybody's hands. then, if not nil,
	// adds what follows, as Settlement.Then does.
	Discard(ctx context.Context, k Kind, id string, by Action,
		then func(View, Row) Settlement) error
	// Accept makes the nth arrival of a callback, a conflict, a new revision and returns its id.
	Accept(ctx context.Context, id string, n int64, by Action,
		route func(Row) (Arrival, error)) (string, error)
	// Acknowledge says of an effect that is held, dead or expired that it happened.
	Acknowledge(ctx context.Context, id string, by Action, then func(View, Row) Settlement) error
}

// Rejecter keeps refused messages in a bounded ring per source.
type Rejecter interface {
	Reject(ctx context.Context, r Rejected) error
}

// Action says who did something and why. Both are required.
type Action struct {
	Actor  string
	Reason string
	// Name of the action: retry, discard, accept, done, move, release, transfer.
	Name string
}

// AuditEntry is a kept action.
type AuditEntry struct {
	At     time.Time
	Action Action
	Target string
}
