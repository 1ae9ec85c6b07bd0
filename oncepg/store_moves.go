package oncepg

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/turn"
	"github.com/oncekit/once/queue"
)

// What a changed configuration makes of rows and tasks.

// migratePart bounds the rows or tasks that one batch of a migration changes.
const migratePart = 200

// Plan returns what was saved by SavePlan; nil if nothing was.
func (s *Store) Plan(ctx context.Context) (plan []byte, err error) {
	err = s.pool.QueryRow(ctx, s.sql.at("SELECT plan FROM @queue_plan")).Scan(&plan)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return plan, away(err)
}

// SavePlan keeps what the configuration names, to be compared with the next one.
func (s *Store) SavePlan(ctx context.Context, plan []byte) error {
	_, err := s.pool.Exec(ctx, s.sql.at(`INSERT INTO @queue_plan (plan) VALUES ($1)
		ON CONFLICT (one) DO UPDATE SET plan = excluded.plan`), plan)
	return away(err)
}

// eachRow runs fn on the rows that a query selects, in parts. A row is read when it has its turn:
// what was done to the one before may have changed it. It returns how many had theirs. They are
// looked for once: a search for each part would grow with the square of a backlog.
func (s *Store) eachRow(ctx context.Context, q turn.RowQuery, fn func(*turn.Batch, *turn.Row) error,
) (int64, error) {
	f := queryFilter(&q)
	rows, err := s.pool.Query(ctx, s.sql.at("SELECT r.seq FROM @queue_rows r WHERE "+f.where()+
		" ORDER BY r.seq"), planned(f.args)...)
	if err != nil {
		return 0, away(err)
	}
	seqs, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return 0, away(err)
	}
	n := int64(0)
	for part := range slices.Chunk(seqs, migratePart) {
		done := int64(0)
		err := s.do(ctx, false, func(t *turn.Batch) (err error) {
			done, err = t.Each(&q, part, fn)
			return err
		})
		if err != nil {
			return n, err
		}
		n += done
	}
	return n, nil
}

func (s *Store) eachUnfinished(ctx context.Context, q turn.RowQuery,
	fn func(*turn.Batch, *turn.Row) error) (int64, error) {
	q.Phases = turn.Unfinished
	return s.eachRow(ctx, q, fn)
}

// RenameEvent gives unfinished callbacks of an event that is gone from the flow another one.
func (s *Store) RenameEvent(ctx context.Context, flow, from, to string) (int64, error) {
	if from == to {
		return 0, nil
	}
	return s.eachUnfinished(ctx, turn.RowQuery{Kind: queue.Callback, Flow: flow, Event: from},
		func(t *turn.Batch, r *turn.Row) error {
			t.Rename(r, to)
			return nil
		})
}

// DiscardEvent gives up the unfinished callbacks of an event that is gone from the flow.
func (s *Store) DiscardEvent(ctx context.Context, flow, event, reason string) (int64, error) {
	return s.eachUnfinished(ctx, turn.RowQuery{Kind: queue.Callback, Flow: flow, Event: event},
		turn.DiscardFor(reason, nil))
}

// RenameDestination sends the unfinished effects of a destination that is gone to another one.
func (s *Store) RenameDestination(ctx context.Context, from, to, lane string) (int64, error) {
	if from == to {
		return 0, nil
	}
	return s.eachUnfinished(ctx, turn.RowQuery{Kind: queue.Effect, Source: from},
		func(t *turn.Batch, r *turn.Row) error { return t.MoveEffect(r, to, lane) })
}

// DiscardDestination gives up the unfinished effects of a destination that is gone. then adds what
// follows from the end of each, as Settlement.Then does.
func (s *Store) DiscardDestination(ctx context.Context, destination, reason string,
	then func(queue.View, queue.Row) queue.Settlement) (int64, error) {
	return s.eachUnfinished(ctx, turn.RowQuery{Kind: queue.Effect, Source: destination},
		turn.DiscardFor(reason, then))
}

// DiscardSource gives up the unfinished callbacks of a source that is gone. What is remembered of
// the others stays until the end of its retention. It returns how many it gave up, and may be
// called again after an error.
func (s *Store) DiscardSource(ctx context.Context, source, reason string) (int64, error) {
	n, err := s.eachUnfinished(ctx, turn.RowQuery{Kind: queue.Callback, Source: source},
		turn.DiscardFor(reason, nil))
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
	n, err := s.eachUnfinished(ctx, turn.RowQuery{Kind: queue.Callback, Source: from},
		func(t *turn.Batch, r *turn.Row) error { return t.MoveSource(r, to, route) })
	if err == nil {
		var unrouted int64
		unrouted, err = s.eachRow(ctx, turn.RowQuery{Kind: queue.Callback, Source: from,
			Phases: []turn.Phase{turn.Unrouted}}, func(t *turn.Batch, r *turn.Row) error {
			t.SetSource(r, to) // it decides when somebody retries them
			return nil
		})
		n += unrouted
	}
	if err != nil {
		return n, fmt.Errorf("move callbacks of source %s to %s: %w", from, to, err)
	}
	return n, nil
}

