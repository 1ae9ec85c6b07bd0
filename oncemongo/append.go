package oncemongo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// maxRowBytes bounds what a row carries: a document holds 16 MB, and so does the journal in which
// it stands at first.
const maxRowBytes = 12 << 20

// Append stores arrivals.
func (s *Store) Append(ctx context.Context, list []queue.Arrival) ([]queue.Receipt, error) {
	if err := checkArrivals(list); err != nil {
		return nil, fmt.Errorf("append: %w", err)
	}
	if len(list) == 0 {
		return nil, nil
	}
	var receipts []queue.Receipt
	err := s.do(ctx, true, func(t *txn) error {
		out := make([]queue.Receipt, len(list)) // the caller may have left
		if err := t.prefetchArrivals(list); err != nil {
			return err
		}
		for i := range list {
			r, err := t.receive(&list[i])
			if err != nil {
				return err
			}
			out[i] = r
		}
		t.durable = append(t.durable, func() { receipts = out })
		return nil
	})
	if err != nil {
		return nil, err
	}
	return receipts, nil
}

func checkArrivals(list []queue.Arrival) error {
	for i := range list {
		a := &list[i]
		switch {
		case a.Identity.IsZero():
			return errors.New("an arrival has no identity")
		case a.Retention <= 0:
			return fmt.Errorf("arrival of source %q has no retention", a.Source)
		case a.Kind != queue.Callback && a.Kind != queue.Effect:
			return fmt.Errorf("arrival of source %q has no kind", a.Source)
		case a.State != queue.Pending && a.State != queue.Unrouted:
			return fmt.Errorf("an arrival can't be stored as %q", a.State)
		case len(a.Body)+len(a.Meta) > maxRowBytes:
			return fmt.Errorf("arrival of source %q has %d bytes, at most %d: %w", a.Source,
				len(a.Body)+len(a.Meta), maxRowBytes, once.ErrTooLarge)
		}
	}
	return nil
}

// prefetchArrivals reads the rows that arrivals may be repeats of.
func (t *txn) prefetchArrivals(list []queue.Arrival) error {
	for _, k := range []queue.Kind{queue.Callback, queue.Effect} {
		var ids []once.Identity
		for i := range list {
			if list[i].Kind == k {
				ids = append(ids, list[i].Identity)
			}
		}
		if err := t.prefetch(k, ids); err != nil {
			return err
		}
	}
	return nil
}

// receive stores a callback, or compares it with the one that is there.
func (t *txn) receive(a *queue.Arrival) (queue.Receipt, error) {
	r, fresh, err := t.insert(a, 0)
	if err != nil {
		return queue.Receipt{}, err
	}
	if fresh {
		return queue.Receipt{Outcome: queue.Accepted, Seq: r.Seq, State: a.State}, nil
	}
	return t.repeat(a, r)
}

// insert stores a new row, or returns the one that has its identity, and false.
func (t *txn) insert(a *queue.Arrival, revision int) (r *row, fresh bool, err error) {
	r, err = t.byIdentity(a.Kind, a.Identity)
	if err != nil || r != nil {
		return r, false, err
	}
	return t.store(t.nextSeq(a.Kind), a, revision), true, nil
}

// store makes a row under a number of its own.
func (t *txn) store(seq int64, a *queue.Arrival, revision int) *row {
	r := &row{
		Seq: seq, ID: a.Identity.ID(), Identity: hex.EncodeToString(a.Identity[:]),
		Lane: a.Lane, OrderKey: a.OrderKey, Source: a.Source, Event: a.Event, Flow: a.Flow,
		Task: a.Task, Key: a.Key, Resource: a.Resource, Frees: a.Frees, Cause: a.Cause,
		Peer: a.Peer, Revision: revision, ReceivedAt: t.now,
		RetentionMS: millis(a.Retention), KeepBodyMS: keepBody(a),
		TraceParent: a.TraceParent, TraceState: a.TraceState, Meta: a.Meta, Body: a.Body,
	}
	if a.Kind == queue.Callback {
		r.Fingerprint = hex.EncodeToString(a.Fingerprint[:])
	}
	if a.Expires > 0 {
		r.ExpiresAt = t.now.add(a.Expires)
	}
	r.setPhase(settledPhase(a.State))
	if a.State.Final() {
		r.SweepAt = t.now + stamp(r.KeepBodyMS)
	}
	t.rows.of(a.Kind).put(seq, r)
	t.rows.byIdentity[r.Identity] = r
	t.onUndo(func() { t.rows.byIdentity[r.Identity] = nil })
	t.size += rowBytes + len(a.Body) + len(a.Meta)
	t.intoLane(a.Lane, a.Kind)
	t.count(rowCounter(a.Kind, a.Source, a.State), 1)
	if r.Phase == phaseReady {
		t.ring(a.Lane)
	}
	return r
}

