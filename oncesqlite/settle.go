package oncesqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// Settle applies settlements, each in its own savepoint, all with one flush.
func (s *Store) Settle(ctx context.Context, settlements []queue.Settlement) []error {
	errs := make([]error, len(settlements))
	culprit := make([]bool, len(settlements)) // its Commit made SQLite give up a transaction
	err := s.do(ctx, &op{alone: true, rows: len(settlements), run: func(t *txn) error {
		for i := range settlements {
			if culprit[i] {
				continue
			}
			set := &settlements[i]
			errs[i] = t.savepoint(func() error { return t.settle(set) })
			if err := errs[i]; byHandler(err) {
				culprit[i] = true
				var failed *queue.CommitError
				errors.As(err, &failed)
				errs[i] = failed
				return err
			} else if storeFault(err) {
				return err
			}
		}
		return nil
	}})
	return allErrs(errs, err)
}

// settle applies one settlement under its grant.
func (t *txn) settle(set *queue.Settlement) error {
	l := t.s.working[set.Grant.Seq]
	if l == nil || l.fence != set.Grant.Fence {
		return once.ErrLeaseLost
	}
	row, err := t.rowBy(bySeq, set.Grant.Seq)
	if err != nil {
		return err
	}
	row.tried = true
	return t.settleRow(row, *set)
}

// checkState refuses a state that a settlement can't give.
func checkState(row *stored, set *queue.Settlement) error {
	if set.NotTried || set.State.Valid(row.Kind) && set.State != row.Kind.Working() {
		return nil
	}
	return fmt.Errorf("settle row %d: a %v can't become %q", row.Seq, row.Kind, set.State)
}

// settleRow gives a row its new state and makes everything true that belongs to it.
func (t *txn) settleRow(row *stored, set queue.Settlement) error {
	if err := checkState(row, &set); err != nil {
		return err
	}
	if err := t.runCommit(row, set.Commit); err != nil {
		return err
	}
	if err := t.applyChanges(set, row); err != nil {
		return err
	}
	if err := t.setState(row, &set); err != nil {
		return err
	}
	if set.Then == nil {
		return nil
	}
	v := t.view()
	more, err := t.decide(func() (queue.Settlement, error) {
		more := set.Then(v, row.Row)
		return more, v.err
	})
	if err != nil {
		return err
	}
	return t.applyChanges(more, row)
}

// setState moves a row to the state of its settlement.
func (t *txn) setState(row *stored, set *queue.Settlement) error {
	t.release(row)
	before := row.State
	row.flags &^= flagBlock
	if !set.NotTried && set.State != queue.Pending { // else it is not worked yet: it keeps its turn
		row.flags &^= flagLimitPassed
		if err := t.endWaits(row); err != nil {
			return err
		}
	}
	var err error
	switch {
	case set.NotTried:
		err = t.giveBack(row, set)
	case set.State == queue.Pending:
		err = t.retryLater(row, set)
	case set.State == queue.Parked:
		err = t.park(row, set)
	default:
		err = t.end(row, set)
	}
	if err != nil {
		return err
	}
	t.count(rowCounter(row.Kind, row.Source, before), -1)
	t.count(rowCounter(row.Kind, row.Source, row.State), 1)
	return nil
}

// release ends the lease of a row in memory.
func (t *txn) release(row *stored) {
	if l := t.s.working[row.Seq]; l != nil {
		t.letGo(row.Seq, l)
	}
}

func (t *txn) letGo(seq int64, l *lease) {
	s := t.s
	holder, busy := s.busy[l.line]
	s.letGo(seq, l.line)
	t.onUndo(func() {
		s.working[seq] = l
		if busy {
			s.busy[l.line] = holder
		}
	})
}

// giveBack makes a row due as if it had not been tried, at once or after a while.
func (t *txn) giveBack(row *stored, set *queue.Settlement) error {
	if row.tried {
		row.Attempt--
	}
	p, next := phaseReady, int64(0)
	stay := t.passLine
	if set.RetryIn > 0 {
		stay = t.stayInLine
		p, next, t.timers = phaseDelayed, t.now+max(set.RetryIn.Microseconds(), 1), true
	}
	if err := stay(row); err != nil {
		return err
	}
	row.State = queue.Pending
	t.ring(row.lane)
	return t.c.exec("UPDATE rows SET phase = ?, attempt = ?, error = coalesce(?, error), "+
		"flags = ?, next_at = ? WHERE seq = ?", p, max(row.Attempt, 0), nullText(set.Error),
		row.flags, nullTime(next), row.Seq)
}

// retryLater keeps the row's place in its line and makes it due after a while.
func (t *txn) retryLater(row *stored, set *queue.Settlement) error {
	if err := t.stayInLine(row); err != nil {
		return err
	}
	if err := t.addAttempt(row, "retry", set.Error); err != nil {
		return err
	}
	row.State, t.timers = queue.Pending, true
	return t.c.exec("UPDATE rows SET phase = 1, lost = 0, error = ?, flags = ?, next_at = ?, "+
		"attempt = ?, started_at = ? WHERE seq = ?", set.Error, row.flags,
		t.now+max(set.RetryIn.Microseconds(), 1), row.Attempt, nullTime(micros(row.StartedAt)),
		row.Seq)
}

