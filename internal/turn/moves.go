package turn

import (
	"errors"
	"fmt"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// Each runs fn on those of the rows that a query still selects, in the order in which they are
// named. It returns how many did.
func (t *Batch) Each(q *RowQuery, seqs []int64, fn func(*Batch, *Row) error) (int64, error) {
	if err := t.Rows.load(seqs); err != nil {
		return 0, err
	}
	done := int64(0)
	for _, seq := range seqs {
		r, err := t.row(seq)
		if errors.Is(err, once.ErrNotFound) || err == nil && !q.Match(r) {
			continue // another node was faster
		}
		if err != nil {
			return done, err
		}
		r.tried = false
		if err := fn(t, r); err != nil {
			return done, err
		}
		done++
	}
	return done, nil
}

// Rename gives a callback another event.
func (t *Batch) Rename(r *Row, event string) {
	t.change(r)
	r.Event = event
}

// MoveEffect sends an effect to another destination.
func (t *Batch) MoveEffect(r *Row, to, lane string) error {
	if err := t.leaveLine(r); err != nil {
		return err
	}
	t.change(r)
	if r.Phase == Working { // its lease goes with it
		suspect := r.Lost > 0
		t.moveWorking(r.Lane, lane, suspect)
	}
	t.SetSource(r, to)
	r.Lane = lane
	if r.Phase == Delayed || r.Phase == InLine {
		r.SetPhase(Ready)
	}
	if r.NextAt = 0; r.Blocks { // it blocks its key there, too
		t.enterLine(r)
	}
	t.ring(lane)
	return nil
}

// moveWorking counts a row in somebody's hands for another lane.
func (t *Batch) moveWorking(from, to string, suspect bool) {
	by := func(name string, n int64) {
		t.setLane(name, func(l *LaneState) {
			if l.Working += n; suspect {
				l.Suspects += n
			}
		})
	}
	by(from, -1)
	by(to, 1)
}

// SetSource gives a row another source or destination.
func (t *Batch) SetSource(r *Row, to string) {
	t.count(RowCounter(r.Kind(), r.Source, r.State), -1)
	t.count(RowCounter(r.Kind(), to, r.State), 1)
	t.change(r)
	r.Source = to
}

// DiscardFor gives rows up for a reason. then adds what follows, as Settlement.Then does.
func DiscardFor(why string, then func(queue.View, queue.Row) queue.Settlement,
) func(*Batch, *Row) error {
	return func(t *Batch, r *Row) error {
		return t.giveUp(r, queue.Settlement{State: queue.Discarded, Error: why, Then: then})
	}
}

// MoveSource gives a row another source, and the place that it has there.
func (t *Batch) MoveSource(r *Row, to string,
	route func(queue.Row) (queue.Arrival, error)) error {
	t.SetSource(r, to)
	a, err := callRoute(r.Public(false), route)
	waits := r.State == queue.Pending || r.State == queue.Parked
	switch {
	case err != nil && waits:
		return t.giveUp(r, queue.Settlement{State: queue.Dead, DeadCause: queue.CausePermanent,
			Error: fmt.Sprintf("source %s can't take it: %v", to, err)})
	case err != nil: // whoever wants it tried again is told then
		return nil
	case a.State == queue.Unrouted && waits:
		return t.giveUp(r, queue.Settlement{State: queue.Unrouted,
			Error: fmt.Sprintf("source %s has no place for it", to)})
	case a.State == queue.Unrouted || r.Phase == Working: // its worker ends it
		return nil
	}
	if err := t.leaveLine(r); err != nil {
		return err
	}
	if a.Flow != r.Flow || a.Task != r.Task { // else it keeps its turn
		if err := t.dropWaits(r); err != nil {
			return err
		}
	}
	t.place(r, a)
	if waits {
		return t.makeDue(r)
	}
	if r.Blocks { // it blocks its key there, too
		t.enterLine(r)
	}
	return nil
}

// dropWaits ends the waits of a row that is worked elsewhere. If it was woken and did not get its
// turn, the next one that waits for the same gets it.
func (t *Batch) dropWaits(r *Row) error {
	waits, woken := r.Waits, r.State == queue.Pending
	t.endWaits(r)
	t.change(r)
	r.WaitUntil = 0
	if !woken {
		return nil
	}
	for _, w := range waits {
		if err := t.wake(queue.Wake{Wait: w, First: true}, r); err != nil {
			return err
		}
	}
	return nil
}

// Reroute takes a waiting row out of its lane and flow. One that has no other place is unrouted;
// one of which nobody can say is a dead letter: it must not keep all others from starting.
func (t *Batch) Reroute(r *Row, lane, flow string,
	route func(queue.Row) (queue.Arrival, error)) error {
	a, err := callRoute(r.Public(false), route)
	switch {
	case errors.Is(err, once.ErrState):
		return fmt.Errorf("route callback %s: %w", r.ID(), err)
	case err != nil:
		return t.giveUp(r, queue.Settlement{State: queue.Dead, DeadCause: queue.CausePermanent,
			Error: "find its place in the changed configuration: " + err.Error()})
	case a.State == queue.Unrouted:
		return t.giveUp(r, queue.Settlement{State: queue.Unrouted,
			Error: "the configuration has no place for it any more"})
	case a.Lane == lane && a.Flow == flow:
		return fmt.Errorf("route callback %s: it stays in lane %s", r.ID(), lane)
	}
	if err := t.leaveLine(r); err != nil {
		return err
	}
	t.place(r, a)
	return t.makeDue(r)
}

// DecideTask applies what change says of a task.
func (t *Batch) DecideTask(flow, id string,
	change func(queue.View, queue.Task) (queue.Settlement, error)) error {
	set, err := t.decide(func() (queue.Settlement, error) {
		v := t.view()
		task, err := v.Task(flow, id)
		if err != nil {
			return queue.Settlement{}, err
		}
		return change(v, task)
	})
	if err != nil {
		return err
	}
	return t.applyChanges(set, nil)
}

// Bury makes a tombstone of a task.
func (t *Batch) Bury(flow, id string) error {
	d, err := t.Tasks.get(Pair{flow, id})
	if err != nil || d == nil || d.Gone {
		return err
	}
	t.Tasks.change(d.key())
	d.Gone, d.Final, d.Fields, d.Taken, d.OverdueAt = true, true, nil, nil, 0
	d.UpdatedAt, d.SweepAt = t.now, t.now+Stamp(d.RetentionMS)
	t.count(CounterKey{CountTasks, d.Flow, d.State}, -1)
	t.size += rowBytes
	return nil
}
