package oncemongo

import (
	"context"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// planID is the document of meta that holds what the configuration named.
const planID = "plan"

// Plan returns what was saved by SavePlan; nil if nothing was.
func (s *Store) Plan(ctx context.Context) ([]byte, error) {
	found, err := s.find(ctx, meta, bson.D{{Key: "_id", Value: planID}}, nil, 1, nil)
	if err != nil || len(found) == 0 {
		return nil, asUnavailable(err)
	}
	text, ok := found[0].Lookup("plan").StringValueOK()
	if !ok {
		return nil, fmt.Errorf("read the plan: %w", once.ErrCorrupt)
	}
	return []byte(text), nil
}

// SavePlan keeps what the configuration names, to be compared with the next one.
func (s *Store) SavePlan(ctx context.Context, plan []byte) error {
	_, err := collection(s.db, meta).UpdateOne(ctx, bson.D{{Key: "_id", Value: planID}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "plan", Value: string(plan)}}}},
		options.UpdateOne().SetUpsert(true))
	return asUnavailable(fault(err))
}

// EventInUse reports whether a callback that is not finished carries the event.
func (s *Store) EventInUse(ctx context.Context, flow, event string) (bool, error) {
	found, err := s.find(ctx, callbacks, bson.D{{Key: "flow", Value: flow},
		{Key: "event", Value: event},
		{Key: "phase", Value: bson.D{{Key: "$in", Value: unfinished}}}}, nil, 1,
		bson.D{{Key: "_id", Value: 1}})
	return len(found) > 0, asUnavailable(err)
}

// Ping reports whether the store can be written: nil, or an error wrapping once.ErrUnavailable.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.sign(ctx); err != nil {
		return fmt.Errorf("write to the store: %w", asUnavailable(err))
	}
	return nil
}

// Records are the records that are kept in the same database, for a guard or the gateway.
func (s *Store) Records() *Records { return s.records }

// RecordCounts counts the records by their state. A record whose lease has ended counts as it was
// written.
func (s *Store) RecordCounts(ctx context.Context) (map[once.RecordState]int64, error) {
	out := map[once.RecordState]int64{}
	for state, is := range map[string]once.RecordState{stateInFlight: once.InFlight,
		stateCompleted: once.Completed, stateReleased: once.Released, stateUnknown: once.Lost} {
		n, err := s.records.c.CountDocuments(ctx, bson.D{{Key: "state", Value: state}})
		if err != nil {
			return nil, asUnavailable(fault(err))
		}
		if n > 0 {
			out[is] = n
		}
	}
	return out, nil
}

// migratePart bounds the rows or tasks that one batch of a migration changes.
const migratePart = 200

// rowsWhere returns the numbers of rows that a query selects, in order. They are looked for once: a
// search for each part would grow with the square of a backlog.
func (s *Store) rowsWhere(ctx context.Context, q rowQuery) ([]int64, error) {
	found, err := s.find(ctx, rowsOf(q.Kind), q.filter(), bson.D{{Key: "_id", Value: 1}}, 0,
		bson.D{{Key: "_id", Value: 1}})
	if err != nil {
		return nil, asUnavailable(err)
	}
	out := make([]int64, 0, len(found))
	for _, raw := range found {
		seq, ok := raw.Lookup("_id").Int64OK()
		if !ok {
			return nil, errDamaged
		}
		out = append(out, seq)
	}
	return out, nil
}

// eachRow runs fn on the rows that a query selects, in parts. A row is read when it has its turn:
// what was done to the one before may have changed it. It returns how many had theirs.
func (s *Store) eachRow(ctx context.Context, q rowQuery, fn func(*txn, *row) error) (int64, error) {
	seqs, err := s.rowsWhere(ctx, q)
	if err != nil {
		return 0, err
	}
	n := int64(0)
	for part := range slices.Chunk(seqs, migratePart) {
		done := int64(0)
		err := s.do(ctx, false, func(t *txn) error {
			done = 0
			if err := t.rows.of(q.Kind).load(part); err != nil {
				return err
			}
			for _, seq := range part {
				r, err := t.row(seq)
				if err != nil {
					return err
				}
				if !q.match(r) { // another node was faster
					continue
				}
				r.tried = false
				if err := fn(t, r); err != nil {
					return err
				}
				done++
			}
			return nil
		})
		if err != nil {
			return n, err
		}
		n += done
	}
	return n, nil
}

