package once

import (
	"context"
	"time"
)

// Store keeps records: one for each identity. Each method is one atomic step in the backing store,
// judged by the store's clock, and safe for concurrent use. A store without an atomic claim is no
// store. oncetest tries everything that is promised here.
//
// A record is absent, or in flight (an owner has it until its lease ends), completed, released or
// unknown. What is past its retention is absent, whether or not it was swept already. Records whose
// lease runs, or that are unknown or held, have no expiry. One whose lease ended under [Retry], and
// for which nobody has asked since, may be forgotten a retention after the end of its lease: the
// next one who asks runs it either way, then as a first attempt and under any fingerprint.
//
// Errors other than those named here mean that the store could not answer. They wrap
// [ErrUnavailable], and the step may have happened or not: each step of this interface can be
// repeated with the same arguments. An argument that no store takes, such as a lease of 0, is an
// error that wraps none of them.
type Store interface {
	// Claim takes an identity: one that is absent, released, or was lost under [Retry]. A lease
	// that ended makes an attempt lost. Otherwise, in this order:
	//
	//   - [ErrMismatch]: the record has another fingerprint, in whatever state it is. That is no
	//     arrival of its operation, and prolongs nothing;
	//   - *[ReplayError]: it is completed; the error has the outcome;
	//   - *[InFlightError]: another owner's lease runs;
	//   - *[UnknownError]: an attempt was lost, and it is held;
	//   - [ErrCorrupt]: the record can't be read. It is never run again because of that.
	//
	// A claim that is repeated with the same owner while that owner has the record returns the
	// same grant, so that the lost answer to a claim is found by asking again.
	Claim(ctx context.Context, c Claim) (Grant, error)

	// Complete ends the attempt with an outcome; Unknown says that it was lost. A record that was
	// said to be unknown by its last owner may still be completed by that owner, who alone can
	// know. Completing what the same grant has completed changes nothing and returns nil.
	//
	// It returns [ErrLeaseLost] if the record has another owner or fence by now, is past its
	// retention, or was released, and [ErrTooLarge] for data that the store has no room for: a
	// tombstone without data always has. In both cases nothing was changed. The data is the
	// caller's again once it returns nil.
	Complete(ctx context.Context, g Grant, o Outcome) error

	// Release gives the identity back: the work is known to have had no effect. The fingerprint
	// stays until the retention ends. Releasing what the same grant has released changes nothing
	// and returns nil. It returns [ErrLeaseLost] if the record has another owner or fence by now,
	// or is completed; nothing was changed then.
	Release(ctx context.Context, g Grant) error
}

// Renewer is a [Store] that can make a lease last longer.
type Renewer interface {
	// Renew lets the lease end after the given time from now. It returns [ErrLeaseLost] if the
	// record has another owner or fence by now, or its attempt has ended.
	Renew(ctx context.Context, g Grant, lease time.Duration) error
}

// Resolver is a [Store] in which a person can decide about a record.
type Resolver interface {
	// Resolve decides about a record. It returns [ErrNotFound], and [ErrState] if the record is in
	// no state of which this can be decided, or has another fence than the one that was seen;
	// nothing was changed then. An owner who comes back later has lost its lease.
	//
	// Of many who decide one does. So a call that is repeated after an [ErrUnavailable], and whose
	// first try had happened, gets an [ErrState]: the record tells what was decided.
	Resolve(ctx context.Context, id Identity, r Resolution) error
}

// Holder is a [Store] that can only hold records under conditions of its own. A store that lacks
// it can hold if it is a [Resolver].
type Holder interface {
	// MayHold returns nil if a held record stays held until a person decides, and otherwise why
	// not and what would change that. It does no I/O.
	MayHold() error
}

// Decision is what a person can decide about a record.
type Decision byte

// The decisions.
const (
	// RunAgain frees a record whose attempt was lost: the next one who asks runs it again.
	RunAgain Decision = 1
	// AnswerWith completes a record whose attempt was lost, with an outcome that the person knows.
	AnswerWith Decision = 2
	// ReleaseDone frees a completed record: the next one who asks runs it again.
	ReleaseDone Decision = 3
)

// Resolution is a decision about a record.
type Resolution struct {
	Decision Decision
	// Outcome for AnswerWith: Kept or Tombstone; with another kind it is an [ErrState], and with
	// data that the store has no room for an [ErrTooLarge].
	Outcome Outcome
	// Fence that the record had when the person looked at it; 0: it is not compared.
	Fence int64
}

// Waiter is a [Store] that tells when a record changes.
type Waiter interface {
	// Wait returns nil as soon as the record is no longer in flight, and may return earlier. It
	// returns the context's error when that ends. It holds no connection.
	Wait(ctx context.Context, id Identity) error
}

// Sweeper is a [Store] whose expired records have to be removed by somebody.
type Sweeper interface {
	// Sweep removes up to limit records that are past their retention, and returns how many. The
	// limit is at least 1. There may be more even if they are fewer than that; 0: there are none.
	Sweep(ctx context.Context, limit int) (int, error)
}

// Browser is a [Store] that shows its records to people.
type Browser interface {
	// Record returns the record of an identity with its outcome, or [ErrNotFound].
	Record(ctx context.Context, id Identity) (Record, error)
	// Records returns a page of records without the data of their outcomes. One that can't be read
	// is left out, or is listed without a State where none was asked for.
	Records(ctx context.Context, f RecordFilter) (RecordPage, error)
}

// MaxRecordPage is the most records of one page.
const MaxRecordPage = 1000

// RecordFilter names the records of a page. The zero value names all.
type RecordFilter struct {
	// State that the record is in; empty: any.
	State RecordState
	// Scope whose records are meant: its parts, all of them, compared as [Note.Cut] leaves them.
	// Empty: any.
	Scope []string
	// Limit of the page; default 100, at most [MaxRecordPage].
	Limit int
	// After is the Next of the page before; empty: the first page. A text that is no such Next is
	// an error that wraps no other, or an empty page.
	After string
}

// RecordPage is a page of records, in an order that the store chooses and keeps to. A record that
// was there before the first page is on one of them; while others come, some stores show it again.
type RecordPage struct {
	Records []Record
	// Next asks for the page after this one; empty: there is none. A page may have a Next and
	// fewer records than were asked for, or none.
	Next string
}
