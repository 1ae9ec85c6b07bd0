package oncemongo

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once/queue"
)

// maxSweep bounds what one Sweep removes, so that intake never waits long behind it.
const maxSweep = 256

// Sweep removes bodies that are past KeepBody, rows past their retention, and tasks; and records of
// [Store.Records] past theirs.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	if limit < 1 {
		return 0, fmt.Errorf("sweep: limit %d, want at least 1", limit)
	}
	limit = min(limit, maxSweep)
	n := 0
	err := s.do(ctx, false, func(t *txn) error {
		n = 0
		for _, k := range []queue.Kind{queue.Callback, queue.Effect} {
			rows, err := t.sweepRows(k, limit-n)
			if err != nil {
				return err
			}
			n += rows
		}
		gone, err := t.sweepTasks(limit - n)
		n += gone
		return err
	})
	if err != nil {
		return 0, err
	}
	if n < limit {
		records, err := s.records.Sweep(ctx, limit-n)
		if err != nil {
			return 0, err
		}
		n += records
	}
	return n, nil
}

// sweepRows removes what is due of finished rows. Both times count from the later of the last
// arrival and the end of the work.
func (t *txn) sweepRows(k queue.Kind, limit int) (int, error) {
	if limit < 1 {
		return 0, nil
	}
	rows, err := t.selectRows(rowQuery{Kind: k, SweepBy: t.now, By: "sweep_at"}, limit)
	if err != nil {
		return 0, err
	}
	for _, r := range rows {
		if err := t.sweepRow(r); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}

func (t *txn) sweepRow(r *row) error {
	since := max(r.LastAt, r.FinishedAt, r.ReceivedAt)
	keep, whole := since+stamp(r.KeepBodyMS), since+stamp(r.RetentionMS)
	switch {
	case t.now < keep: // an arrival came since this was planned
		t.change(r)
		r.SweepAt = keep
		return nil
	case t.now < whole:
		return t.dropPayload(r, whole)
	}
	if r.Newest != 0 { // every arrival finds the newest one by it
		newest, err := t.rows.callbacks.get(r.Newest)
		if err != nil {
			return err
		}
		if newest != nil {
			return t.dropPayload(r, t.now+stamp(r.RetentionMS))
		}
	}
	if err := t.eachArrival(r, func(id string) { t.arrivals.removeUnread(id) }); err != nil {
		return err
	}
	t.rows.of(r.kind()).remove(r.Seq)
	t.rows.byIdentity[r.Identity] = nil
	t.onUndo(func() { t.rows.byIdentity[r.Identity] = r })
	t.count(rowCounter(r.kind(), r.Source, r.State), -1)
	return nil
}

// dropPayload removes what a row carries, and says when it is looked at again.
func (t *txn) dropPayload(r *row, again stamp) error {
	t.change(r)
	r.Meta, r.Body, r.SweepAt = nil, nil, again
	if r.Conflicts == 0 {
		return nil
	}
	var ids []string
	if err := t.eachArrival(r, func(id string) { ids = append(ids, id) }); err != nil {
		return err
	}
	for _, id := range ids {
		d, err := t.arrivals.get(id)
		if err != nil {
			return err
		}
		if d != nil && (d.Meta != nil || d.Body != nil) {
			t.arrivals.change(id)
			d.Meta, d.Body = nil, nil
		}
	}
	return nil
}

// eachArrival calls fn with the ids of the arrivals that are kept of a row.
func (t *txn) eachArrival(r *row, fn func(id string)) error {
	if r.Duplicates+r.Conflicts == 0 {
		return nil
	}
	found, err := t.s.find(t.ctx, arrivals, bson.D{{Key: "row", Value: r.Seq}}, nil, 0,
		bson.D{{Key: "_id", Value: 1}})
	if err != nil {
		return err
	}
	for _, raw := range found {
		id, _ := raw.Lookup("_id").StringValueOK()
		if c := t.arrivals.cells[id]; c == nil || !c.touched {
			fn(id)
		}
	}
	for _, id := range t.arrivals.dirty {
		if d := t.arrivals.cells[id].now; d != nil && d.Row == r.Seq {
			fn(id)
		}
	}
	return nil
}

// sweepTasks makes tombstones of finished tasks, and removes tombstones.
func (t *txn) sweepTasks(limit int) (int, error) {
	if limit < 1 {
		return 0, nil
	}
	list, err := t.selectTasks("sweep_at", t.now, limit,
		func(d *taskDoc) stamp { return d.SweepAt })
	if err != nil {
		return 0, err
	}
	for i, d := range list {
		if t.size > batchBytes { // very long histories: the next one goes on
			return i, nil
		}
		if err := t.dropHistory(d); err != nil {
			return 0, err
		}
		if d.Gone {
			t.tasks.remove(d.ID)
			continue
		}
		t.tasks.change(d.ID)
		d.Gone, d.Fields, d.Taken, d.OverdueAt = true, fields{}, fields{}, 0
		d.SweepAt = t.now + stamp(d.RetentionMS)
		t.count(counterKey{countTask, d.Flow, d.State}, -1)
	}
	return len(list), nil
}

// maxDropped bounds the lines of a history that one batch removes. What is left of a longer one is
// removed with the tombstone, or stays behind it, where nobody finds it.
const maxDropped = 5000

func (t *txn) dropHistory(d *taskDoc) error {
	found, err := t.s.find(t.ctx, history, bson.D{{Key: "task", Value: d.N}}, nil, maxDropped,
		bson.D{{Key: "_id", Value: 1}})
	if err != nil {
		return err
	}
	for _, raw := range found {
		id, _ := raw.Lookup("_id").StringValueOK()
		t.history.removeUnread(id)
		t.size += rowBytes / 4
	}
	return nil
}
