package turn

// maxSweep bounds what one Sweep removes, so that others never wait long behind it.
const maxSweep = 256

// Sweep removes bodies that are past KeepBody, rows past their retention, and tasks. It returns how
// many it removed; no more than 256.
func (t *Batch) Sweep(limit int) (int, error) {
	limit = min(limit, maxSweep)
	n, err := t.sweepRows(limit)
	if err != nil || n == limit {
		return n, err
	}
	gone, err := t.sweepTasks(limit - n)
	return n + gone, err
}

// sweepRows removes what is due of finished rows. Both times count from the later of the last
// arrival and the end of the work.
func (t *Batch) sweepRows(limit int) (int, error) {
	rows, err := t.selectRows(RowQuery{SweepBy: t.now, By: BySweepAt}, limit)
	if err != nil {
		return 0, err
	}
	for i, r := range rows {
		if t.Full() {
			return i, nil
		}
		if err := t.sweepRow(r); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}

func (t *Batch) sweepRow(r *Row) error {
	since := max(r.LastAt, r.FinishedAt, r.ReceivedAt)
	keep, whole := since+Stamp(r.KeepBodyMS), since+Stamp(r.RetentionMS)
	switch {
	case t.now < keep: // an arrival came since this was planned
		t.change(r)
		r.SweepAt = keep
		return nil
	case t.now < whole:
		return t.dropPayload(r, whole)
	}
	if r.Newest != 0 { // every arrival finds the newest one by it
		newest, err := t.Rows.get(r.Newest)
		if err != nil {
			return err
		}
		if newest != nil {
			return t.dropPayload(r, t.now+Stamp(r.RetentionMS))
		}
	}
	list, err := t.arrivalsOf(r)
	if err != nil {
		return err
	}
	for _, d := range list {
		t.Arrivals.remove(d.key())
	}
	t.Rows.remove(r.Seq)
	key := identityKey{r.Kind(), r.Identity}
	t.byIdentity[key] = nil
	t.onUndo(func() { t.byIdentity[key] = r })
	t.count(RowCounter(r.Kind(), r.Source, r.State), -1)
	return nil
}

// dropPayload removes what a row carries, and says when it is looked at again.
func (t *Batch) dropPayload(r *Row, again Stamp) error {
	t.change(r)
	r.Meta, r.Body, r.SweepAt = nil, nil, again
	if r.Conflicts == 0 {
		return nil
	}
	list, err := t.arrivalsOf(r)
	if err != nil {
		return err
	}
	for _, d := range list {
		if d.Meta != nil || d.Body != nil {
			t.Arrivals.change(d.key())
			d.Meta, d.Body = nil, nil
		}
	}
	return nil
}

// arrivalsOf returns the arrivals that are kept of a row.
func (t *Batch) arrivalsOf(r *Row) ([]*Arrival, error) {
	if r.Duplicates+r.Conflicts == 0 {
		return nil, nil
	}
	stored, err := t.stored.ArrivalsOf(r.Seq, false)
	if err != nil {
		return nil, err
	}
	return t.Arrivals.merge(stored, func(d *Arrival) bool { return d.Row == r.Seq }), nil
}

// sweepTasks makes tombstones of finished tasks, and removes tombstones.
func (t *Batch) sweepTasks(limit int) (int, error) {
	list, err := t.selectTasks(BySweep, t.now, limit)
	if err != nil {
		return 0, err
	}
	for i, d := range list {
		if t.Full() { // very long histories: the next one goes on
			return i, nil
		}
		if err := t.dropHistory(d); err != nil {
			return 0, err
		}
		if d.Gone {
			t.Tasks.remove(d.key())
			continue
		}
		t.Tasks.change(d.key())
		d.Gone, d.Fields, d.Taken, d.OverdueAt = true, nil, nil, 0
		d.SweepAt = t.now + Stamp(d.RetentionMS)
		t.count(CounterKey{CountTasks, d.Flow, d.State}, -1)
	}
	return len(list), nil
}

// maxDropped bounds the lines of a history that one batch removes. What is left of a longer one is
// removed with the tombstone, or stays behind it, where nobody finds it.
const maxDropped = 5000

func (t *Batch) dropHistory(d *Task) error {
	found, err := t.stored.HistoryOf(d.N, maxDropped)
	if err != nil {
		return err
	}
	for _, key := range found {
		t.History.removeUnread(key)
		t.size += rowBytes / 4
	}
	return nil
}
