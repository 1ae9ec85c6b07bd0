package oncesqlite

import (
	"context"
	"fmt"

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
	err := s.do(ctx, &op{run: func(t *txn) error {
		rows, err := t.sweepRows(limit)
		if err != nil {
			return err
		}
		tasks, err := t.sweepTasks(limit - rows)
		if err != nil {
			return err
		}
		terms, err := t.sweepTerms(limit - rows - tasks)
		if err != nil {
			return err
		}
		records, err := t.sweepRecords(limit - rows - tasks - terms)
		if n = rows + tasks + terms + records; n > 0 {
			s.cfg.Probe(PointSweep)
		}
		return err
	}})
	if err != nil {
		return 0, unavailable(err)
	}
	return n, nil
}

// sweepRows removes what is due of finished rows. Both times count from the later of the last
// arrival and the end of the work.
func (t *txn) sweepRows(limit int) (int, error) {
	var rows []*stored
	err := t.c.query("SELECT "+headColumns+" FROM rows WHERE sweep_at <= ? "+
		"ORDER BY sweep_at LIMIT ?", func(r *stmt) error {
		row, err := scanRow(r, false)
		rows = append(rows, row)
		return err
	}, t.now, limit)
	if err != nil {
		return 0, err
	}
	for _, row := range rows {
		if err := t.sweepRow(row); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}

func (t *txn) sweepRow(row *stored) error {
	since := max(micros(row.LastAt), micros(row.FinishedAt), t.s.notes.lastOf(row.Seq))
	switch {
	case t.now < since+row.keepBody: // an arrival came since this was planned
		return t.sweepLater(row.Seq, since+row.keepBody)
	case t.now < since+row.retention:
		return t.dropPayload(row.Seq, since+row.retention)
	}
	if kept, err := t.keepFirst(row); kept || err != nil {
		return err
	}
	for _, table := range []string{"rows", "receipts", "attempts"} {
		if err := t.c.exec("DELETE FROM "+table+" WHERE seq = ?", row.Seq); err != nil {
			return err
		}
	}
	if err := t.dropPlace(row.Identity, row.Seq); err != nil {
		return err
	}
	if row.Seq == t.s.nextSeq-1 { // the numbers of swept rows are not used again
		if err := t.setMeta(metaSeq, row.Seq); err != nil {
			return err
		}
	}
	t.count(rowCounter(row.Kind, row.Source, row.State), -1)
	t.forget(row.Identity)
	return t.setMeta(metaClock, t.now)
}

// sweepTasks makes tombstones of finished tasks, and removes tombstones.
func (t *txn) sweepTasks(limit int) (int, error) {
	if limit < 1 {
		return 0, nil
	}
	type old struct {
		id, retention int64
		gone          bool
		flow, state   string
	}
	var tasks []old
	err := t.c.query("SELECT id, retention, gone, flow, state FROM tasks WHERE sweep_at <= ? "+
		"ORDER BY sweep_at LIMIT ?", func(r *stmt) error {
		tasks = append(tasks, old{r.int(0), r.int(1), r.int(2) != 0, r.text(3), r.text(4)})
		return nil
	}, t.now, limit)
	if err != nil {
		return 0, err
	}
	if len(tasks) > 0 {
		t.forgetTasks()
	}
	for _, k := range tasks {
		if err := t.c.exec("DELETE FROM history WHERE id = ?", k.id); err != nil {
			return 0, err
		}
		if k.gone {
			err = t.c.exec("DELETE FROM tasks WHERE id = ?", k.id)
		} else {
			err = t.c.exec("UPDATE tasks SET gone = 1, fields = NULL, taken = NULL, sweep_at = ? "+
				"WHERE id = ?", t.now+k.retention, k.id)
			t.count(counterKey{taskCounts, k.flow, k.state}, -1)
		}
		if err != nil {
			return 0, err
		}
	}
	return len(tasks), nil
}

// Reject keeps a refused message in the ring of its source.
func (s *Store) Reject(ctx context.Context, r queue.Rejected) error {
	err := s.do(ctx, &op{run: func(t *txn) error {
		err := t.c.exec("INSERT INTO rejected "+
			"(source, at, outcome, reason, peer, meta, body, size) "+
			"VALUES (?, ?, ?, ?, ?, ?, ?, ?)", r.Source, t.now, string(r.Outcome), r.Reason, r.Peer,
			r.Meta, r.Body, r.Size)
		if err != nil {
			return err
		}
		// Strangers have a ring of their own: theirs must not push out what a sender was told of.
		const same = "source = ?1 AND (outcome = 'unauthorized') = ?3"
		return t.c.exec("DELETE FROM rejected WHERE "+same+" AND id <= (SELECT id FROM rejected "+
			"WHERE "+same+" ORDER BY id DESC LIMIT 1 OFFSET ?2)", r.Source,
			s.cfg.RejectedPerSource, r.Outcome == queue.Unauthorized)
	}})
	if err != nil {
		return unavailable(err)
	}
	return nil
}
