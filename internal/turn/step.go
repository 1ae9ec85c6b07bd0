package turn

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

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

// CheckStep refuses a request that asks for nothing.
func CheckStep(r queue.StepRequest) error {
	if r.Lane == "" || r.Decide == nil || r.Max < 1 {
		return fmt.Errorf("step: lane %q, max %d: want a lane, a Decide and at least one row",
			r.Lane, r.Max)
	}
	return nil
}

// MarkStepped notes that rows of a lane are decided on inside a store.
func (t *Batch) MarkStepped(lane string) {
	if !t.lane(lane).Stepped {
		t.setLane(lane, func(l *LaneState) { l.Stepped = true })
	}
}

// StepsSingly reports whether the rows of a lane are worked one by one, each with its attempt
// committed first: after a lost node one of them may have been the cause.
func (t *Batch) StepsSingly(lane string) bool { return t.lane(lane).Singly > 0 }

// Step takes due rows of a lane in order and settles them.
func (t *Batch) Step(r queue.StepRequest) (out queue.Stepped, err error) {
	if out, err = t.stepRows(r); err != nil {
		return queue.Stepped{}, err
	}
	if err := t.stepOverdue(r, &out); err != nil {
		return queue.Stepped{}, err
	}
	return out, nil
}

// stepRows works rows in order, woken ones ahead of later ones.
func (t *Batch) stepRows(r queue.StepRequest) (out queue.Stepped, err error) {
	limit := min(r.Max, maxStep)
	begun := time.Now() // a bound on the writer's own time, not the store's clock
	var rows []*Row
	woken, stopped := len(t.woken), false
	looked, after, rang := 0, int64(0), t.rang[r.Lane]
	for ; looked < limit && !stopped; looked++ {
		if len(rows) == 0 {
			if rang != t.rang[r.Lane] { // one before those that were read may be due by now
				rang, after = t.rang[r.Lane], 0
			}
			if rows, err = t.due(r.Lane, after, min(limit-looked, dueChunk)); err != nil {
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
			after = rows[len(rows)-1].Seq
		}
		if rows, err = t.addWoken(rows, r.Lane, t.woken[woken:]); err != nil {
			return out, err
		}
		woken = len(t.woken)
		row := rows[0]
		rows = rows[1:]
		if row.Phase != Ready { // what came before it has ended it
			continue
		}
		settled, err := t.stepRow(row, r)
		if err != nil {
			return out, err
		}
		if settled {
			out.Rows++
		}
		stopped = t.Full() || time.Since(begun) > stepFor
	}
	out.More = stopped || looked == limit
	return out, nil
}

// addWoken puts rows that were woken into their places: before everything that is later than them.
// Those that belong after the last row are found when it is their turn.
func (t *Batch) addWoken(rows []*Row, lane string, woken []int64) ([]*Row, error) {
	for _, seq := range woken {
		at, found := slices.BinarySearchFunc(rows, seq, func(r *Row, seq int64) int {
			return cmp.Compare(r.Seq, seq)
		})
		if found || at == len(rows) {
			continue
		}
		row, err := t.row(seq)
		if err != nil {
			return nil, err
		}
		if row.Lane == lane && row.Phase == Ready {
			rows = slices.Insert(rows, at, row)
		}
	}
	return rows, nil
}

// stepRow works one row, and reports false if an earlier one holds up its key.
func (t *Batch) stepRow(row *Row, r queue.StepRequest) (bool, error) {
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
func (t *Batch) workRow(row *Row, r queue.StepRequest) error {
	t.begin(row)
	was := row.Public(false)
	var set queue.Settlement
	before := t.size
	err := t.Savepoint(func() (err error) {
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
		if t.size-before > t.MaxRowBytes { // with it no commit of the step would fit
			return ErrTooMuch
		}
		return nil
	})
	if IsFault(err) {
		return err
	}
	if err != nil {
		set = queue.Settlement{State: queue.Pending, RetryIn: stepRetry, Error: err.Error(),
			Public: shown(err)}
		t.Log.Error("a row could not be decided", "callback", row.ID(), "error", set.Public)
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
func (t *Batch) begin(r *Row) {
	t.change(r)
	r.tried = true
	if r.Phase != Working {
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
func (t *Batch) stepOverdue(r queue.StepRequest, out *queue.Stepped) error {
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
		t.set(func(s *State) { s.Overdue = next })
	}
	out.NextAt = t.state.Overdue.Time()
	return nil
}

// alarm asks what a task causes that stood still too long. One for which that fails is not asked
// about again: it holds up no other.
func (t *Batch) alarm(d *Task, r queue.StepRequest) error {
	task := d.Public()
	err := t.Savepoint(func() error {
		set, err := t.decide(func() (queue.Settlement, error) {
			return r.Overdue(t.view(), task)
		})
		if err != nil {
			return err
		}
		return t.applyChanges(set, nil)
	})
	if err == nil || IsFault(err) {
		return err
	}
	t.Log.Error("an overdue task could not raise its alarm", "flow", d.Flow, "task",
		d.Task, "error", shown(err))
	t.Tasks.change(d.key())
	d.OverdueAt = 0
	return nil
}

// overdueTasks returns tasks whose time has come, earliest first.
func (t *Batch) overdueTasks(limit int) ([]*Task, error) {
	return t.selectTasks(ByOverdue, t.now, limit)
}

// nextOverdue is when the next task will have stood still too long; 0: none does.
func (t *Batch) nextOverdue() (Stamp, error) {
	list, err := t.selectTasks(ByOverdue, 0, 1)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	return list[0].OverdueAt, nil
}

// selectTasks returns the tasks with the earliest times in a field, as the batch has them: those
// that are not later than by, if that is not 0.
func (t *Batch) selectTasks(field TaskTime, by Stamp, limit int) ([]*Task, error) {
	stored, err := t.stored.TasksBy(field, by, limit+len(t.Tasks.dirty))
	if err != nil {
		return nil, err
	}
	out := t.Tasks.merge(stored, func(d *Task) bool {
		return field.of(d) != 0 && (by == 0 || field.of(d) <= by)
	})
	slices.SortStableFunc(out, func(a, b *Task) int {
		return cmp.Compare(field.of(a), field.of(b))
	})
	return out[:min(limit, len(out))], nil
}

// TakeSingle leases the row at the head of a lane that is worked singly. Without one it tells
// whether another one is still worked, and the lane goes back to what it was if none is.
func (t *Batch) TakeSingle(r queue.StepRequest) (g queue.Grant, ok, working bool, err error) {
	got, err := t.Lease(queue.LeaseRequest{Lane: r.Lane, Max: 1, For: singleLease,
		MaxLost: r.MaxLost, Block: r.Block})
	if err != nil {
		return g, false, false, err
	}
	if len(got.Rows) > 0 {
		return got.Rows[0].Grant(), true, true, nil
	}
	if working = t.lane(r.Lane).Working > 0; !working {
		t.setLane(r.Lane, func(l *LaneState) { l.Singly = 0 })
	}
	return g, false, working, nil
}

// WorkSingle settles a row that TakeSingle leased: it has its turn, whatever became due since.
func (t *Batch) WorkSingle(g queue.Grant, r queue.StepRequest) error {
	row, err := t.granted(g)
	if err != nil {
		return err
	}
	t.setLane(r.Lane, func(l *LaneState) { l.Singly = max(l.Singly-1, 0) })
	return t.workRow(row, r)
}

// Suspect lets the rows at the head of each lane that was stepped be worked singly: a node was lost
// that may have had them in its hands.
func (t *Batch) Suspect() {
	for name, l := range t.lanes {
		if l.Stepped {
			t.setLane(name, func(l *LaneState) { l.Singly = suspectRows })
		}
	}
}

// Transact applies what fn returns, but for what is about a row.
func (t *Batch) Transact(fn func(queue.View) (queue.Settlement, error)) error {
	v := t.view()
	set, err := t.decide(func() (queue.Settlement, error) { return fn(v) })
	if err == nil {
		err = v.err
	}
	if err != nil {
		return err
	}
	return t.applyChanges(set, nil)
}
