package oncemongo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oncekit/once/queue"
)

const (
	// keptAttempts bounds the tries that are remembered of a row: the latest ones.
	keptAttempts = 50
	// maxReason bounds the text of a reason, of which a row may hold many.
	maxReason = 8 << 10
)

// errNoSQL is the answer to a settlement with a Commit.
var errNoSQL = errors.New("a handler's Commit needs a store that speaks SQL; " +
	"MongoDB has no transaction that it could join")

// Settle applies settlements, each whole or not at all, all with one commit.
func (s *Store) Settle(ctx context.Context, settlements []queue.Settlement) []error {
	errs := make([]error, len(settlements))
	if len(settlements) == 0 {
		return errs
	}
	grants := make([]queue.Grant, len(settlements))
	for i := range settlements {
		grants[i] = settlements[i].Grant
	}
	err := s.do(ctx, false, func(t *txn) error {
		if err := t.prefetchGrants(grants); err != nil {
			return err
		}
		for i := range settlements {
			errs[i] = t.savepoint(func() error { return t.settle(&settlements[i]) })
			if storeFault(errs[i]) {
				return errs[i]
			}
		}
		return nil
	})
	return allErrs(errs, err)
}

// settle applies one settlement under its grant.
func (t *txn) settle(set *queue.Settlement) error {
	r, err := t.granted(set.Grant)
	if err != nil {
		return err
	}
	if set.Commit != nil {
		return &queue.CommitError{Err: errNoSQL}
	}
	r.tried = true
	return t.settleRow(r, *set)
}

// checkState refuses a state that a settlement can't give.
func checkState(r *row, set *queue.Settlement) error {
	if set.NotTried || set.State.Valid(r.kind()) && set.State != r.kind().Working() {
		return nil
	}
	return fmt.Errorf("settle row %d: a %v can't become %q", r.Seq, r.kind(), set.State)
}

// settleRow gives a row its new state and makes everything true that belongs to it.
func (t *txn) settleRow(r *row, set queue.Settlement) error {
	if err := checkState(r, &set); err != nil {
		return err
	}
	if err := t.applyChanges(set, r); err != nil {
		return err
	}
	if err := t.setState(r, &set); err != nil {
		return err
	}
	if set.Then == nil {
		return nil
	}
	v := t.view()
	now, err := r.public(false)
	if err != nil {
		return err
	}
	more, err := t.decide(func() (queue.Settlement, error) {
		more := set.Then(v, now)
		return more, v.err
	})
	if err != nil {
		return err
	}
	return t.applyChanges(more, r)
}

// setState moves a row to the state of its settlement.
func (t *txn) setState(r *row, set *queue.Settlement) error {
	t.change(r)
	before := r.State
	t.letGo(r)
	r.Blocks = false
	if !set.NotTried && set.State != queue.Pending { // else it is not worked yet: it keeps its turn
		r.LimitPassed = false
		t.endWaits(r)
	}
	var err error
	switch {
	case set.NotTried:
		err = t.giveBack(r, set)
	case set.State == queue.Pending:
		err = t.retryLater(r, set)
	case set.State == queue.Parked:
		err = t.park(r, set)
	default:
		err = t.end(r, set)
	}
	if err != nil {
		return err
	}
	t.count(rowCounter(r.kind(), r.Source, before), -1)
	t.count(rowCounter(r.kind(), r.Source, r.State), 1)
	return nil
}

// giveBack makes a row due as if it had not been tried, at once or after a while.
func (t *txn) giveBack(r *row, set *queue.Settlement) error {
	if r.tried {
		r.Attempt = max(r.Attempt-1, 0)
	}
	if set.Error != "" {
		r.Error = reason(set.Error)
	}
	r.setPhase(phaseReady)
	r.NextAt = 0
	t.ring(r.Lane)
	if set.RetryIn <= 0 {
		return t.passLine(r)
	}
	r.setPhase(phaseDelayed)
	r.NextAt = t.now.add(set.RetryIn)
	t.timer(r.NextAt)
	return t.stayInLine(r)
}

