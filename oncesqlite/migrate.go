package oncesqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// DiscardFlow makes tombstones of the tasks of a flow that is gone. Of each one that owns
// something, release first says what follows when it gives that up; what is being freed already
// waits for its effects as before. The effects of its tasks go out all the same. It returns the
// number of tasks, and may be called again after an error.
func (s *Store) DiscardFlow(ctx context.Context, flow string,
	release func(queue.View, queue.Task) (queue.Settlement, error)) (int64, error) {
	const owners = "SELECT DISTINCT task FROM resources WHERE flow = ? AND task <> '' AND " +
		"freeing = 0 LIMIT ?"
	if _, err := s.eachTask(ctx, owners, []any{flow}, flow, release); err != nil {
		return 0, fmt.Errorf("free resources of flow %s: %w", flow, err)
	}
	n, err := s.inParts(ctx, func(t *txn) (int64, error) { return t.buryTasks(flow) })
	if err != nil {
		return n, fmt.Errorf("discard tasks of flow %s: %w", flow, err)
	}
	return n, nil
}

// eachTask applies what change says of the tasks of a flow that a query names, in parts, until it
// names none. The query's last argument is the length of a part. A change has to take its task out
// of what is asked for. It returns how many tasks there were.
func (s *Store) eachTask(ctx context.Context, query string, args []any, flow string,
	change func(queue.View, queue.Task) (queue.Settlement, error)) (int64, error) {
	args = append(args, migratePart)
	before := ""
	return s.inParts(ctx, func(t *txn) (int64, error) {
		var ids []string
		err := t.c.query(query, func(r *stmt) error {
			ids = append(ids, r.text(0))
			return nil
		}, args...)
		if err != nil || len(ids) == 0 {
			return 0, err
		}
		if ids[0] == before {
			return 0, fmt.Errorf("task %s: it is as it was", before)
		}
		before = ids[0]
		for _, id := range ids {
			if err := t.decideTask(flow, id, change); err != nil {
				return 0, fmt.Errorf("task %s: %w", id, err)
			}
		}
		return int64(len(ids)), nil
	})
}

func (t *txn) decideTask(flow, id string,
	change func(queue.View, queue.Task) (queue.Settlement, error)) error {
	set, err := t.decide(func() (queue.Settlement, error) {
		v := t.view()
		task, err := v.Task(flow, id)
		if err != nil {
			return queue.Settlement{}, err
		}
		task.Flow, task.ID = flow, id
		return change(v, task)
	})
	if err != nil {
		return err
	}
	return t.applyChanges(set, nil)
}

// buryTasks makes tombstones of a part of the tasks of a flow.
func (t *txn) buryTasks(flow string) (int64, error) {
	t.forgetTasks()
	counts := map[string]int64{}
	var n int64
	err := t.c.query("UPDATE tasks SET gone = 1, final = 1, fields = NULL, taken = NULL, "+
		"overdue_at = NULL, updated_at = ?1, sweep_at = ?1 + retention WHERE id IN "+
		"(SELECT id FROM tasks WHERE flow = ?2 AND gone = 0 LIMIT ?3) RETURNING state",
		func(r *stmt) error {
			counts[r.text(0)]--
			n++
			return nil
		}, t.now, flow, migratePart)
	for state, by := range counts {
		t.count(counterKey{taskCounts, flow, state}, by)
	}
	return n, err
}

// RerouteSource gives the callbacks of a source that are pending in a lane, for a flow if one is
// named, the place that route gives them, in the order of their acceptance. It returns how many it
// moved, and may be called again after an error.
func (s *Store) RerouteSource(ctx context.Context, source, lane, flow string,
	route func(queue.Row) (queue.Arrival, error)) (int64, error) {
	query := "SELECT seq FROM rows WHERE phase BETWEEN 0 AND 2 AND kind = ?1 AND source = ?2 AND " +
		"lane = (SELECT id FROM lanes WHERE name = ?3) AND flow = ?4 ORDER BY seq"
	args := []any{int64(queue.Callback), source, lane, flow}
	n, err := s.eachRow(ctx, query, args, func(t *txn, row *stored) error {
		return t.moveRow(row, lane, flow, route)
	})
	if err != nil {
		return n, fmt.Errorf("move callbacks of source %s: %w", source, err)
	}
	return n, nil
}

// moveRow takes a waiting row out of its lane and flow. One that has no other place is unrouted;
// one of which nobody can say is a dead letter: it must not keep all others from starting.
func (t *txn) moveRow(row *stored, lane, flow string,
	route func(queue.Row) (queue.Arrival, error)) error {
	a, err := callRoute(row.Row, route)
	switch {
	case errors.Is(err, once.ErrState):
		return fmt.Errorf("route callback %s: %w", row.ID(), err)
	case err != nil:
		return t.giveUp(row, queue.Settlement{State: queue.Dead, DeadCause: queue.CausePermanent,
			Error: "find its place in the changed configuration: " + err.Error()})
	case a.State == queue.Unrouted:
		return t.giveUp(row, queue.Settlement{State: queue.Unrouted,
			Error: "the configuration has no place for it any more"})
	case a.Lane == lane && a.Flow == flow:
		return fmt.Errorf("route callback %s: it stays in lane %s", row.ID(), lane)
	}
	if err := t.leaveLine(row); err != nil {
		return err
	}
	if err := t.place(row, a); err != nil {
		return err
	}
	return t.makeDue(row)
}
