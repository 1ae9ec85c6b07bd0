package oncemongo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once/queue"
)

const (
	// maxStep bounds the rows of one Step.
	maxStep = 256
	// stepFor bounds the time of a Step, so that what others want waits no longer for it.
	stepFor = time.Second
	// overduePerStep bounds the tasks of one Step that stood still too long.
	overduePerStep = 32
	// stepRetry is the wait of a row whose decision failed on a fault of its own.
	stepRetry = time.Second
	// singleLease is the lease of a row that is worked singly.
	singleLease = 30 * time.Second
	// suspectRows is how many rows at the head of a lane are worked singly after a node was lost
	// that had the turn: as many as one Step may have had in its hands.
	suspectRows = maxStep
)

// Step takes due rows of a lane in order and settles them in one commit.
func (s *Store) Step(ctx context.Context, r queue.StepRequest) (queue.Stepped, error) {
	if r.Lane == "" || r.Decide == nil || r.Max < 1 {
		return queue.Stepped{}, fmt.Errorf("step: lane %q, max %d: want a lane, a Decide and at "+
			"least one row", r.Lane, r.Max)
	}
	var out queue.Stepped
	single := false
	err := s.do(ctx, false, func(t *txn) (err error) {
		if single = s.singly[r.Lane] > 0; single {
			return nil
		}
		out, err = t.step(r)
		return err
	})
	if err == nil && single {
		out, err = s.stepSingly(ctx, r)
	}
	if err != nil {
		return queue.Stepped{}, asUnavailable(err)
	}
	return out, nil
}

func (t *txn) step(r queue.StepRequest) (out queue.Stepped, err error) {
	if out, err = t.stepRows(r); err != nil {
		return queue.Stepped{}, err
	}
	if err := t.stepOverdue(r, &out); err != nil {
		return queue.Stepped{}, err
	}
	return out, nil
}

// stepRows works rows in order, woken ones ahead of later ones.
func (t *txn) stepRows(r queue.StepRequest) (out queue.Stepped, err error) {
	limit := min(r.Max, maxStep)
	begun := time.Now() // a bound on the writer's own time, not the store's clock
	var rows []*row
	woken, stopped := len(t.woken), false
	looked := 0
	for ; looked < limit && !stopped; looked++ {
		if len(rows) == 0 {
			if rows, err = t.due(r.Lane, 0, min(limit-looked, dueChunk)); err != nil {
				return out, err
			}
			if err := t.prefetchTasks(rows); err != nil {
				return out, err
			}
			if err := t.prefetchLines(r.Lane, rows); err != nil {
				return out, err
			}
			if woken = len(t.woken); len(rows) == 0 {
				break
			}
		}
		if rows, err = t.addWoken(rows, r.Lane, t.woken[woken:]); err != nil {
			return out, err
		}
		woken = len(t.woken)
		row := rows[0]
		rows = rows[1:]
		if row.Phase != phaseReady { // what came before it has ended it
			continue
		}
		settled, err := t.stepRow(row, r)
		if err != nil {
			return out, err
		}
		if settled {
			out.Rows++
		}
		stopped = t.size > batchBytes || time.Since(begun) > stepFor
	}
	out.More = stopped || looked == limit
	return out, nil
}

// addWoken puts rows that were woken into their places: before everything that is later than them.
// Those that belong after the last row are found when it is their turn.
func (t *txn) addWoken(rows []*row, lane string, woken []int64) ([]*row, error) {
	for _, seq := range woken {
		at, found := slices.BinarySearchFunc(rows, seq, func(r *row, seq int64) int {
			return cmp.Compare(r.Seq, seq)
		})
		if found || at == len(rows) {
			continue
		}
		row, err := t.row(seq)
		if err != nil {
			return nil, err
		}
		if row.Lane == lane && row.Phase == phaseReady {
			rows = slices.Insert(rows, at, row)
		}
	}
	return rows, nil
}

// stepRow works one row, and reports false if an earlier one holds up its key.
func (t *txn) stepRow(row *row, r queue.StepRequest) (bool, error) {
	behind, err := t.isBehind(row)
	if err != nil {
		return false, err
	}
	if behind {
		t.joinLine(row)
		return false, nil
	}
	return true, t.workRow(row, r)
}

// workRow decides on a row whose turn it is, and settles it. A decision that fails makes the row
// wait, one that panics makes it a dead letter: asked again it would do the same.
func (t *txn) workRow(row *row, r queue.StepRequest) error {
	t.begin(row)
	was, err := row.public(false)
	if err != nil {
		return err
	}
	var set queue.Settlement
	before := t.size
	err = t.savepoint(func() (err error) {
		set, err = t.decide(func() (queue.Settlement, error) { return r.Decide(t.view(), was) })
		if err == nil && set.Commit != nil {
			err = errors.New("a step can't have a Commit")
		}
		if err != nil {
			return err
		}
		if err := t.settleRow(row, set); err != nil {
			return err
		}
		if t.size-before > maxRowBytes { // with it no commit of the step would fit
			return errTooMuch
		}
		return nil
	})
	if storeFault(err) {
		return err
	}
	if err != nil {
		set = queue.Settlement{State: queue.Pending, RetryIn: stepRetry, Error: err.Error(),
			Public: shown(err)}
		t.s.cfg.Logger.Error("a row could not be decided", "callback", row.ID, "error", set.Public)
		var panicked *panicError
		if errors.As(err, &panicked) {
			set.State, set.DeadCause = queue.Dead, queue.CausePoison
			set.Block = r.Block != nil && r.Block(was)
		}
		if err := t.settleRow(row, set); err != nil {
			return err
		}
	}
	if r.Settled != nil {
		t.durable = append(t.durable, func() { r.Settled(was, set) })
	}
	return nil
}