// RerouteSource gives the callbacks of a source that are pending in a lane, for a flow if one is
// named, the place that route gives them, in the order of their acceptance. It returns how many it
// moved, and may be called again after an error.
func (s *Store) RerouteSource(ctx context.Context, source, lane, flow string,
	route func(queue.Row) (queue.Arrival, error)) (int64, error) {
	q := turn.RowQuery{Kind: queue.Callback, Source: source, Lane: lane, Flow: flow,
		NoFlow: flow == "", Phases: []turn.Phase{turn.Ready, turn.Delayed, turn.InLine}}
	n, err := s.eachRow(ctx, q, func(t *turn.Batch, r *turn.Row) error {
		return t.Reroute(r, lane, flow, route)
	})
	if err != nil {
		return n, fmt.Errorf("move callbacks of source %s: %w", source, err)
	}
	return n, nil
}

// MoveTasks applies what move says of each task in a state that is gone from its flow; move has to
// put it into another one. It returns how many it changed, and may be called again after an error.
func (s *Store) MoveTasks(ctx context.Context, flow, state string,
	move func(queue.View, queue.Task) (queue.Settlement, error)) (int64, error) {
	return s.eachTask(ctx, "SELECT task FROM @tasks WHERE flow = $1 AND state = $2 AND NOT gone "+
		"ORDER BY n", []any{recordText(flow), recordText(state)}, flow, move)
}

// eachTask applies what change says of the tasks of a flow that a query names, in parts, until it
// names none. A change has to take its task out of what is asked for. Without one they become
// tombstones.
func (s *Store) eachTask(ctx context.Context, text string, args []any, flow string,
	change func(queue.View, queue.Task) (queue.Settlement, error)) (int64, error) {
	before, all := "", int64(0)
	for {
		rows, err := s.pool.Query(ctx, s.sql.at(fmt.Sprintf("%s LIMIT %d", text, migratePart)),
			args...)
		if err != nil {
			return all, away(err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(ids) == 0 {
			return all, away(err)
		}
		plainTexts(ids)
		slices.Sort(ids)
		ids = slices.Compact(ids)
		if ids[0] == before {
			return all, fmt.Errorf("task %s: it is as it was", before)
		}
		before = ids[0]
		err = s.do(ctx, false, func(t *turn.Batch) error {
			for _, id := range ids {
				err := error(nil)
				if change == nil {
					err = t.Bury(flow, id)
				} else {
					err = t.DecideTask(flow, id, change)
				}
				if err != nil {
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

// DiscardFlow makes tombstones of the tasks of a flow that is gone. Of each one that owns
// something, release first says what follows when it gives that up; what is being freed already
// waits for its effects as before. The effects of its tasks go out all the same. It returns the
// number of tasks, and may be called again after an error.
func (s *Store) DiscardFlow(ctx context.Context, flow string,
	release func(queue.View, queue.Task) (queue.Settlement, error)) (int64, error) {
	args := []any{recordText(flow)}
	_, err := s.eachTask(ctx, "SELECT task FROM @resources WHERE flow = $1 AND task <> '' "+
		"AND freeing = 0 ORDER BY task", args, flow, release)
	if err != nil {
		return 0, fmt.Errorf("free resources of flow %s: %w", flow, err)
	}
	n, err := s.eachTask(ctx, "SELECT task FROM @tasks WHERE flow = $1 AND NOT gone ORDER BY n",
		args, flow, nil)
	if err != nil {
		return n, fmt.Errorf("discard tasks of flow %s: %w", flow, err)
	}
	return n, nil
}

// RecordCounts counts the records by their state. A record whose lease has ended counts as it was
// written.
func (s *Store) RecordCounts(ctx context.Context) (map[once.RecordState]int64, error) {
	rows, err := s.pool.Query(ctx, s.sql.at("SELECT state, count(*) FROM @records GROUP BY state"))
	if err != nil {
		return nil, away(err)
	}
	out := map[once.RecordState]int64{}
	var state string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&state, &n}, func() error {
		out[map[string]once.RecordState{"in_flight": once.InFlight, "completed": once.Completed,
			"released": once.Released, "unknown": once.Lost}[state]] = n
		return nil
	})
	return out, away(err)
}
