package turn

import (
	"errors"
	"fmt"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// Append stores arrivals, or compares them with what is there. It returns one receipt an arrival.
func (t *Batch) Append(list []queue.Arrival) ([]queue.Receipt, error) {
	if err := t.prefetchArrivals(list); err != nil {
		return nil, err
	}
	out := make([]queue.Receipt, len(list))
	for i := range list {
		r, err := t.receive(&list[i])
		if err != nil {
			return nil, err
		}
		out[i] = r
	}
	return out, nil
}

func (t *Batch) checkArrivals(list []queue.Arrival) error {
	return CheckArrivals(list, t.MaxRowBytes)
}

// CheckArrivals refuses what can't be stored: once.ErrTooLarge for one that carries too much.
func CheckArrivals(list []queue.Arrival, maxRowBytes int) error {
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
func (t *Batch) prefetchArrivals(list []queue.Arrival) error {
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
func (t *Batch) receive(a *queue.Arrival) (queue.Receipt, error) {
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
func (t *Batch) insert(a *queue.Arrival, revision int) (r *Row, fresh bool, err error) {
	r, err = t.findIdentity(a.Kind, a.Identity)
	if err != nil || r != nil {
		return r, false, err
	}
	seq, err := t.nextSeq(a.Kind)
	if err != nil {
		return nil, false, err
	}
	return t.store(seq, a, revision), true, nil
}

// store makes a row under a number of its own.
func (t *Batch) store(seq int64, a *queue.Arrival, revision int) *Row {
	r := NewRow(a, t.now)
	r.Seq, r.Revision = seq, revision
	r.SetPhase(settledPhase(a.State))
	t.Rows.put(r)
	key := identityKey{a.Kind, r.Identity}
	t.byIdentity[key] = r
	t.onUndo(func() { t.byIdentity[key] = nil })
	t.size += rowBytes + len(a.Body) + len(a.Meta)
	t.count(RowCounter(a.Kind, a.Source, a.State), 1)
	if r.Phase == Ready {
		t.ring(a.Lane)
	}
	return r
}

// NewRow is what becomes of an arrival that is stored as a row; its number is to be set, and with
// that its phase.
func NewRow(a *queue.Arrival, now Stamp) *Row {
	r := &Row{
		Identity: a.Identity, State: a.State, Phase: settledPhase(a.State),
		Lane: a.Lane, OrderKey: a.OrderKey, Source: a.Source, Event: a.Event, Flow: a.Flow,
		Task: a.Task, Key: a.Key, Resource: a.Resource, Frees: a.Frees, Cause: a.Cause,
		Peer: a.Peer, ReceivedAt: now,
		RetentionMS: Millis(a.Retention), KeepBodyMS: keepBody(a),
		TraceParent: a.TraceParent, TraceState: a.TraceState, Meta: a.Meta, Body: a.Body,
	}
	if a.Kind == queue.Callback {
		r.Fingerprint = a.Fingerprint
	}
	if a.Expires > 0 {
		r.ExpiresAt = now.Add(a.Expires)
	}
	if a.State.Final() {
		r.SweepAt = now + Stamp(r.KeepBodyMS)
	}
	return r
}

// repeat answers an arrival whose identity is known.
func (t *Batch) repeat(a *queue.Arrival, first *Row) (queue.Receipt, error) {
	r, err := t.newestRow(first)
	switch {
	case err != nil:
		return queue.Receipt{}, err
	case r == nil || t.comesAnew(r, a):
		return t.renew(first, a)
	}
	receipt, err := t.repeatOf(r, a)
	if r != first {
		receipt.Identity = r.Identity
	}
	return receipt, err
}

// repeatOf answers a repeat of a row.
func (t *Batch) repeatOf(r *Row, a *queue.Arrival) (queue.Receipt, error) {
	fp := a.Fingerprint
	if r.Fingerprint == fp || r.Kind() == queue.Effect {
		return t.duplicate(r, r, a)
	}
	for _, known := range r.Accepted { // a person made this content a revision: it is known
		if known.Fingerprint == fp {
			worked, err := t.byPublicText(queue.Callback, known.ID)
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
func (t *Batch) duplicate(r, worked *Row, a *queue.Arrival) (queue.Receipt, error) {
	out := queue.Receipt{Outcome: queue.Duplicate, Seq: r.Seq, State: r.State}
	if err := t.addArrival(r, a, queue.Duplicate); err != nil {
		return out, err
	}
	if worked != nil && worked.Phase == Dead && worked.DeadCause == queue.CauseTransient {
		out.Revived, out.State = true, queue.Pending
		return out, t.revive(worked, a)
	}
	return out, nil
}

// revive makes a dead row due again, in the place that its source gives it today: its lane may be
// nobody's by now.
func (t *Batch) revive(r *Row, a *queue.Arrival) error {
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
func hadNoEffect(r *Row) bool {
	switch {
	case r.Phase != Dead || r.DeadCause == queue.CausePoison:
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
func (t *Batch) replaceDead(r *Row, a *queue.Arrival) (queue.Receipt, error) {
	old := queue.Arrival{Fingerprint: r.Fingerprint, Peer: r.Peer, Meta: r.Meta, Body: r.Body}
	if err := t.addArrival(r, &old, queue.Conflict); err != nil {
		return queue.Receipt{}, err
	}
	if err := t.leaveLine(r); err != nil {
		return queue.Receipt{}, err
	}
	t.place(r, *a)
	t.change(r)
	t.size += len(a.Body) + len(a.Meta)
	r.Fingerprint, r.Meta, r.Body = a.Fingerprint, a.Meta, a.Body
	r.TraceParent, r.TraceState, r.LastAt = a.TraceParent, a.TraceState, t.now
	out := queue.Receipt{Outcome: queue.Accepted, Seq: r.Seq, State: queue.Pending, Revived: true}
	return out, t.makeDue(r)
}
