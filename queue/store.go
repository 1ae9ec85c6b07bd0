package queue

import (
	"context"
	"time"

	"github.com/oncekit/once"
)

// Store is what holds rows. Every method is safe for concurrent use, is one atomic step in the
// backing store, and returns only after its changes are durable.
type Store interface {
	Appender
	Leaser
	Sweeper
}

// Appender stores arrivals.
type Appender interface {
	// Append stores each arrival whose identity is new and compares the others with what is
	// there. All arrivals of one call commit together or none does. It returns one receipt an
	// arrival. An error (wrapping once.ErrUnavailable when the store can't be written) means that
	// nothing was acknowledged.
	Append(ctx context.Context, arrivals []Arrival) ([]Receipt, error)
}

// Leaser hands out due rows and takes back what came of them.
type Leaser interface {
	// Lease takes due rows of a lane. The attempt is counted and durable when it returns.
	Lease(ctx context.Context, r LeaseRequest) (Leased, error)
	// Renew moves the end of leases to now+d. It returns one error a grant: nil or
	// once.ErrLeaseLost.
	Renew(ctx context.Context, grants []Grant, d time.Duration) []error
	// Settle applies settlements, each atomically. It returns one error a settlement: nil,
	// once.ErrLeaseLost, a *CommitError, or the store's own.
	Settle(ctx context.Context, settlements []Settlement) []error
}

// LeaseRequest says what Lease may take.
type LeaseRequest struct {
	Lane string
	// Max rows to take, at least 1.
	Max int
	// For is the length of the lease.
	For time.Duration
	// MaxLost is how many lost attempts in a row make a row a dead letter; 0: 5.
	MaxLost int
	// HoldLost puts a row whose worker was lost into Held instead of trying it again
	// (on_unknown: hold).
	HoldLost bool
	// Block reports whether later rows of its order key wait behind a row that Lease itself makes
	// dead or held (on_dead: block). Nil: none do.
	Block func(Row) bool
	// Fresh passes over due rows that failed before, so that however many of them are due, one that
	// was never tried is found behind them. A store may give up after a bounded look.
	Fresh bool
}

// Leased is what Lease took.
type Leased struct {
	Rows []Row
	// NextAt is when the next row of the lane becomes due by time; zero: none is waiting, or the
	// store is a Notifier, which tells of every row that becomes due.
	NextAt time.Time
	// More is true when further rows are due now.
	More bool
}

// Recaller is a store that remembers recent rows. Probed once at construction. Safe for concurrent
// use.
type Recaller interface {
	// Recall counts an arrival and returns true if it is known to be the duplicate of a row that is
	// durable and needs nothing done: it is not dead. It never waits. After false Append says what
	// the arrival is.
	Recall(id once.Identity, fp once.Fingerprint, peer string) bool
}

// Sweeper removes what is past its retention.
type Sweeper interface {
	// Sweep removes at most limit things (bodies past KeepBody, rows and tasks past Retention)
	// and returns how many it removed; fewer than limit: nothing more is due now.
	Sweep(ctx context.Context, limit int) (int, error)
}

// Transactor is a store that can decide inside its own transaction, so that taking a row and
// settling it are one step. Probed once at construction.
type Transactor interface {
	// Step takes up to Max due rows of the lane in order, lets Decide say what becomes of each,
	// and applies it: all with one flush. Woken rows are worked ahead of later ones. A row whose
	// Decide or settlement fails waits for another try, one whose Decide panics is a dead letter;
	// neither undoes anything of its neighbours.
	Step(ctx context.Context, s StepRequest) (Stepped, error)
	// Transact runs fn in a transaction and applies the tasks, resources, effects, wakes and audit
	// of the settlement it returns; the rest of it is ignored. An error from fn is returned and
	// changes nothing.
	Transact(ctx context.Context, fn func(View) (Settlement, error)) error
}

// StepRequest says what a Step works.
type StepRequest struct {
	Lane string
	// Max rows to settle, at least 1.
	Max int
	// MaxLost as in LeaseRequest.
	MaxLost int
	// Block as in LeaseRequest, also for a row whose Decide panics.
	Block func(Row) bool
	// Decide returns what becomes of a row; its Grant is ignored, and a Commit is refused. It is
	// pure: it reads through the view alone, changes nothing, and may be called again for the same
	// row.
	Decide func(View, Row) (Settlement, error)
	// Overdue returns what a task that stood still too long causes, as for Transact. Nil: nothing.
	Overdue func(View, Task) (Settlement, error)
	// Settled, if set, is told of each row that was settled, as it was when it was decided on,
	// once that is durable.
	Settled func(Row, Settlement)
}

// Stepped is what a Step did.
type Stepped struct {
	// Rows is how many rows were settled.
	Rows int
	// More is true when further rows are due now.
	More bool
	// NextAt is when the next task will have stood still too long, of which no Notifier tells;
	// zero: none waits for that.
	NextAt time.Time
}

// Notifier tells of rows that became due. Probed once at construction; without it lanes are polled.
type Notifier interface {
	// Notify returns a channel that receives a value after a commit that made rows of the lane
	// due. It is never closed; a value may stand for many rows. Each call for one lane returns
	// the same channel.
	Notify(lane string) <-chan struct{}
}
