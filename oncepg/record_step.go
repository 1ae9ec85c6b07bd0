package oncepg

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/oncekit/once"
)

const (
	// recordLimit bounds a step whose caller set no deadline.
	recordLimit = 30 * time.Second
	// recordTries bounds how often a step is decided: each time a rival came in between.
	recordTries = 200
	// recordFaults bounds how often a step asks again after it had no answer.
	recordFaults = 8
)

// stepper carries out one try of a step.
type stepper struct {
	*Records
	in      runner
	careful bool
}

// step tries until it is done. Each try knows by the owner's token what an earlier one has done
// whose answer was lost. In a caller's transaction there is one try: after a fault the transaction
// is over.
func (r *Records) step(
	ctx context.Context, in runner, try func(context.Context, stepper) (bool, error),
) error {
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	s := stepper{Records: r, in: in}
	faults := 0
	for tries := range recordTries {
		done, err := false, ctx.Err()
		if err == nil {
			done, err = try(ctx, s)
		}
		switch t := troubleOf(err); {
		case done:
			return err
		case err != nil && (t == noTrouble || ctx.Err() != nil || in.joined()):
			return unanswered(err)
		case t == lost:
			r.cfg.Logger.Warn("a step of a record had no answer and is tried again", "error", err)
			if faults++; faults > recordFaults {
				return unanswered(err)
			}
		case t == serialization:
			s.careful = true // the database's default is another isolation
		}
		if tries > 0 || faults > 0 {
			if pause(ctx, tries) != nil {
				return unanswered(ctx.Err())
			}
		}
	}
	return unanswered(fmt.Errorf("another writer came first %d times", recordTries))
}

