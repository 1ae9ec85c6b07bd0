package oncesqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// Flags of a row.
const (
	flagFrees       = 1 << iota // an effect whose acknowledgement frees its resource
	flagBlock                   // dead or held, and later rows of the key wait
	flagLimitPassed             // a parked row that came to its limit
	flagInLine                  // it has an entry in lines
)

// From bit newestShift on the flags hold the seq of a newer callback; see newer.go.

// Append stores arrivals. A duplicate of what is known to be durable is answered without a write of
// its own; it is counted behind. With NewAfter it is written at once: when the last one came
// decides what the next one is.
func (s *Store) Append(ctx context.Context, arrivals []queue.Arrival) ([]queue.Receipt, error) {
	if err := checkArrivals(arrivals); err != nil {
		return nil, fmt.Errorf("append: %w", err)
	}
	for i := range arrivals {
		if arrivals[i].NewAfter > 0 {
			s.known.forget(arrivals[i].Identity)
		}
	}
	if len(arrivals) == 1 && arrivals[0].NewAfter == 0 {
		a := &arrivals[0]
		if seq, ok := s.recall(a.Identity, a.Fingerprint, a.Peer); ok {
			return []queue.Receipt{{Outcome: queue.Duplicate, Seq: seq}}, nil
		}
	}
	receipts := make([]queue.Receipt, len(arrivals))
	o := &op{alone: len(arrivals) == 1, rows: len(arrivals)}
	o.run = func(t *txn) error {
		for i := range arrivals {
			r, err := t.receive(&arrivals[i])
			if err != nil {
				return err
			}
			receipts[i] = r
		}
		return nil
	}
	if err := s.do(ctx, o); err != nil {
		return nil, unavailable(err)
	}
	return receipts, nil
}

// Recall implements [queue.Recaller].
func (s *Store) Recall(id once.Identity, fp once.Fingerprint, peer string) bool {
	_, ok := s.recall(id, fp, peer)
	return ok
}

// recall counts a repeat of a row that is known to be durable, and returns the row. Where repeats
// wait to be counted in great number they take their turn at the writer.
func (s *Store) recall(id once.Identity, fp once.Fingerprint, peer string) (int64, bool) {
	if s.notes.len() >= maxNotes || s.present.gone.Load() || s.closing() {
		return 0, false
	}
	seq, ok := s.known.get(id, fp)
	if ok {
		s.notes.add(seq, s.clock.now(), peer)
	}
	return seq, ok
}

func checkArrivals(arrivals []queue.Arrival) error {
	for i := range arrivals {
		a := &arrivals[i]
		switch {
		case a.Identity.IsZero():
			return errors.New("an arrival has no identity")
		case a.Retention <= 0:
			return fmt.Errorf("arrival of source %q has no retention", a.Source)
		case a.Kind != queue.Callback && a.Kind != queue.Effect:
			return fmt.Errorf("arrival of source %q has no kind", a.Source)
		case a.State != queue.Pending && a.State != queue.Unrouted:
			return fmt.Errorf("an arrival can't be stored as %q", a.State)
		}
	}
	return nil
}

// receive stores a callback, or compares it with the one that is there.
func (t *txn) receive(a *queue.Arrival) (queue.Receipt, error) {
	seq, fresh, err := t.insert(a, 0)
	if err != nil {
		return queue.Receipt{}, err
	}
	if fresh {
		if id, fp, known := a.Identity, a.Fingerprint, t.s.known; a.NewAfter == 0 {
			t.durable = append(t.durable, func() { known.put(id, fp, seq) })
		}
		return queue.Receipt{Outcome: queue.Accepted, Seq: seq, State: a.State}, nil
	}
	return t.repeat(a)
}

const insertRow = `INSERT INTO rows (seq, identity, kind, lane, phase, flags, revision, received_at,
	expires_at, retention, keep_body, source, event, flow, task, order_key, key, resource, cause,
	trace, peer, fingerprint, meta, body)
	VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`

