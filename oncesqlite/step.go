package oncesqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

const (
	// maxStep bounds the rows of one Step.
	maxStep = 256
	// stepBudget bounds the time of a Step while others wait for the writer, so that
	// acknowledgements stay quick however many rows are due.
	stepBudget = 3 * time.Millisecond
	// overduePerStep bounds the tasks of one Step that stood still too long.
	overduePerStep = 32
	// stepRetry is the wait of a row whose decision failed on a fault of its own.
	stepRetry = time.Second
	// singleLease is the lease of a row that is worked singly.
	singleLease = 30 * time.Second
)

// Step takes due rows of a lane in order and settles them in one transaction.
func (s *Store) Step(ctx context.Context, r queue.StepRequest) (queue.Stepped, error) {
	if r.Lane == "" || r.Decide == nil || r.Max < 1 {
		return queue.Stepped{}, fmt.Errorf("step: lane %q, max %d", r.Lane, r.Max)
	}
	var out queue.Stepped
	single := false
	err := s.do(ctx, &op{alone: true, run: func(t *txn) (err error) { // each row has its savepoint
		lane, err := t.lane(r.Lane)
		if err != nil {
			return err
		}
		if s.suspects[lane] > 0 {
			single = true
			return nil
		}
		out, err = t.step(lane, r)
		return err
	}})
	if err == nil && single {
		out, err = s.stepSingly(ctx, r)
	}
	if err != nil {
		return queue.Stepped{}, unavailable(err)
	}
	return out, nil
}

// step works due rows of a lane until there are none, or its bounds are reached.
func (t *txn) step(lane int64, r queue.StepRequest) (out queue.Stepped, err error) {
	limit := min(r.Max, maxStep)
	rows, err := t.due(lane, limit)
	if err != nil {
		return out, err
	}
	begun := time.Now() // a bound on the writer's own time, not the store's clock
	first := len(t.woken)
	for out.Rows < limit && len(rows) > 0 {
		row := rows[0]
		rows = rows[1:]
		if err := t.stepRow(row, r); err != nil {
			return out, err
		}
		out.Rows++
		if len(t.woken) > first { // they come before everything later
			if rows, err = t.due(lane, limit); err != nil {
				return out, err
			}
			first = len(t.woken)
		}
		if len(t.s.ops) > 0 && time.Since(begun) > stepBudget {
			break
		}
	}
	out.More = len(rows) > 0 || out.Rows == limit
	return out, t.stepOverdue(r, &out)
}

// stepRow decides on one row in its own savepoint. A decision that fails makes the row wait.
func (t *txn) stepRow(row *stored, r queue.StepRequest) error {
	behind, err := t.isBehind(row)
	if err != nil {
		return err
	}
	if behind {
		return t.joinLine(row)
	}
	err = t.savepoint(func() error {
		set, err := r.Decide(t.view(), row.Row)
		if err != nil {
			return err
		}
		if r.Settled != nil {
			t.after = append(t.after, func() { r.Settled(row.Row, set) })
		}
		return t.settleRow(row, set)
	})
	if err == nil || storeFault(err) {
		return err
	}
	t.s.cfg.Logger.Error("a row could not be decided", "callback", row.ID(), "error", err)
	fresh, err2 := t.rowBy(bySeq, row.Seq) // what the savepoint undid is undone in row too
	if err2 != nil {
		return err2
	}
	return t.settleRow(fresh, queue.Settlement{State: queue.Pending, RetryIn: stepRetry,
		Error: err.Error()})
}

// stepOverdue lets tasks that stood still too long raise their alarm.
func (t *txn) stepOverdue(r queue.StepRequest, out *queue.Stepped) error {
	if r.Overdue == nil {
		return nil
	}
	var tasks []queue.Task
	err := t.c.query("SELECT "+taskColumns+" FROM tasks WHERE overdue_at <= ? "+
		"ORDER BY overdue_at LIMIT ?", func(q *stmt) error {
		task, _, err := scanTask(q)
		tasks = append(tasks, task)
		return err
	}, t.now, overduePerStep)
	if err != nil {
		return err
	}
	for _, task := range tasks {
		err := t.savepoint(func() error {
			set, err := r.Overdue(t.view(), task)
			if err != nil {
				return err
			}
			return t.applyChanges(set, nil)
		})
		if storeFault(err) {
			return err
		}
		if err != nil {
			t.s.cfg.Logger.Error("an overdue task could not raise its alarm", "flow", task.Flow,
				"task", task.ID, "error", err)
			if err := t.c.exec("UPDATE tasks SET overdue_at = NULL WHERE flow = ? AND task = ?",
				task.Flow, task.ID); err != nil {
				return err
			}
		}
	}
	next, err := t.c.int("SELECT min(overdue_at) FROM tasks WHERE overdue_at IS NOT NULL")
	out.NextAt = timeOf(next)
	return err
}

// stepSingly works the row at the head alone, with its attempt committed first: after a lost process
// one of these rows may have been the cause.
func (s *Store) stepSingly(ctx context.Context, r queue.StepRequest) (queue.Stepped, error) {
	got, err := s.Lease(ctx, queue.LeaseRequest{Lane: r.Lane, Max: 1, For: singleLease,
		MaxLost: r.MaxLost})
	if err != nil {
		return queue.Stepped{}, err
	}
	if len(got.Rows) == 0 {
		err := s.do(ctx, &op{alone: true, run: func(t *txn) error {
			delete(s.suspects, s.lanes[r.Lane])
			return nil
		}})
		return queue.Stepped{More: true}, err
	}
	grant := got.Rows[0].Grant()
	err = s.do(ctx, &op{run: func(t *txn) error {
		if l := s.working[grant.Seq]; l == nil || l.fence != grant.Fence {
			return once.ErrLeaseLost
		}
		row, err := t.rowBy(bySeq, grant.Seq)
		if err != nil {
			return err
		}
		lane := row.lane
		t.after = append(t.after, func() { s.suspects[lane]-- })
		return t.stepRow(row, r)
	}})
	return queue.Stepped{Rows: 1, More: true}, err
}
