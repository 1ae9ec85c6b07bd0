package queue

import (
	"context"
	"database/sql"
	"strings"
	"time"
)

// Settlement says what came of an attempt and everything that has to become true together with it.
// A store applies it whole or not at all.
type Settlement struct {
	// Grant under which the row was worked.
	Grant Grant
	// State is the row's new state. Pending means another try after RetryIn.
	State State
	// Error is the reason, for people; for a retry the failure of this try.
	Error string
	// Public is as much of Error as a log or a trace may show: no part of a message, of an answer
	// or of a secret. It is not stored. Empty: nothing of it.
	Public string
	// DeadCause is set together with State Dead.
	DeadCause Cause
	// RetryIn is the wait before the next try, with State Pending.
	RetryIn time.Duration
	// NotTried takes the attempt back: it was not begun (draining, a destination that is away).
	// The row is due again, after RetryIn if that is positive; State is ignored.
	NotTried bool
	// Block keeps later rows of the order key waiting while this one is dead or held (on_dead:
	// block).
	Block bool
	// Park says what a row with State Parked waits for.
	Park *Park

	// Tasks and Resources as they are to be; each appears at most once.
	Tasks     []TaskChange
	Resources []Resource
	// Effects to be queued. One whose identity is known is left as it is.
	Effects []Arrival
	// Wake names the waits whose parked rows become due; never the settled row itself.
	Wake []Wake

	// Audit keeps what a person did, with the rest. The times are the store's.
	Audit []AuditEntry

	// Commit, if set, runs inside the store's transaction before the rest is applied. An error or
	// a panic undoes the whole settlement and is reported by Settle as a *CommitError.
	Commit func(ctx context.Context, tx Tx) error
	// Then, if set, runs inside the store's transaction after the row took its new state and may
	// add changes; its State and Grant are ignored. Only stores that are Transactors call it.
	Then func(v View, r Row) Settlement
}

// Park says what a parked row waits for, and for how long.
type Park struct {
	// Waits are WaitTask or WaitResource texts; any of them being woken makes the row due.
	Waits []string
	// Limit is how long the row may wait. At its end the row becomes due with LimitPassed set.
	Limit time.Duration
}

// Wake names a wait and how many of its rows become due.
type Wake struct {
	// Wait is a WaitTask or WaitResource text.
	Wait string
	// First wakes only the earliest row of the wait; otherwise all of them.
	First bool
}

// WaitTask is the wait for a task to move.
func WaitTask(flow, task string) string { return "task/" + flow + "/" + task }

// WaitResource is the wait for a resource to become free.
func WaitResource(kind, name string) string { return "resource/" + kind + "/" + name }

// WaitedResource is the reverse of WaitResource: it returns the resource that a wait is for, and
// false for any other wait.
func WaitedResource(wait string) (kind, name string, ok bool) {
	rest, ok := strings.CutPrefix(wait, "resource/")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/")
}

// CommitError reports that a settlement's Commit failed; nothing of the settlement was applied.
type CommitError struct{ Err error }

// Error returns the text of the handler's error.
func (e *CommitError) Error() string { return "commit handler: " + e.Err.Error() }

// Unwrap returns the handler's error.
func (e *CommitError) Unwrap() error { return e.Err }

// Tx is the store's transaction as a handler's Commit sees it. It can't end the transaction. It is
// valid only until Commit returns and must not be used by several goroutines at once. The methods
// are those of [sql.Tx]; statements that begin or end transactions are refused.
type Tx interface {
	// ExecContext runs a statement without a result.
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	// QueryContext runs a query; what is left open of its result is closed when Commit returns.
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	// QueryRowContext runs a query for at most one row.
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}
