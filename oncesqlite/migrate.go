package oncesqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// DiscardFlow makes tombstones of the tasks of a flow that is gone, and frees at once what they
// own. Their effects go out all the same. It returns the number of tasks, and may be called again
// after an error.
func (s *Store) DiscardFlow(ctx context.Context, flow string) (int64, error) {
	_, err := s.inParts(ctx, func(t *txn) (int64, error) { return t.freeOwned(flow) })
	if err != nil {
		return 0, fmt.Errorf("free resources of flow %s: %w", flow, err)
	}
	n, err := s.inParts(ctx, func(t *txn) (int64, error) { return t.buryTasks(flow) })
	if err != nil {
		return n, fmt.Errorf("discard tasks of flow %s: %w", flow, err)
	}
	return n, nil
}

// freeOwned frees a part of what the tasks of a flow own, and wakes who waits for it.
func (t *txn) freeOwned(flow string) (int64, error) {
	var owned []string
	err := t.c.query("SELECT kind, name FROM resources WHERE flow = ? AND task <> '' LIMIT ?",
		func(r *stmt) error {
			owned = append(owned, r.text(0), r.text(1))
			return nil
		}, flow, migratePart)
	if err != nil {
		return 0, err
	}
	for i := 0; i < len(owned); i += 2 {
		kind, name := owned[i], owned[i+1]
		err := t.c.exec("UPDATE resources SET flow = '', task = '', freeing = 0, since_at = ?, "+
			"version = version + 1 WHERE kind = ? AND name = ?", t.now, kind, name)
		if err != nil {
			return 0, err
		}
		w := queue.Wake{Wait: queue.WaitResource(kind, name), First: true}
		if err := t.wake(w, nil); err != nil {
			return 0, err
		}
	}
	return int64(len(owned)), nil
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

// RerouteSource gives the callbacks of a source that are pending in a lane of handlers which nobody
// works any more the place that route gives them, in the order of their acceptance. It returns how
// many it moved, and may be called again after an error.
func (s *Store) RerouteSource(ctx context.Context, source, lane string,
	route func(queue.Row) (queue.Arrival, error)) (int64, error) {
	query := "SELECT seq FROM rows WHERE phase BETWEEN 0 AND 2 AND kind = ? AND " +
		"source = ? AND lane = (SELECT id FROM lanes WHERE name = ?) ORDER BY seq"
	args := []any{int64(queue.Callback), source, lane}
	n, err := s.eachRow(ctx, query, args, func(t *txn, row *stored) error {
		return t.moveLane(row, lane, route)
	})
	if err != nil {
		return n, fmt.Errorf("move callbacks of source %s: %w", source, err)
	}
	return n, nil
}

// moveLane takes a waiting row out of its lane. One that has no other place is unrouted; one of
// which nobody can say is a dead letter: it must not keep all others from starting.
func (t *txn) moveLane(row *stored, from string,
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
	case a.Lane == from:
		return fmt.Errorf("route callback %s: it stays in lane %s", row.ID(), from)
	}
	if err := t.leaveLine(row); err != nil {
		return err
	}
	if err := t.place(row, a); err != nil {
		return err
	}
	return t.makeDue(row)
}