// eachUnfinished runs fn on unfinished rows in parts.
func (s *Store) eachUnfinished(ctx context.Context, q rowQuery,
	fn func(*txn, *row) error) (int64, error) {
	q.Phases = unfinished
	return s.eachRow(ctx, q, fn)
}

// RenameEvent gives unfinished callbacks of an event that is gone from the flow another one.
func (s *Store) RenameEvent(ctx context.Context, flow, from, to string) (int64, error) {
	if from == to {
		return 0, nil
	}
	return s.eachUnfinished(ctx, rowQuery{Kind: queue.Callback, Flow: flow, Event: from},
		func(t *txn, r *row) error {
			t.change(r)
			r.Event = to
			return nil
		})
}

// DiscardEvent gives up the unfinished callbacks of an event that is gone from the flow.
func (s *Store) DiscardEvent(ctx context.Context, flow, event, reason string) (int64, error) {
	return s.eachUnfinished(ctx, rowQuery{Kind: queue.Callback, Flow: flow, Event: event},
		discardFor(reason, nil))
}

// RenameDestination sends the unfinished effects of a destination that is gone to another one.
func (s *Store) RenameDestination(ctx context.Context, from, to, lane string) (int64, error) {
	if from == to {
		return 0, nil
	}
	return s.eachUnfinished(ctx, rowQuery{Kind: queue.Effect, Source: from},
		func(t *txn, r *row) error { return t.moveEffect(r, to, lane) })
}

func (t *txn) moveEffect(r *row, to, lane string) error {
	if err := t.leaveLine(r); err != nil {
		return err
	}
	t.intoLane(lane, r.kind())
	t.change(r)
	if r.Phase == phaseWorking { // its lease goes with it
		suspect := r.Lost > 0
		t.moveWorking(r.Lane, lane, suspect)
	}
	t.rename(r, to)
	r.Lane = lane
	if r.Phase == phaseDelayed || r.Phase == phaseInLine {
		r.setPhase(phaseReady)
	}
	if r.NextAt = 0; r.Blocks { // it blocks its key there, too
		t.enterLine(r)
	}
	t.ring(lane)
	return nil
}

// moveWorking counts a row in somebody's hands for another lane.
func (t *txn) moveWorking(from, to string, suspect bool) {
	by := func(name string, n int64) {
		t.setLane(name, func(l *laneState) {
			if l.Working += n; suspect {
				l.Suspects += n
			}
		})
	}
	by(from, -1)
	by(to, 1)
}

// rename gives a row another source or destination.
func (t *txn) rename(r *row, to string) {
	t.count(rowCounter(r.kind(), r.Source, r.State), -1)
	t.count(rowCounter(r.kind(), to, r.State), 1)
	t.change(r)
	r.Source = to
}

// DiscardDestination gives up the unfinished effects of a destination that is gone. then adds what
// follows from the end of each, as Settlement.Then does.
func (s *Store) DiscardDestination(ctx context.Context, destination, reason string,
	then func(queue.View, queue.Row) queue.Settlement) (int64, error) {
	return s.eachUnfinished(ctx, rowQuery{Kind: queue.Effect, Source: destination},
		discardFor(reason, then))
}

func discardFor(why string, then func(queue.View, queue.Row) queue.Settlement,
) func(*txn, *row) error {
	return func(t *txn, r *row) error {
		return t.giveUp(r, queue.Settlement{State: queue.Discarded, Error: why, Then: then})
	}
}
