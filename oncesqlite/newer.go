package oncesqlite

import (
	"errors"
	"fmt"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// Under one key there may be several callbacks, one after the other (queue.Arrival.NewAfter). The
// first one has the identity that arrivals come with. It knows the newest one by its seq, which
// stands in its flags from this bit on; 0: it is the newest one itself. The newest has an identity
// that is derived from the first one's and from its own seq: a seq is never used again, so no two
// are equal. Every arrival finds the first row, so that one outlives its retention, without its
// payload, as long as the newest one is there.
const newestShift = 16

// newest returns the seq of the newest callback under the identity of a first one; 0: it is the
// only one.
func (row *stored) newest() int64 { return row.flags >> newestShift }

// newestRow returns the row to which arrivals under the identity of a first one belong; nil: that
// was swept.
func (t *txn) newestRow(first *stored) (*stored, error) {
	seq := first.newest()
	if seq == 0 {
		return first, nil
	}
	row, err := t.rowBy(bySeq, seq)
	if errors.Is(err, once.ErrNotFound) {
		return nil, nil
	}
	return row, err
}

// comesAnew reports whether an arrival comes so long after the last one that it is a new callback.
func (t *txn) comesAnew(row *stored, a *queue.Arrival) bool {
	last := max(micros(row.LastAt), t.s.notes.lastOf(row.Seq))
	return a.NewAfter > 0 && t.now-last > a.NewAfter.Microseconds()
}

// renew stores an arrival as the newest callback under the identity of a first one.
func (t *txn) renew(first *stored, a *queue.Arrival) (r queue.Receipt, err error) {
	next := *a
	next.Identity = once.DeriveIdentity(a.Identity, "new", int(t.s.nextSeq))
	err = t.savepoint(func() error {
		seq, fresh, err := t.insert(&next, 0)
		if err != nil {
			return err
		}
		if !fresh {
			return fmt.Errorf("row %d has the identity of another one", seq)
		}
		r = queue.Receipt{Outcome: queue.Accepted, Seq: seq, Identity: next.Identity,
			State: a.State}
		return t.c.exec("UPDATE rows SET flags = (flags & ?) | ? WHERE seq = ?",
			1<<newestShift-1, seq<<newestShift, first.Seq)
	})
	return r, err
}

// keepFirst keeps a first row past its retention while the newest one is there, and reports whether
// it did. It has no payload from then on.
func (t *txn) keepFirst(row *stored) (bool, error) {
	if row.newest() == 0 {
		return false, nil
	}
	found, err := t.c.int("SELECT 1 FROM rows WHERE seq = ?", row.newest())
	if err != nil || found == 0 {
		return false, err
	}
	return true, t.dropPayload(row.Seq, t.now+row.retention)
}

// dropPayload removes what a row carries, and says when it is looked at again.
func (t *txn) dropPayload(seq, again int64) error {
	err := t.c.exec("UPDATE rows SET meta = NULL, body = NULL, sweep_at = ? WHERE seq = ?",
		again, seq)
	if err != nil {
		return err
	}
	return t.c.exec("UPDATE receipts SET meta = NULL, body = NULL WHERE seq = ?", seq)
}
