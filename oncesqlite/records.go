package oncesqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncekit/once"
)

// Records are the records of a once.Guard in the file of a [Store], beside its rows and tasks. It
// is a once.Store, with all that is optional but once.Waiter: one process has the file, and there
// the guard itself knows when an attempt ends. All methods are safe for concurrent use.
//
// A step is on the disk before it is answered; many share one commit and one flush. A replay of a
// record that is known to be durable needs no transaction: recent outcomes are kept in memory. An
// arrival is written only when it comes later than 1/32 of the retention after the one that is
// written; for that a record is kept for 1/16 of its retention longer than was asked for.
//
// The attempts of an earlier process are lost when the store is opened: what they were told to be
// then, run again or held, follows at once rather than at the end of their leases.
//
// When its context ends a step returns an error wrapping once.ErrUnavailable at once, also while
// the disk hangs; it may happen all the same.
type Records struct {
	s        *Store
	outcomes outcomes
	// The rest belongs to the goroutine that writes.

	// forgotten is at least the fence of every record that was swept.
	forgotten int64
	// lapse is the place from which attempts in flight are looked at next: see lapseRecords.
	lapse int64
}

var (
	_ once.Store    = (*Records)(nil)
	_ once.Renewer  = (*Records)(nil)
	_ once.Resolver = (*Records)(nil)
	_ once.Sweeper  = (*Records)(nil)
	_ once.Browser  = (*Records)(nil)
)

// Records returns the store's records. They end with the store.
func (s *Store) Records() *Records { return &s.records }

// pageSize is that of the file, in bytes.
const pageSize = 4096

// rowsOf is how many rows some data counts as where it is written.
func rowsOf(data []byte) int { return 1 + len(data)/pageSize }

// do hands a step to the writer. The run must use nothing that its caller reads or changes after an
// error: it may come after the caller has left.
func (r *Records) do(ctx context.Context, rows int, run func(*txn) error) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	o := &op{alone: true, leave: true, rows: rows, run: func(t *txn) error {
		if err := ctx.Err(); err != nil {
			return err // nobody would know of it
		}
		return run(t)
	}}
	if err := r.s.do(ctx, o); err != nil {
		return unavailable(err)
	}
	return nil
}

// Claim implements [once.Store].
func (r *Records) Claim(ctx context.Context, c once.Claim) (once.Grant, error) {
	if err := checkClaim(&c); err != nil {
		return once.Grant{}, err
	}
	if err := ctx.Err(); err != nil {
		return once.Grant{}, fmt.Errorf("claim: %w", unavailable(err))
	}
	if err := r.recall(&c); err != nil {
		return once.Grant{}, err
	}
	note := encodeNote(c.Note)
	for range maxReads {
		a := new(claimAnswer)
		err := r.do(ctx, 1, func(t *txn) (err error) {
			*a, err = t.claimRecord(&c, note)
			return err
		})
		if err != nil {
			return once.Grant{}, fmt.Errorf("claim: %w", err)
		}
		if !a.long {
			return a.grant, a.err
		}
		replay, err := r.readLong(ctx, &c, a.grant.Fence)
		if err != nil {
			return once.Grant{}, fmt.Errorf("claim: %w", err)
		}
		if replay != nil {
			return once.Grant{}, replay
		}
	}
	return once.Grant{}, fmt.Errorf("claim: the record changes all the time: %w",
		once.ErrUnavailable)
}

// maxReads bounds how often a claim is made anew because a record changed while its long outcome
// was about to be read.
const maxReads = 4

func checkClaim(c *once.Claim) error {
	switch {
	case c.Identity.IsZero():
		return errors.New("claim: no identity")
	case c.Fingerprint.IsZero():
		return errors.New("claim: no fingerprint")
	case c.Lease < time.Microsecond || c.Retention < time.Microsecond:
		return fmt.Errorf("claim: lease %v, retention %v: want at least 1µs of both", c.Lease,
			c.Retention)
	case c.OnUnknown > once.Hold:
		return fmt.Errorf("claim: there is no choice %v", c.OnUnknown)
	}
	return nil
}

