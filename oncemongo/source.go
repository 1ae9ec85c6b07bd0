package oncemongo

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// DiscardSource gives up the unfinished callbacks of a source that is gone. What is remembered of
// the others stays until the end of its retention. It returns how many it gave up, and may be
// called again after an error.
func (s *Store) DiscardSource(ctx context.Context, source, reason string) (int64, error) {
	n, err := s.eachUnfinished(ctx, rowQuery{Kind: queue.Callback, Source: source},
		discardFor(reason, nil))
	if err != nil {
		return n, fmt.Errorf("discard callbacks of source %s: %w", source, err)
	}
	return n, nil
}

// MoveSource makes the unfinished callbacks of a source that is gone, and the unrouted ones, those
// of another: route says where that one has them worked. They keep their identity, so a repeat that
// is sent to the other source counts as new. What is dead or held stays so; what was parked is
// looked at again. It returns how many it moved, and may be called again after an error.
func (s *Store) MoveSource(ctx context.Context, from, to string,
	route func(queue.Row) (queue.Arrival, error)) (int64, error) {
	if from == to {
		return 0, nil
	}
	n, err := s.eachUnfinished(ctx, rowQuery{Kind: queue.Callback, Source: from},
		func(t *txn, r *row) error { return t.moveSource(r, to, route) })
	if err == nil {
		var unrouted int64
		unrouted, err = s.eachRow(ctx, rowQuery{Kind: queue.Callback, Source: from,
			Phases: []phase{phaseUnrouted}}, func(t *txn, r *row) error {
			t.rename(r, to) // it decides when somebody retries them
			return nil
		})
		n += unrouted
	}
	if err != nil {
		return n, fmt.Errorf("move callbacks of source %s to %s: %w", from, to, err)
	}
	return n, nil
}

