package oncesqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

const (
	// maxStep bounds the rows of one Step.
	maxStep = 256
	// While others wait for the writer a Step takes a multiple of the time that they had since the
	// last one, within bounds: acknowledgements stay quick however many rows are due, and rows are
	// worked however many arrive.
	stepShare  = 2
	minStepFor = 300 * time.Microsecond
	maxStepFor = 3 * time.Millisecond
	// stepChunk bounds the rows that are read at once: a Step may end before it comes to them.
	stepChunk = 16
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
		return queue.Stepped{}, fmt.Errorf("step: lane %q, max %d: want a lane, a Decide and at "+
			"least one row", r.Lane, r.Max)
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

// step works due rows of a lane until there are none, or its bounds are reached. All of them share
// a savepoint, which costs a fraction of one each; if one of them fails, what was done is undone
// and done again with a savepoint each, so that the one does not undo its neighbours.
func (t *txn) step(lane int64, r queue.StepRequest) (out queue.Stepped, err error) {
	begun := time.Now()
	defer func() {
		t.stepped += time.Since(begun)
		t.s.notStepped = 0
	}()
	err = t.savepoint(func() error {
		out, err = t.stepRows(lane, r, t.settleStep)
		return err
	})
	if err != nil && !storeFault(err) {
		out, err = t.stepRows(lane, r, t.settleStepAlone)
	}
	if err == nil {
		err = t.stepOverdue(r, &out)
	}
	if err != nil {
		return queue.Stepped{}, err
	}
	return out, nil
}

// stepTime is how long a Step may take while others wait that had so much time since the last one.
func stepTime(others time.Duration) time.Duration {
	return min(max(stepShare*others, minStepFor), maxStepFor)
}

// stepRows works rows in order, woken ones ahead of later ones.
func (t *txn) stepRows(lane int64, r queue.StepRequest, settle settleFunc) (out queue.Stepped,
	err error) {
	limit := min(r.Max, maxStep)
	begun := time.Now() // a bound on the writer's own time, not the store's clock
	most := stepTime(t.s.notStepped)
	var rows []*stored
	woken, stopped := len(t.woken), false
	looked := 0
	for ; looked < limit && !stopped; looked++ {
		if len(rows) == 0 {
			if rows, err = t.due(lane, min(limit-looked, stepChunk)); err != nil {
				return out, err
			}
			if woken = len(t.woken); len(rows) == 0 {
				break
			}
		}
		if rows, err = t.addWoken(rows, lane, t.woken[woken:]); err != nil {
			return out, err
		}
		woken = len(t.woken)
		settled, err := t.stepRow(rows[0], r, settle)
		if err != nil {
			return out, err
		}
		if settled {
			out.Rows++
		}
		rows = rows[1:]
		stopped = len(t.s.ops)+len(t.s.longOps) > 0 && time.Since(begun) > most
	}
	out.More = stopped || looked == limit
	return out, nil
}

// addWoken puts rows that were woken into their places: before everything that is later than them.
// Those that belong after the last row are found when it is their turn.
func (t *txn) addWoken(rows []*stored, lane int64, woken []int64) ([]*stored, error) {
	for _, seq := range woken {
		at, found := slices.BinarySearchFunc(rows, seq, func(r *stored, seq int64) int {
			return cmp.Compare(r.Seq, seq)
		})
		if found || at == len(rows) {
			continue
		}
		row, err := t.rowBy(bySeq, seq)
		if err != nil {
			return nil, err
		}
		if row.lane == lane && row.phase == phaseReady {
			rows = slices.Insert(rows, at, row)
		}
	}
	return rows, nil
}

// settleFunc decides on a row and settles it.
type settleFunc func(row *stored, r queue.StepRequest) (queue.Settlement, error)

// stepRow works one row, and reports false if an earlier one holds up its key.
func (t *txn) stepRow(row *stored, r queue.StepRequest, settle settleFunc) (bool, error) {
	behind, err := t.isBehind(row)
	if err != nil {
		return false, err
	}
	if behind {
		return false, t.joinLine(row)
	}
	return true, t.workRow(row, r, settle)
}

// workRow decides on a row whose turn it is, and settles it.
func (t *txn) workRow(row *stored, r queue.StepRequest, settle settleFunc) error {
	t.begin(row)
	was := row.Row
	set, err := settle(row, r)
	if err == nil && r.Settled != nil {
		t.durable = append(t.durable, func() { r.Settled(was, set) })
	}
	return err
}

// settleStep decides on a row and settles it.
func (t *txn) settleStep(row *stored, r queue.StepRequest) (queue.Settlement, error) {
	set, err := t.decide(func() (queue.Settlement, error) { return r.Decide(t.view(), row.Row) })
	if err != nil {
		return set, err
	}
	if set.Commit != nil {
		return set, errors.New("a step can't have a Commit")
	}
	return set, t.settleRow(row, set)
}

// settleStepAlone does the same in a savepoint of its own. A decision that fails makes the row
// wait, one that panics makes it a dead letter: asked again it would do the same.
func (t *txn) settleStepAlone(row *stored, r queue.StepRequest) (queue.Settlement, error) {
	var set queue.Settlement
	err := t.savepoint(func() (err error) {
		set, err = t.settleStep(row, r)
		return err
	})
	if err == nil || storeFault(err) {
		return set, err
	}
	set = queue.Settlement{State: queue.Pending, RetryIn: stepRetry, Error: err.Error(),
		Public: shown(err)}
	t.s.cfg.Logger.Error("a row could not be decided", "callback", row.ID(), "error", set.Public)
	var panicked *panicError
	if errors.As(err, &panicked) {
		set.State, set.DeadCause = queue.Dead, queue.CausePoison
		set.Block = r.Block != nil && r.Block(row.Row)
	}
	if row, err = t.rowBy(bySeq, row.Seq); err != nil { // the savepoint undid what row says
		return set, err
	}
	t.begin(row)
	return set, t.savepoint(func() error { return t.settleRow(row, set) })
}

// begin counts a try that is taken and settled in one transaction.
func (t *txn) begin(row *stored) {
	row.tried = true
	if row.phase != phaseWorking {
		row.Attempt++
		row.StartedAt = timeOf(t.now)
	}
}

// panicError is a panic in a function that the caller gave.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Public returns what a log may show of it: see [queue.Public].
func (e *panicError) Public() string { return "panic: " + queue.PanicText(e.value) }

// shown returns what a log may show of an error of a decision: all of what the store itself says.
func shown(err error) string {
	var panicked *panicError
	if errors.As(err, &panicked) {
		return panicked.Public()
	}
	var code sqlite3.ErrorCode
	if errors.As(err, &code) {
		return code.Error()
	}
	return cmp.Or(queue.Public(err), "(not shown)")
}

// decide calls a caller's function inside the transaction: a panic in it is an error.
func (t *txn) decide(fn func() (queue.Settlement, error)) (set queue.Settlement, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p}
			t.s.cfg.Logger.Error("a decision panicked", "panic", queue.PanicText(p),
				"stack", string(debug.Stack()))
		}
	}()
	return fn()
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
			set, err := t.decide(func() (queue.Settlement, error) {
				return r.Overdue(t.view(), task)
			})
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
				"task", task.ID, "error", shown(err))
			t.forgetTasks()
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

// stepSingly works the row at the head alone, with its attempt committed first: after a lost
// process one of these rows may have been the cause.
func (s *Store) stepSingly(ctx context.Context, r queue.StepRequest) (queue.Stepped, error) {
	got, err := s.Lease(ctx, queue.LeaseRequest{Lane: r.Lane, Max: 1, For: singleLease,
		MaxLost: r.MaxLost, Block: r.Block})
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
		return t.workRow(row, r, t.settleStepAlone) // it has its turn, whatever became due since
	}})
	return queue.Stepped{Rows: 1, More: true}, err
}