// recall answers a claim from memory if that can be done: the outcome is known to be durable.
func (r *Records) recall(c *once.Claim) error {
	if r.s.present.gone.Load() || r.s.closing() {
		return nil
	}
	o := r.outcomes.get(c.Identity)
	if o == nil || r.s.clock.now() >= o.touch {
		return nil
	}
	if o.fingerprint != c.Fingerprint {
		return once.ErrMismatch
	}
	return o.replay()
}

// replay is what a claimant is told. What he does to the data is his own affair.
func (o *outcome) replay() *once.ReplayError {
	out := o.outcome
	out.Data = slices.Clone(out.Data)
	return &once.ReplayError{Outcome: out, CompletedAt: timeOf(o.finished)}
}

// readLong reads an outcome that the goroutine that writes has found and left alone. It returns
// neither a replay nor an error if the record has changed since.
func (r *Records) readLong(ctx context.Context, c *once.Claim, fence int64) (
	replay *once.ReplayError, err error) {
	err = r.read(ctx, func(q *conn) error {
		row, err := recordBy(q, c.Identity, wholeData)
		if err != nil || row == nil || row.state != recCompleted || row.Fence != fence {
			return err
		}
		replay = &once.ReplayError{CompletedAt: timeOf(row.finished),
			Outcome: once.Outcome{Kind: row.kind, Data: row.data}}
		return nil
	})
	return replay, err
}

// read runs fn with a connection that reads.
func (r *Records) read(ctx context.Context, fn func(*conn) error) error {
	err := r.s.read(ctx, fn)
	if ctx.Err() != nil && err != nil {
		return unavailable(err)
	}
	return err
}

// Complete implements [once.Store].
func (r *Records) Complete(ctx context.Context, g once.Grant, o once.Outcome) error {
	if limit := r.s.cfg.MaxOutcome; len(o.Data) > limit {
		return fmt.Errorf("complete: %d bytes, at most %d: %w", len(o.Data), limit,
			once.ErrTooLarge)
	}
	if o.Kind > once.Unknown {
		return fmt.Errorf("complete: there is no kind %d of outcomes", o.Kind)
	}
	o.Data = slices.Clone(o.Data) // the caller may be gone when it is written
	end := ending{state: recCompleted, outcome: o}
	if o.Kind == once.Unknown {
		end = ending{state: recLost}
	}
	return r.end(ctx, "complete", g, end)
}

// Release implements [once.Store].
func (r *Records) Release(ctx context.Context, g once.Grant) error {
	return r.end(ctx, "release", g, ending{state: recReleased})
}

func (r *Records) end(ctx context.Context, step string, g once.Grant, end ending) error {
	answer := new(error)
	err := r.do(ctx, rowsOf(end.outcome.Data), func(t *txn) (err error) {
		*answer, err = t.endRecord(g, &end)
		return err
	})
	if err == nil {
		err = *answer
	}
	if err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	return nil
}

// Renew implements [once.Renewer].
func (r *Records) Renew(ctx context.Context, g once.Grant, lease time.Duration) error {
	if lease < time.Microsecond {
		return fmt.Errorf("renew: lease %v, want at least 1µs", lease)
	}
	answer := new(error)
	err := r.do(ctx, 1, func(t *txn) (err error) {
		*answer, err = t.renewRecord(g, t.lap+lease.Microseconds())
		return err
	})
	if err == nil {
		err = *answer
	}
	if err != nil {
		return fmt.Errorf("renew: %w", err)
	}
	return nil
}

// Resolve implements [once.Resolver].
func (r *Records) Resolve(ctx context.Context, id once.Identity, res once.Resolution) error {
	if res.Decision == once.AnswerWith {
		if limit := r.s.cfg.MaxOutcome; len(res.Outcome.Data) > limit {
			return fmt.Errorf("resolve: %d bytes, at most %d: %w", len(res.Outcome.Data), limit,
				once.ErrTooLarge)
		}
	}
	res.Outcome.Data = slices.Clone(res.Outcome.Data)
	answer := new(error)
	err := r.do(ctx, rowsOf(res.Outcome.Data), func(t *txn) (err error) {
		*answer, err = t.resolveRecord(id, &res)
		return err
	})
	if err == nil {
		err = *answer
	}
	if err != nil {
		return fmt.Errorf("resolve: %w", err)
	}
	return nil
}