// moveSource gives a row another source, and the place that it has there.
func (t *txn) moveSource(r *row, to string,
	route func(queue.Row) (queue.Arrival, error)) error {
	t.rename(r, to)
	as, err := r.public(false)
	if err != nil {
		return err
	}
	a, err := callRoute(as, route)
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
	case a.State == queue.Unrouted || r.Phase == phaseWorking: // its worker ends it
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
func (t *txn) dropWaits(r *row) error {
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

// RerouteSource gives the callbacks of a source that are pending in a lane, for a flow if one is
// named, the place that route gives them, in the order of their acceptance. It returns how many it
// moved, and may be called again after an error.
func (s *Store) RerouteSource(ctx context.Context, source, lane, flow string,
	route func(queue.Row) (queue.Arrival, error)) (int64, error) {
	q := rowQuery{Kind: queue.Callback, Source: source, Lane: lane, Flow: flow,
		NoFlow: flow == "", Phases: []phase{phaseReady, phaseDelayed, phaseInLine}}
	n, err := s.eachRow(ctx, q, func(t *txn, r *row) error {
		return t.moveRow(r, lane, flow, route)
	})
	if err != nil {
		return n, fmt.Errorf("move callbacks of source %s: %w", source, err)
	}
	return n, nil
}

// moveRow takes a waiting row out of its lane and flow. One that has no other place is unrouted;
// one of which nobody can say is a dead letter: it must not keep all others from starting.
func (t *txn) moveRow(r *row, lane, flow string,
	route func(queue.Row) (queue.Arrival, error)) error {
	as, err := r.public(false)
	if err != nil {
		return err
	}
	a, err := callRoute(as, route)
	switch {
	case errors.Is(err, once.ErrState):
		return fmt.Errorf("route callback %s: %w", r.ID, err)
	case err != nil:
		return t.giveUp(r, queue.Settlement{State: queue.Dead, DeadCause: queue.CausePermanent,
			Error: "find its place in the changed configuration: " + err.Error()})
	case a.State == queue.Unrouted:
		return t.giveUp(r, queue.Settlement{State: queue.Unrouted,
			Error: "the configuration has no place for it any more"})
	case a.Lane == lane && a.Flow == flow:
		return fmt.Errorf("route callback %s: it stays in lane %s", r.ID, lane)
	}
	if err := t.leaveLine(r); err != nil {
		return err
	}
	t.place(r, a)
	return t.makeDue(r)
}

// MoveTasks applies what move says of each task in a state that is gone from its flow; move has to
// put it into another one. It returns how many it changed, and may be called again after an error.
func (s *Store) MoveTasks(ctx context.Context, flow, state string,
	move func(queue.View, queue.Task) (queue.Settlement, error)) (int64, error) {
	return s.eachTask(ctx, tasks, bson.D{{Key: "flow", Value: flow}, {Key: "state", Value: state},
		{Key: "gone", Value: bson.D{{Key: "$ne", Value: true}}}}, flow, move)
}

// eachTask applies what change says of the tasks of a flow that a query of a collection names, in
// parts, until it names none. A change has to take its task out of what is asked for. Without one
// they become tombstones.
func (s *Store) eachTask(ctx context.Context, in string, filter bson.D, flow string,
	change func(queue.View, queue.Task) (queue.Settlement, error)) (int64, error) {
	before, all := "", int64(0)
	for {
		found, err := s.find(ctx, in, filter, bson.D{{Key: "_id", Value: 1}}, migratePart,
			bson.D{{Key: "task", Value: 1}})
		if err != nil || len(found) == 0 {
			return all, asUnavailable(err)
		}
		var ids []string
		for _, raw := range found {
			id, _ := raw.Lookup("task").StringValueOK()
			if len(ids) == 0 || ids[len(ids)-1] != id {
				ids = append(ids, id)
			}
		}
		if ids[0] == before {
			return all, fmt.Errorf("task %s: it is as it was", before)
		}
		before = ids[0]
		err = s.do(ctx, false, func(t *txn) error {
			for _, id := range ids {
				one := t.decideTask
				if change == nil {
					one = t.bury
				}
				if err := one(flow, id, change); err != nil {
					return fmt.Errorf("task %s: %w", id, err)
				}
			}
			return nil
		})
		if err != nil {
			return all, err
		}
		all += int64(len(ids))
	}
}

func (t *txn) decideTask(flow, id string,
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

// DiscardFlow makes tombstones of the tasks of a flow that is gone. Of each one that owns
// something, release first says what follows when it gives that up; what is being freed already
// waits for its effects as before. The effects of its tasks go out all the same. It returns the
// number of tasks, and may be called again after an error.
func (s *Store) DiscardFlow(ctx context.Context, flow string,
	release func(queue.View, queue.Task) (queue.Settlement, error)) (int64, error) {
	owners := bson.D{{Key: "flow", Value: flow},
		{Key: "task", Value: bson.D{{Key: "$gt", Value: ""}}},
		{Key: "freeing", Value: bson.D{{Key: "$exists", Value: false}}}}
	if _, err := s.eachTask(ctx, resources, owners, flow, release); err != nil {
		return 0, fmt.Errorf("free resources of flow %s: %w", flow, err)
	}
	n, err := s.eachTask(ctx, tasks, bson.D{{Key: "flow", Value: flow},
		{Key: "gone", Value: bson.D{{Key: "$ne", Value: true}}}}, flow, nil)
	if err != nil {
		return n, fmt.Errorf("discard tasks of flow %s: %w", flow, err)
	}
	return n, nil
}

// bury makes a tombstone of a task.
func (t *txn) bury(flow, id string,
	_ func(queue.View, queue.Task) (queue.Settlement, error)) error {
	d, err := t.tasks.get(pairID(flow, id))
	if err != nil || d == nil || d.Gone {
		return err
	}
	t.tasks.change(d.ID)
	d.Gone, d.Final, d.Fields, d.Taken, d.OverdueAt = true, true, fields{}, fields{}, 0
	d.UpdatedAt, d.SweepAt = t.now, t.now+stamp(d.RetentionMS)
	t.count(counterKey{countTask, d.Flow, d.State}, -1)
	t.size += rowBytes
	return nil
}