// begin counts a try that is taken and settled in one commit.
func (t *txn) begin(r *row) {
	t.change(r)
	r.tried = true
	if r.Phase != phaseWorking {
		r.Attempt++
		r.StartedAt = t.now
	}
}

// shown returns what a log may show of an error of a decision.
func shown(err error) string {
	var panicked *panicError
	if errors.As(err, &panicked) {
		return panicked.Public()
	}
	return cmp.Or(queue.Public(err), "(not shown)")
}

// stepOverdue lets tasks that stood still too long raise their alarm.
func (t *txn) stepOverdue(r queue.StepRequest, out *queue.Stepped) error {
	if r.Overdue == nil {
		return nil
	}
	if at := t.state.Overdue; at != 0 && at <= t.now {
		list, err := t.overdueTasks(overduePerStep)
		if err != nil {
			return err
		}
		for _, d := range list {
			if err := t.alarm(d, r); err != nil {
				return err
			}
		}
		next, err := t.nextOverdue()
		if err != nil {
			return err
		}
		t.set(func(s *turnState) { s.Overdue = next })
	}
	out.NextAt = t.state.Overdue.time()
	return nil
}

// alarm asks what a task causes that stood still too long. One for which that fails is not asked
// about again: it holds up no other.
func (t *txn) alarm(d *taskDoc, r queue.StepRequest) error {
	task, err := d.public()
	if err == nil {
		err = t.savepoint(func() error {
			set, err := t.decide(func() (queue.Settlement, error) {
				return r.Overdue(t.view(), task)
			})
			if err != nil {
				return err
			}
			return t.applyChanges(set, nil)
		})
	}
	if err == nil || storeFault(err) {
		return err
	}
	t.s.cfg.Logger.Error("an overdue task could not raise its alarm", "flow", d.Flow, "task",
		d.Task, "error", shown(err))
	t.tasks.change(d.ID)
	d.OverdueAt = 0
	return nil
}

// overdueTasks returns tasks whose time has come, earliest first.
func (t *txn) overdueTasks(limit int) ([]*taskDoc, error) {
	return t.selectTasks("overdue_at", t.now, limit,
		func(d *taskDoc) stamp { return d.OverdueAt })
}

// nextOverdue is when the next task will have stood still too long; 0: none does.
func (t *txn) nextOverdue() (stamp, error) {
	list, err := t.selectTasks("overdue_at", 0, 1,
		func(d *taskDoc) stamp { return d.OverdueAt })
	if err != nil || len(list) == 0 {
		return 0, err
	}
	return list[0].OverdueAt, nil
}

// selectTasks returns the tasks with the earliest times in a field, as the batch has them: those
// that are not later than by, if that is not 0.
func (t *txn) selectTasks(field string, by stamp, limit int, of func(*taskDoc) stamp) ([]*taskDoc,
	error) {
	bound := bson.D{{Key: "$gt", Value: bson.DateTime(0)}}
	if by != 0 {
		bound = append(bound, bson.E{Key: "$lte", Value: bson.DateTime(by)})
	}
	stored, err := t.find(tasks, bson.D{{Key: field, Value: bound}},
		bson.D{{Key: field, Value: 1}}, limit+len(t.tasks.dirty))
	if err != nil {
		return nil, err
	}
	var out []*taskDoc
	for _, raw := range stored {
		id, _ := raw.Lookup("_id").StringValueOK()
		if c := t.tasks.cells[id]; c != nil && c.touched {
			continue
		}
		d, err := t.tasks.keep(id, raw)
		if err != nil {
			return nil, err
		}
		if d != nil {
			out = append(out, d)
		}
	}
	for _, id := range t.tasks.dirty {
		d := t.tasks.cells[id].now
		if d != nil && of(d) != 0 && (by == 0 || of(d) <= by) {
			out = append(out, d)
		}
	}
	slices.SortStableFunc(out, func(a, b *taskDoc) int { return cmp.Compare(of(a), of(b)) })
	return out[:min(limit, len(out))], nil
}

// stepSingly works the row at the head alone, with its attempt committed first: after a lost node
// one of these rows may have been the cause.
func (s *Store) stepSingly(ctx context.Context, r queue.StepRequest) (queue.Stepped, error) {
	got, err := s.Lease(ctx, queue.LeaseRequest{Lane: r.Lane, Max: 1, For: singleLease,
		MaxLost: r.MaxLost, Block: r.Block})
	if err != nil {
		return queue.Stepped{}, err
	}
	if len(got.Rows) == 0 {
		working := false
		err := s.do(ctx, false, func(t *txn) error {
			if working = t.lane(r.Lane).Working > 0; !working {
				delete(s.singly, r.Lane)
			}
			return nil
		})
		return queue.Stepped{More: !working}, err
	}
	grant := got.Rows[0].Grant()
	err = s.do(ctx, false, func(t *txn) error {
		row, err := t.granted(grant)
		if err != nil {
			return err
		}
		t.durable = append(t.durable, func() { s.singly[r.Lane]-- })
		return t.workRow(row, r) // it has its turn, whatever became due since
	})
	return queue.Stepped{Rows: 1, More: true}, err
}

// Transact applies what fn returns, but for what is about a row.
func (s *Store) Transact(ctx context.Context,
	fn func(queue.View) (queue.Settlement, error)) error {
	err := s.do(ctx, false, func(t *txn) error {
		v := t.view()
		set, err := t.decide(func() (queue.Settlement, error) { return fn(v) })
		if err == nil {
			err = v.err
		}
		if err != nil {
			return err
		}
		return t.applyChanges(set, nil)
	})
	return asUnavailable(err)
}