// insert stores a new row and reports false if its identity is known.
func (t *txn) insert(a *queue.Arrival, revision int64) (seq int64, fresh bool, err error) {
	if known, err := t.isKnown(a.Identity); known || err != nil {
		return 0, false, err
	}
	lane, err := t.laneFor(a.Lane, a.Kind)
	if err != nil {
		return 0, false, err
	}
	q, err := t.c.prepare(insertRow)
	if err != nil {
		return 0, false, err
	}
	seq = t.s.nextSeq
	p := settledPhase(a.State)
	flags, expires := int64(0), int64(0)
	if a.Frees {
		flags |= flagFrees
	}
	if a.Expires > 0 {
		expires = t.now + a.Expires.Microseconds()
	}
	q.bindInt(1, seq)
	q.bindBlob(2, a.Identity[:])
	q.bindInt(3, int64(a.Kind))
	q.bindInt(4, lane)
	q.bindPhase(5, p)
	q.bindInt(6, flags)
	q.bindInt(7, revision)
	q.bindInt(8, t.now)
	q.bindTime(9, expires)
	q.bindInt(10, a.Retention.Microseconds())
	q.bindInt(11, keepBody(a))
	q.bindAgain(12, a.Source)
	q.bindAgain(13, a.Event)
	q.bindAgain(14, a.Flow)
	q.bindText(15, a.Task)
	q.bindText(16, a.OrderKey)
	q.bindOpt(17, keyText(a.Key))
	q.bindOpt(18, a.Resource)
	q.bindOpt(19, a.Cause)
	q.bindOpt(20, traceText(a.TraceParent, a.TraceState))
	q.bindOpt(21, a.Peer)
	if a.Kind == queue.Callback {
		q.bindBlob(22, a.Fingerprint[:])
	} else {
		q.bindBlob(22, nil)
	}
	q.bindBlob(23, a.Meta)
	q.bindBlob(24, a.Body)
	if err := q.run(); err != nil {
		return 0, false, err
	}
	t.stored(a, seq, lane, p)
	if a.State.Final() {
		return seq, true, t.sweepLater(seq, t.now+keepBody(a))
	}
	return seq, true, nil
}

// stored notes what a new row changes in memory.
func (t *txn) stored(a *queue.Arrival, seq, lane int64, p phase) {
	s := t.s
	s.nextSeq = seq + 1
	s.newTerms.add(seq, a)
	t.putPlace(a.Identity, seq)
	t.onUndo(func() { // no gap at the end: the index goes by these numbers
		s.nextSeq = seq
		s.newTerms.undo(seq)
	})
	t.count(rowCounter(a.Kind, a.Source, a.State), 1)
	if p == phaseReady {
		t.ring(lane)
	}
}

// sweepLater says when something of a finished row may go.
func (t *txn) sweepLater(seq, at int64) error {
	return t.c.exec("UPDATE rows SET sweep_at = ? WHERE seq = ?", at, seq)
}

func keepBody(a *queue.Arrival) int64 {
	if a.KeepBody <= 0 || a.KeepBody > a.Retention {
		return a.Retention.Microseconds()
	}
	return a.KeepBody.Microseconds()
}

// keyText writes a key's parts as a JSON list; empty for none.
func keyText(parts []string) string {
	if len(parts) == 0 {
		return ""
	}
	b := make([]byte, 0, 64)
	for i, part := range parts {
		b = append(b, "[,"[min(i, 1)])
		if strings.ContainsFunc(part, needsEscape) {
			text, err := json.Marshal(part)
			if err != nil {
				return "" // texts always marshal
			}
			b = append(b, text...)
			continue
		}
		b = append(append(append(b, '"'), part...), '"')
	}
	return string(append(b, ']'))
}

// needsEscape reports whether JSON has to write a character in another way.
func needsEscape(r rune) bool {
	return r < 0x20 || r == '"' || r == '\\' || r == utf8.RuneError
}

// repeat answers an arrival whose identity is known.
func (t *txn) repeat(a *queue.Arrival) (queue.Receipt, error) {
	first, err := t.s.rowOf(t.c, a.Identity)
	if err != nil {
		return queue.Receipt{}, err
	}
	row, err := t.newestRow(first)
	switch {
	case err != nil:
		return queue.Receipt{}, err
	case row == nil || t.comesAnew(row, a):
		return t.renew(first, a)
	}
	r, err := t.repeatOf(row, a)
	if row != first {
		r.Identity = row.Identity
	}
	return r, err
}

// repeatOf answers a repeat of a row.
func (t *txn) repeatOf(row *stored, a *queue.Arrival) (queue.Receipt, error) {
	if row.Fingerprint == a.Fingerprint {
		return t.duplicate(row, row, a)
	}
	revision := ""
	_, err := t.c.one("SELECT accepted FROM receipts WHERE seq = ? AND fingerprint = ? "+
		"AND accepted IS NOT NULL", func(r *stmt) { revision = r.text(0) }, row.Seq,
		a.Fingerprint[:])
	if err != nil {
		return queue.Receipt{}, err
	}
	if revision != "" { // a person made this content a revision: it is known
		worked, err := t.s.rowByID(t.c, queue.Callback, revision)
		if err != nil && !errors.Is(err, once.ErrNotFound) {
			return queue.Receipt{}, err
		}
		return t.duplicate(row, worked, a)
	}
	if a.ReplaceDead {
		if none, err := t.hadNoEffect(row); err != nil {
			return queue.Receipt{}, err
		} else if none {
			return t.replaceDead(row, a)
		}
	}
	if err := t.addReceipt(row, a, queue.Conflict); err != nil {
		return queue.Receipt{}, err
	}
	return queue.Receipt{Outcome: queue.Conflict, Seq: row.Seq, State: row.State}, nil
}