// unanswered makes what is no answer of the record a store that can't answer.
func unanswered(err error) error {
	if errors.Is(err, once.ErrUnavailable) || errors.Is(err, once.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w: %w", once.ErrUnavailable, err)
}

// ask carries out one statement.
func (s stepper) ask(ctx context.Context, q query) ([]row, error) {
	got, err := s.in.run(ctx, []query{q}, s.careful)
	if err != nil {
		return nil, err
	}
	return got[0], nil
}

// claim tries to take an identity.
func (s stepper) claim(ctx context.Context, c *once.Claim, args []any) (
	g once.Grant, done bool, err error,
) {
	got, err := s.ask(ctx, query{s.sql.claim, args})
	if err != nil || len(got) == 0 {
		return g, false, err
	}
	if got[0][0] != nil {
		taken := cells{row: got[0]}
		g = once.Grant{
			Identity: c.Identity, Owner: c.Owner, Fence: taken.int(), Attempt: int(taken.int()),
			Takeover: taken.bool(),
		}
		return g, !taken.bad, nil
	}
	old, err := readFound(got[0][3:])
	if err != nil {
		return g, true, err
	}
	return s.claimKnown(ctx, old, c)
}

// readFound reads a row of a statement that looks: the time, the outcome, the barrier, the record.
func readFound(found row) (*record, error) {
	head := cells{row: found}
	at := head.int()
	data, isThere := head.next()
	_, _ = head.next()
	old, err := readRecord(head.row, at)
	if isThere {
		old.outcome = []byte(data)
	}
	return old, err
}

// claimKnown decides about a record that was not taken. It is not done if the record has changed
// since.
func (s stepper) claimKnown(ctx context.Context, old *record, c *once.Claim) (
	g once.Grant, done bool, err error,
) {
	switch {
	case old.past():
		return g, false, nil
	case old.fingerprint != c.Fingerprint:
		return g, true, once.ErrMismatch
	case old.state == stateInFlight && old.Owner == c.Owner:
		return old.Grant, true, nil // its answer was lost
	case old.state == stateCompleted:
		if err := s.arrive(ctx, old); err != nil {
			return g, false, err
		}
		return g, true, &once.ReplayError{
			Outcome:     once.Outcome{Kind: old.kind(), Data: old.outcome},
			CompletedAt: time.UnixMicro(old.finished),
		}
	case old.state == stateInFlight && !old.lapsed():
		return g, true, &once.InFlightError{
			Rest: spanOf(old.leaseEnd - old.at), Age: spanOf(max(old.at-old.claimed, 0)),
		}
	case old.state == stateReleased || !old.hold && c.OnUnknown == once.Retry:
		return g, false, nil // a rival was faster
	}
	if !old.hold {
		changed, err := s.change(ctx, query{s.sql.hold, s.seenArgs(old)})
		if err != nil || !changed {
			return g, false, err
		}
	}
	return g, true, &once.UnknownError{Since: old.lostAt()}
}

// arrive writes a repeat down, if the one that is noted is so old that it matters.
func (s stepper) arrive(ctx context.Context, old *record) error {
	if old.at-max(old.finished, old.last) < old.retention/16 {
		return nil
	}
	_, err := s.change(ctx, query{s.sql.arrive, s.grantArgs(old.Grant)})
	return err
}

func (s stepper) seenArgs(old *record) []any {
	return append(s.grantArgs(old.Grant), old.state, number(old.leaseEnd))
}

// change reports whether a statement has changed the record.
func (s stepper) change(ctx context.Context, q query) (bool, error) {
	got, err := s.ask(ctx, q)
	return err == nil && *got[0][0] == "1", err
}

// look reads a record, nil if there is none. An answer to whom the latest owner is told is as
// durable as one that was written.
func (s stepper) look(
	ctx context.Context, id once.Identity, owner once.Owner, data bool,
) (*record, error) {
	got, err := s.ask(ctx, query{s.sql.look,
		[]any{s.offset.arg(), id[:], strconv.FormatBool(data), owner[:]}})
	if err != nil || len(got) == 0 {
		return nil, err
	}
	return readFound(got[0])
}

// end changes the record of a grant. Where nothing was changed, the record says why.
func (s stepper) end(
	ctx context.Context, q query, g once.Grant, why func(old *record) error,
) (done bool, err error) {
	q.args[0] = s.offset.arg()
	changed, err := s.change(ctx, q)
	if err != nil || changed {
		return err == nil, err
	}
	old, err := s.look(ctx, g.Identity, g.Owner, false)
	switch {
	case errors.Is(err, once.ErrCorrupt):
		return true, err
	case err != nil:
		return false, err
	}
	if err := why(old); err != errAgain {
		return true, err
	}
	return false, nil
}

// errAgain is a record that would have been changed by now.
var errAgain = errors.New("the record has changed")

// completed says why a grant's record could not be completed.
func (r *record) completed(g once.Grant, o once.Outcome) error {
	switch {
	case !r.ownedBy(g) || r.state == stateReleased:
		return once.ErrLeaseLost
	case r.state == stateCompleted || r.state == stateUnknown && o.Kind == once.Unknown:
		return nil // it was said before
	}
	return errAgain
}

// released says why a grant's record could not be released.
func (r *record) released(g once.Grant) error {
	switch {
	case !r.ownedBy(g) || r.state == stateCompleted:
		return once.ErrLeaseLost
	case r.state == stateReleased:
		return nil
	}
	return errAgain
}

// renewed says why a grant's lease could not be renewed.
func (r *record) renewed(g once.Grant) error {
	if r.ownedBy(g) && r.state == stateInFlight {
		return errAgain
	}
	return once.ErrLeaseLost
}

// resolve carries a person's decision out. The record then belongs to the decision's token: a late
// owner has lost its lease.
func (s stepper) resolve(
	ctx context.Context, id once.Identity, res once.Resolution, token once.Owner,
) (done bool, err error) {
	old, err := s.look(ctx, id, token, false)
	switch {
	case errors.Is(err, once.ErrCorrupt):
		return true, err
	case err != nil:
		return false, err
	case old == nil || old.past():
		return true, once.ErrNotFound
	case old.Owner == token:
		return true, nil // done, and the answer was lost
	}
	state := old.shown()
	allowed := state == once.Lost || state == once.Held
	switch res.Decision {
	case once.RunAgain, once.AnswerWith:
	case once.ReleaseDone:
		allowed = state == once.Completed
	default:
		allowed = false
	}
	if !allowed || res.Fence != 0 && res.Fence != old.Fence {
		return true, once.ErrState
	}
	q := query{s.sql.free, append(s.seenArgs(old), token[:])}
	if res.Decision == once.AnswerWith {
		q = query{s.sql.answer, append(q.args,
			strconv.FormatBool(res.Outcome.Kind == once.Tombstone), notNull(res.Outcome.Data))}
	}
	return s.change(ctx, q)
}

func spanOf(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