// park takes a row out of the order line until what it waits for is there.
func (t *txn) park(row *stored, set *queue.Settlement) error {
	if set.Park == nil || len(set.Park.Waits) == 0 || set.Park.Limit <= 0 {
		return fmt.Errorf("settle row %d: a parked row needs a wait and a limit", row.Seq)
	}
	if err := t.leaveLine(row); err != nil {
		return err
	}
	for _, w := range append([]string{waitOwner(row.Flow, row.Task)}, set.Park.Waits...) {
		if err := t.c.exec("INSERT INTO waits VALUES (?, ?) ON CONFLICT DO NOTHING",
			w, row.Seq); err != nil {
			return err
		}
		t.addWaiting(t.c.raw.Changes())
	}
	until := t.now + set.Park.Limit.Microseconds()
	row.State, row.Waits, t.timers = queue.Parked, set.Park.Waits, true
	return t.c.exec("UPDATE rows SET phase = 4, attempt = ?, lost = 0, error = ?, flags = ?, "+
		"next_at = ?, wait_until = ?, started_at = ?, waits = ? WHERE seq = ?", row.Attempt,
		set.Error, row.flags, until, until, nullTime(micros(row.StartedAt)),
		keyText(set.Park.Waits), row.Seq)
}

// waitOwner is an entry in waits by which the parked rows of a task are found.
func waitOwner(flow, task string) string { return "of/" + flow + "/" + task }

// addWaiting keeps the number of entries in waits: mostly there is none to look for.
func (t *txn) addWaiting(n int64) {
	t.s.waiting += n
	t.onUndo(func() { t.s.waiting -= n })
}

// endWaits removes what the row waited for.
func (t *txn) endWaits(row *stored) error {
	if len(row.Waits) == 0 {
		return nil
	}
	for _, w := range append([]string{waitOwner(row.Flow, row.Task)}, row.Waits...) {
		if err := t.c.exec("DELETE FROM waits WHERE wait = ? AND seq = ?", w, row.Seq); err != nil {
			return err
		}
		t.addWaiting(-t.c.raw.Changes())
	}
	row.Waits = nil
	return nil
}

const endRow = `UPDATE rows SET phase = ?, attempt = ?, lost = 0, error = ?, dead_cause = ?,
	flags = ?, next_at = NULL, started_at = ?, finished_at = ?, sweep_at = ?, waits = NULL
	WHERE seq = ?`

// end gives a row a state in which nobody works it any more.
func (t *txn) end(row *stored, set *queue.Settlement) error {
	block := set.Block && (set.State == queue.Dead || set.State == queue.Held)
	if block {
		if err := t.stayInLine(row); err != nil {
			return err
		}
		row.flags |= flagBlock
	} else if err := t.leaveLine(row); err != nil {
		return err
	}
	sweep := int64(0)
	if set.State.Final() {
		sweep = t.now + row.keepBody
	}
	if set.State == queue.Dead || set.State == queue.Held {
		if row.tried {
			if err := t.addAttempt(row, string(set.State), set.Error); err != nil {
				return err
			}
		}
		t.forget(row.Identity)
	}
	row.State = set.State
	q, err := t.c.prepare(endRow)
	if err != nil {
		return err
	}
	q.bindPhase(1, settledPhase(set.State))
	q.bindInt(2, int64(row.Attempt))
	q.bindOpt(3, set.Error)
	q.bindOpt(4, string(set.DeadCause))
	q.bindInt(5, row.flags)
	q.bindTime(6, micros(row.StartedAt))
	q.bindInt(7, t.now)
	q.bindTime(8, sweep)
	q.bindInt(9, row.Seq)
	return q.run()
}

// keptAttempts bounds the tries that are remembered of a row: the latest ones.
const keptAttempts = 50

// addAttempt remembers a try that did not end well.
func (t *txn) addAttempt(row *stored, result, reason string) error {
	n, err := t.c.int("SELECT coalesce(max(n), 0) + 1 FROM attempts WHERE seq = ?", row.Seq)
	if err != nil {
		return err
	}
	err = t.c.exec("INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?)", row.Seq, n, row.Attempt,
		nullTime(micros(row.StartedAt)), t.now, result, reason)
	if err != nil || n <= keptAttempts {
		return err
	}
	return t.c.exec("DELETE FROM attempts WHERE seq = ? AND n <= ?", row.Seq, n-keptAttempts)
}

// giveUp settles a row that nobody works. If it was woken and did not get its turn, the next one
// that waits for the same gets it.
func (t *txn) giveUp(row *stored, set queue.Settlement) error {
	var turns []string
	if row.State == queue.Pending {
		turns = row.Waits
	}
	if err := t.settleRow(row, set); err != nil {
		return err
	}
	for _, w := range turns {
		if err := t.wake(queue.Wake{Wait: w, First: true}, row); err != nil {
			return err
		}
	}
	return nil
}

// expired reports the leases that ended, for housekeeping.
func (s *Store) expired(lap int64) []int64 {
	var out []int64
	for seq, l := range s.working {
		if l.until < lap {
			out = append(out, seq)
		}
	}
	return out
}