// duplicate counts a repeat. It revives the row in which its content is worked, if that is dead by
// transient failure: the first one, or its revision; nil: it was swept.
func (t *txn) duplicate(row, worked *stored, a *queue.Arrival) (queue.Receipt, error) {
	r := queue.Receipt{Outcome: queue.Duplicate, Seq: row.Seq, State: row.State}
	if worked != nil && worked.State == queue.Dead && worked.DeadCause == queue.CauseTransient {
		if err := t.addReceipt(row, a, queue.Duplicate); err != nil {
			return r, err
		}
		r.Revived, r.State = true, queue.Pending
		return r, t.revive(worked, a)
	}
	if a.NewAfter > 0 {
		return r, t.addReceipt(row, a, queue.Duplicate)
	}
	s, id, fp, peer := t.s, a.Identity, a.Fingerprint, a.Peer
	noted := s.notes.len() < maxNotes
	if !noted { // too many wait to be written: this one doesn't
		if err := t.addReceipt(row, a, queue.Duplicate); err != nil {
			return r, err
		}
	}
	t.durable = append(t.durable, func() {
		if row.State != queue.Dead && fp == row.Fingerprint && id == row.Identity {
			s.known.put(id, fp, row.Seq)
		}
		if noted {
			s.notes.add(row.Seq, t.now, peer)
		}
	})
	return r, nil
}

// revive makes a dead row due again, in the place that its source gives it today: its lane may be
// nobody's by now.
func (t *txn) revive(row *stored, a *queue.Arrival) error {
	lane, err := t.laneFor(a.Lane, row.Kind)
	if err != nil {
		return err
	}
	if lane != row.lane && a.State == queue.Pending {
		if err := t.leaveLine(row); err != nil {
			return err
		}
		if err := t.place(row, *a); err != nil {
			return err
		}
	}
	return t.makeDue(row)
}

// hadNoEffect reports whether a row is dead and nothing of it can have happened. A flow decides in
// the store's transaction, so what it refused changed nothing. Of a handler only what was refused
// for good at its first try is known to have had no effect: a try that fails may have come after
// the effect.
func (t *txn) hadNoEffect(row *stored) (bool, error) {
	switch {
	case row.State != queue.Dead || row.DeadCause == queue.CausePoison:
		return false, nil
	case row.Flow != "":
		return true, nil
	case row.DeadCause == queue.CauseTransient:
		return false, nil
	}
	tries, err := t.c.int("SELECT count(*) FROM attempts WHERE seq = ?", row.Seq)
	return tries <= 1, err
}

// replaceDead puts other content in the place of a first one that is dead and had no effect. The
// first content is kept as a conflict.
func (t *txn) replaceDead(row *stored, a *queue.Arrival) (queue.Receipt, error) {
	old := queue.Arrival{Fingerprint: row.Fingerprint, Peer: row.peer, Meta: row.Meta,
		Body: row.Body}
	if err := t.addReceipt(row, &old, queue.Conflict); err != nil {
		return queue.Receipt{}, err
	}
	lane, err := t.laneFor(a.Lane, a.Kind)
	if err != nil {
		return queue.Receipt{}, err
	}
	err = t.c.exec("UPDATE rows SET fingerprint = ?, meta = ?, body = ?, event = ?, flow = ?, "+
		"task = ?, order_key = ?, lane = ?, last_at = ?, trace = ? WHERE seq = ?",
		a.Fingerprint[:], a.Meta, a.Body, a.Event, a.Flow, a.Task, a.OrderKey, lane, t.now,
		nullText(traceText(a.TraceParent, a.TraceState)), row.Seq)
	if err != nil {
		return queue.Receipt{}, err
	}
	if err := t.leaveLine(row); err != nil {
		return queue.Receipt{}, err
	}
	row.lane, row.OrderKey, row.Event, row.Task = lane, a.OrderKey, a.Event, a.Task
	if err := t.indexAgain(row); err != nil {
		return queue.Receipt{}, err
	}
	r := queue.Receipt{Outcome: queue.Accepted, Seq: row.Seq, State: queue.Pending, Revived: true}
	return r, t.makeDue(row)
}
