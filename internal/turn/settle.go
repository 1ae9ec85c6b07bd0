package turn

import (
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

// Settle applies settlements, each whole or not at all. It returns one error a settlement; the
// second is the store's own.
func (t *Batch) Settle(settlements []queue.Settlement) ([]error, error) {
	errs := make([]error, len(settlements))
	if err := t.Prefetch(Grants(settlements)); err != nil {
		return nil, err
	}
	for i := range settlements {
		errs[i] = t.Savepoint(func() error { return t.settle(&settlements[i]) })
		if IsFault(errs[i]) {
			return nil, errs[i]
		}
	}
	return errs, nil
}

// Grants are the grants of settlements.
func Grants(settlements []queue.Settlement) []queue.Grant {
	grants := make([]queue.Grant, len(settlements))
	for i := range settlements {
		grants[i] = settlements[i].Grant
	}
	return grants
}

// settle applies one settlement under its grant.
func (t *Batch) settle(set *queue.Settlement) error {
	r, err := t.granted(set.Grant)
	if err != nil {
		return err
	}
	r.tried = true
	if set.Commit == nil {
		return t.settleRow(r, *set)
	}
	if t.Commit == nil {
		return &queue.CommitError{Err: t.NoCommit}
	}
	end, err := t.Commit(set.Commit)
	if err != nil {
		return err
	}
	err = t.settleRow(r, *set)
	if ended := end(err == nil); ended != nil {
		return ended
	}
	return err
}

// checkState refuses a state that a settlement can't give.
func checkState(r *Row, set *queue.Settlement) error {
	if set.NotTried || set.State.Valid(r.Kind()) && set.State != r.Kind().Working() {
		return nil
	}
	return fmt.Errorf("settle row %d: a %v can't become %q", r.Seq, r.Kind(), set.State)
}

// settleRow gives a row its new state and makes everything true that belongs to it.
func (t *Batch) settleRow(r *Row, set queue.Settlement) error {
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
	v, now := t.view(), r.Public(false)
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
func (t *Batch) setState(r *Row, set *queue.Settlement) error {
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
	t.count(RowCounter(r.Kind(), r.Source, before), -1)
	t.count(RowCounter(r.Kind(), r.Source, r.State), 1)
	return nil
}

// giveBack makes a row due as if it had not been tried, at once or after a while.
func (t *Batch) giveBack(r *Row, set *queue.Settlement) error {
	if r.tried {
		r.Attempt = max(r.Attempt-1, 0)
	}
	if set.Error != "" {
		r.Error = reason(set.Error)
	}
	r.SetPhase(Ready)
	r.NextAt = 0
	t.ring(r.Lane)
	if set.RetryIn <= 0 {
		return t.passLine(r)
	}
	r.SetPhase(Delayed)
	r.NextAt = t.now.Add(set.RetryIn)
	t.timer(r.NextAt)
	return t.stayInLine(r)
}

// retryLater keeps the row's place in its line and makes it due after a while.
func (t *Batch) retryLater(r *Row, set *queue.Settlement) error {
	t.addAttempt(r, "retry", set.Error)
	r.SetPhase(Delayed)
	r.Lost, r.Error = 0, reason(set.Error)
	r.NextAt = t.now.Add(max(set.RetryIn, 1))
	t.timer(r.NextAt)
	return t.stayInLine(r)
}

// park takes a row out of the order line until what it waits for is there.
func (t *Batch) park(r *Row, set *queue.Settlement) error {
	if set.Park == nil || len(set.Park.Waits) == 0 || set.Park.Limit <= 0 {
		return fmt.Errorf("settle row %d: a parked row needs a wait and a limit", r.Seq)
	}
	r.SetPhase(Parked)
	r.Lost, r.Error = 0, reason(set.Error)
	r.Waits = slices.Clone(set.Park.Waits)
	r.NextAt = t.now.Add(set.Park.Limit)
	r.WaitUntil = r.NextAt
	t.set(func(s *State) { s.Waiting++ })
	t.timer(r.NextAt)
	return t.leaveLine(r)
}

// endWaits removes what the row waited for.
func (t *Batch) endWaits(r *Row) {
	if len(r.Waits) == 0 {
		return
	}
	t.change(r)
	r.Waits = nil
	t.set(func(s *State) { s.Waiting-- })
}

// end gives a row a state in which nobody works it any more.
func (t *Batch) end(r *Row, set *queue.Settlement) error {
	unwell := set.State == queue.Dead || set.State == queue.Held
	if unwell && r.tried {
		t.addAttempt(r, string(set.State), set.Error)
	}
	r.SetPhase(settledPhase(set.State))
	r.Lost, r.Error, r.DeadCause = 0, reason(set.Error), set.DeadCause
	r.NextAt, r.WaitUntil, r.FinishedAt = 0, 0, t.now
	if r.SweepAt = 0; set.State.Final() {
		r.SweepAt = t.now + Stamp(r.KeepBodyMS)
	}
	if set.Block && unwell {
		r.Blocks = true
		return t.stayInLine(r)
	}
	return t.leaveLine(r)
}

// addAttempt remembers a try that did not end well.
func (t *Batch) addAttempt(r *Row, result, why string) {
	list := append(slices.Clone(r.Attempts), Attempt{N: r.Attempt, StartedAt: r.StartedAt,
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
func (t *Batch) giveUp(r *Row, set queue.Settlement) error {
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
func (t *Batch) makeDue(r *Row) error {
	t.change(r)
	before := r.State
	if err := t.placeInLine(r); err != nil {
		return err
	}
	r.Blocks, r.LimitPassed = false, false
	r.Attempt, r.Lost, r.DeadCause = 0, 0, ""
	r.NextAt, r.FinishedAt, r.SweepAt = 0, 0, 0
	t.count(RowCounter(r.Kind(), r.Source, before), -1)
	t.count(RowCounter(r.Kind(), r.Source, r.State), 1)
	t.ring(r.Lane)
	return nil
}
