package oncesqlite

import (
	"context"
	"slices"

	"github.com/oncekit/once/queue"
)

// Plan returns what was saved by SavePlan; nil if nothing was.
func (s *Store) Plan(ctx context.Context) ([]byte, error) {
	var plan []byte
	err := s.read(ctx, func(c *conn) error {
		_, err := c.one("SELECT value FROM meta WHERE name = ?", func(r *stmt) { plan = r.blob(0) },
			metaPlan)
		return err
	})
	return plan, err
}

// SavePlan keeps what the configuration names, to be compared with the next one.
func (s *Store) SavePlan(ctx context.Context, plan []byte) error {
	return s.do(ctx, &op{run: func(t *txn) error { return t.setMeta(metaPlan, plan) }})
}

// EventInUse reports whether a callback that is not finished carries the event. It looks at what is
// not finished, so it is asked only about events that are gone from the configuration.
func (s *Store) EventInUse(ctx context.Context, flow, event string) (bool, error) {
	inUse := false
	err := s.read(ctx, func(c *conn) error {
		n, err := c.int("SELECT 1 FROM rows WHERE phase BETWEEN 0 AND 6 AND kind = 1 AND flow = ? "+
			"AND event = ? LIMIT 1", flow, event)
		inUse = n == 1
		return err
	})
	return inUse, err
}

// migratePart bounds the rows or tasks that one transaction of a migration changes.
const migratePart = 500

// MoveTasks applies what move says of each task in a state that is gone from its flow; move has to
// put it into another one. Like all that carries out a migration, it returns how many it changed,
// and may be called again after an error.
func (s *Store) MoveTasks(ctx context.Context, flow, state string,
	move func(queue.View, queue.Task) (queue.Settlement, error)) (int64, error) {
	return s.eachTask(ctx, "SELECT task FROM tasks WHERE flow = ? AND state = ? AND gone = 0 "+
		"LIMIT ?", []any{flow, state}, flow, move)
}

// RenameEvent gives unfinished callbacks of an event that is gone from the flow another one.
func (s *Store) RenameEvent(ctx context.Context, flow, from, to string) (int64, error) {
	if from == to {
		return 0, nil
	}
	return s.eachUnfinished(ctx, queue.Callback, "flow = ? AND event = ?", []any{flow, from},
		func(t *txn, row *stored) error {
			err := t.c.exec("UPDATE rows SET event = ? WHERE seq = ?", to, row.Seq)
			if err != nil {
				return err
			}
			row.Event = to
			return t.indexAgain(row)
		})
}

// RenameDestination sends the unfinished effects of a destination that is gone to another one.
func (s *Store) RenameDestination(ctx context.Context, from, to, lane string) (int64, error) {
	if from == to {
		return 0, nil
	}
	return s.eachUnfinished(ctx, queue.Effect, "source = ?", []any{from},
		func(t *txn, row *stored) error {
			id, err := t.laneFor(lane, row.Kind)
			if err != nil {
				return err
			}
			if err := t.leaveLine(row); err != nil {
				return err
			}
			row.lane = id
			if row.flags&flagBlock != 0 { // it blocks its key there, too
				if err := t.enterLine(row); err != nil {
					return err
				}
			}
			t.ring(id)
			t.count(rowCounter(row.Kind, from, row.State), -1)
			t.count(rowCounter(row.Kind, to, row.State), 1)
			err = t.c.exec("UPDATE rows SET source = ?, lane = ?, flags = ?, phase = "+
				"CASE WHEN phase IN (1, 2) THEN 0 ELSE phase END, next_at = NULL WHERE seq = ?",
				to, id, row.flags, row.Seq)
			if err != nil {
				return err
			}
			row.Source = to
			return t.indexAgain(row)
		})
}

// DiscardEvent gives up the unfinished callbacks of an event that is gone from the flow.
func (s *Store) DiscardEvent(ctx context.Context, flow, event, reason string) (int64, error) {
	return s.eachUnfinished(ctx, queue.Callback, "flow = ? AND event = ?", []any{flow, event},
		discardFor(reason, nil))
}

// DiscardDestination gives up the unfinished effects of a destination that is gone. then adds what
// follows from the end of each, as Settlement.Then does.
func (s *Store) DiscardDestination(ctx context.Context, destination, reason string,
	then func(queue.View, queue.Row) queue.Settlement) (int64, error) {
	return s.eachUnfinished(ctx, queue.Effect, "source = ?", []any{destination},
		discardFor(reason, then))
}

func discardFor(reason string, then func(queue.View, queue.Row) queue.Settlement,
) func(*txn, *stored) error {
	return func(t *txn, row *stored) error {
		set := queue.Settlement{State: queue.Discarded, Error: reason, Then: then}
		return t.giveUp(row, set)
	}
}

// eachUnfinished runs fn on unfinished rows in parts, until none is left.
func (s *Store) eachUnfinished(ctx context.Context, k queue.Kind, where string, args []any,
	fn func(*txn, *stored) error) (int64, error) {
	query := "SELECT seq FROM rows WHERE phase BETWEEN 0 AND 6 AND kind = ? AND " + where +
		" ORDER BY seq"
	return s.eachRow(ctx, query, append([]any{int64(k)}, args...), fn)
}

// eachRow runs fn on the rows that a query numbers, in parts. They are looked for once: a search
// for each part would grow with the square of a backlog. A row is read when it has its turn: what
// was done to the one before may have changed it. It returns how many had theirs.
func (s *Store) eachRow(ctx context.Context, query string, args []any,
	fn func(*txn, *stored) error) (int64, error) {
	var seqs []int64
	err := s.read(ctx, func(c *conn) error {
		return c.query(query, func(r *stmt) error {
			seqs = append(seqs, r.int(0))
			return nil
		}, args...)
	})
	if err != nil {
		return 0, err
	}
	n := int64(0)
	for part := range slices.Chunk(seqs, migratePart) {
		err := s.do(ctx, &op{run: func(t *txn) error {
			for _, seq := range part {
				row, err := t.rowBy(bySeq, seq)
				if err != nil {
					return err
				}
				if err := fn(t, row); err != nil {
					return err
				}
			}
			return nil
		}})
		if err != nil {
			return n, err
		}
		n += int64(len(part))
	}
	return n, nil
}

// inParts runs fn in one transaction after another until it changed nothing. It returns the sum of
// what fn returned.
func (s *Store) inParts(ctx context.Context, fn func(*txn) (int64, error)) (int64, error) {
	all := int64(0)
	for n := int64(1); n > 0; all += n {
		err := s.do(ctx, &op{run: func(t *txn) (err error) {
			n, err = fn(t)
			return err
		}})
		if err != nil {
			return all, err
		}
	}
	return all, nil
}