// intoLane notes that a lane holds rows of a kind.
func (t *txn) intoLane(name string, k queue.Kind) {
	if t.lane(name).Kinds&int64(k) == 0 {
		t.setLane(name, func(l *laneState) { l.Kinds |= int64(k) })
	}
}

// repeat answers an arrival whose identity is known.
func (t *txn) repeat(a *queue.Arrival, first *row) (queue.Receipt, error) {
	r, err := t.newestRow(first)
	switch {
	case err != nil:
		return queue.Receipt{}, err
	case r == nil || t.comesAnew(r, a):
		return t.renew(first, a), nil
	}
	receipt, err := t.repeatOf(r, a)
	if r != first {
		receipt.Identity = r.identity()
	}
	return receipt, err
}

// repeatOf answers a repeat of a row.
func (t *txn) repeatOf(r *row, a *queue.Arrival) (queue.Receipt, error) {
	fp := hex.EncodeToString(a.Fingerprint[:])
	if r.Fingerprint == fp || r.kind() == queue.Effect {
		return t.duplicate(r, r, a)
	}
	for _, known := range r.Accepted { // a person made this content a revision: it is known
		if known.Fingerprint == fp {
			worked, err := t.byPublicID(queue.Callback, known.ID)
			if err != nil && !errors.Is(err, once.ErrNotFound) {
				return queue.Receipt{}, err
			}
			return t.duplicate(r, worked, a)
		}
	}
	if a.ReplaceDead && hadNoEffect(r) {
		return t.replaceDead(r, a)
	}
	if err := t.addArrival(r, a, queue.Conflict); err != nil {
		return queue.Receipt{}, err
	}
	return queue.Receipt{Outcome: queue.Conflict, Seq: r.Seq, State: r.State}, nil
}

// duplicate counts a repeat. It revives the row in which its content is worked, if that is dead by
// transient failure: the first one, or its revision; nil: it was swept.
func (t *txn) duplicate(r, worked *row, a *queue.Arrival) (queue.Receipt, error) {
	out := queue.Receipt{Outcome: queue.Duplicate, Seq: r.Seq, State: r.State}
	if err := t.addArrival(r, a, queue.Duplicate); err != nil {
		return out, err
	}
	if worked != nil && worked.Phase == phaseDead && worked.DeadCause == queue.CauseTransient {
		out.Revived, out.State = true, queue.Pending
		return out, t.revive(worked, a)
	}
	return out, nil
}

// revive makes a dead row due again, in the place that its source gives it today: its lane may be
// nobody's by now.
func (t *txn) revive(r *row, a *queue.Arrival) error {
	if a.Lane != r.Lane && a.State == queue.Pending {
		if err := t.leaveLine(r); err != nil {
			return err
		}
		t.place(r, *a)
	}
	return t.makeDue(r)
}

// hadNoEffect reports whether a row is dead and nothing of it can have happened. A flow decides
// inside the store, so what it refused changed nothing. Of a handler only what was refused for good
// at its first try is known to have had no effect: a try that fails may have come after the effect.
func hadNoEffect(r *row) bool {
	switch {
	case r.Phase != phaseDead || r.DeadCause == queue.CausePoison:
		return false
	case r.Flow != "":
		return true
	case r.DeadCause == queue.CauseTransient:
		return false
	}
	return len(r.Attempts) <= 1
}

// replaceDead puts other content in the place of a first one that is dead and had no effect. The
// first content is kept as a conflict.
func (t *txn) replaceDead(r *row, a *queue.Arrival) (queue.Receipt, error) {
	old := queue.Arrival{Peer: r.Peer, Meta: r.Meta, Body: r.Body}
	if err := unhex(old.Fingerprint[:], r.Fingerprint); err != nil {
		return queue.Receipt{}, fmt.Errorf("row %d: %w: %w", r.Seq, once.ErrCorrupt, err)
	}
	if err := t.addArrival(r, &old, queue.Conflict); err != nil {
		return queue.Receipt{}, err
	}
	if err := t.leaveLine(r); err != nil {
		return queue.Receipt{}, err
	}
	t.place(r, *a)
	t.change(r)
	t.size += len(a.Body) + len(a.Meta)
	r.Fingerprint, r.Meta, r.Body = hex.EncodeToString(a.Fingerprint[:]), a.Meta, a.Body
	r.TraceParent, r.TraceState, r.LastAt = a.TraceParent, a.TraceState, t.now
	out := queue.Receipt{Outcome: queue.Accepted, Seq: r.Seq, State: queue.Pending, Revived: true}
	return out, t.makeDue(r)
}