// retryLater keeps the row's place in its line and makes it due after a while.
func (t *txn) retryLater(r *row, set *queue.Settlement) error {
	t.addAttempt(r, "retry", set.Error)
	r.setPhase(phaseDelayed)
	r.Lost, r.Error = 0, reason(set.Error)
	r.NextAt = t.now.add(max(set.RetryIn, 1))
	t.timer(r.NextAt)
	return t.stayInLine(r)
}

// park takes a row out of the order line until what it waits for is there.
func (t *txn) park(r *row, set *queue.Settlement) error {
	if set.Park == nil || len(set.Park.Waits) == 0 || set.Park.Limit <= 0 {
		return fmt.Errorf("settle row %d: a parked row needs a wait and a limit", r.Seq)
	}
	r.setPhase(phaseParked)
	r.Lost, r.Error = 0, reason(set.Error)
	r.Waits = slices.Clone(set.Park.Waits)
	r.NextAt = t.now.add(set.Park.Limit)
	r.WaitUntil = r.NextAt
	t.set(func(s *turnState) { s.Waiting++ })
	t.timer(r.NextAt)
	return t.leaveLine(r)
}

// endWaits removes what the row waited for.
func (t *txn) endWaits(r *row) {
	if len(r.Waits) == 0 {
		return
	}
	t.change(r)
	r.Waits = nil
	t.set(func(s *turnState) { s.Waiting-- })
}

// end gives a row a state in which nobody works it any more.
func (t *txn) end(r *row, set *queue.Settlement) error {
	unwell := set.State == queue.Dead || set.State == queue.Held
	if unwell && r.tried {
		t.addAttempt(r, string(set.State), set.Error)
	}
	r.setPhase(settledPhase(set.State))
	r.Lost, r.Error, r.DeadCause = 0, reason(set.Error), set.DeadCause
	r.NextAt, r.WaitUntil, r.FinishedAt = 0, 0, t.now
	if r.SweepAt = 0; set.State.Final() {
		r.SweepAt = t.now + stamp(r.KeepBodyMS)
	}
	if set.Block && unwell {
		r.Blocks = true
		return t.stayInLine(r)
	}
	return t.leaveLine(r)
}

// addAttempt remembers a try that did not end well.
func (t *txn) addAttempt(r *row, result, why string) {
	r.Tries++
	list := append(slices.Clone(r.Attempts), attempt{N: r.Attempt, StartedAt: r.StartedAt,
		EndedAt: t.now, Result: result, Error: reason(why)})
	r.Attempts = list[max(len(list)-keptAttempts, 0):]
}

// reason is a text for people as it is stored.
func reason(s string) string {
	if len(s) > maxReason {
		s = s[:maxReason] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// giveUp settles a row that nobody works. If it was woken and did not get its turn, the next one
// that waits for the same gets it.
func (t *txn) giveUp(r *row, set queue.Settlement) error {
	var turns []string
	if r.State == queue.Pending {
		turns = r.Waits
	}
	r.tried = false
	if err := t.settleRow(r, set); err != nil {
		return err
	}
	for _, w := range turns {
		if err := t.wake(queue.Wake{Wait: w, First: true}, r); err != nil {
			return err
		}
	}
	return nil
}

// makeDue makes a row due at once, with its tries counted anew.
func (t *txn) makeDue(r *row) error {
	t.change(r)
	before := r.State
	if err := t.placeInLine(r); err != nil {
		return err
	}
	r.Blocks, r.LimitPassed = false, false
	r.Attempt, r.Lost, r.DeadCause = 0, 0, ""
	r.NextAt, r.FinishedAt, r.SweepAt = 0, 0, 0
	t.count(rowCounter(r.kind(), r.Source, before), -1)
	t.count(rowCounter(r.kind(), r.Source, r.State), 1)
	t.ring(r.Lane)
	return nil
}
