package turn

import (
	"cmp"
	"slices"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// KeptArrivals: of very many arrivals so many first and so many last ones are kept.
const KeptArrivals = 20

// addArrival keeps an arrival, a conflict with its content.
func (t *Batch) addArrival(r *Row, a *queue.Arrival, o queue.Outcome) error {
	t.change(r)
	n := r.Duplicates + r.Conflicts + 1
	d := &Arrival{Row: r.Seq, N: n, At: t.now, Outcome: o, Peer: a.Peer,
		Fingerprint: a.Fingerprint}
	if r.LastAt = t.now; o == queue.Conflict {
		r.Conflicts++
		d.Meta, d.Body = a.Meta, a.Body
		t.size += len(a.Meta) + len(a.Body)
	} else {
		r.Duplicates++
	}
	t.Arrivals.put(d)
	t.size += rowBytes
	return t.trimArrivals(r, n)
}

// trimArrivals keeps the first and the last arrivals, of conflicts the first and last among
// themselves, and those that a person accepted. One that comes pushes one out at most.
func (t *Batch) trimArrivals(r *Row, n int64) error {
	if n <= 2*KeptArrivals {
		return nil
	}
	old, err := t.Arrivals.get(ArrivalKey{r.Seq, n - KeptArrivals})
	if err != nil {
		return err
	}
	if old != nil && old.Outcome == queue.Duplicate {
		t.Arrivals.remove(old.key())
	}
	if r.Conflicts <= 2*KeptArrivals {
		return nil
	}
	stored, err := t.stored.ArrivalsOf(r.Seq, true)
	if err != nil {
		return err
	}
	conflicts := t.Arrivals.merge(stored, func(d *Arrival) bool {
		return d.Row == r.Seq && d.Outcome == queue.Conflict && d.Accepted == ""
	})
	slices.SortFunc(conflicts, func(a, b *Arrival) int { return cmp.Compare(a.N, b.N) })
	for i := KeptArrivals; i < len(conflicts)-KeptArrivals; i++ {
		t.Arrivals.remove(conflicts[i].key())
	}
	return nil
}

// Under one key there may be several callbacks, one after the other (queue.Arrival.NewAfter). The
// first one has the identity that arrivals come with. It knows the number of the newest one, which
// has an identity that is derived from the first one's and from its own number: a number is never
// used again, so no two are equal. Every arrival finds the first row, so that one outlives its
// retention, without its payload, as long as the newest one is there.

// newestRow returns the row to which arrivals under the identity of a first one belong; nil: that
// was swept.
func (t *Batch) newestRow(first *Row) (*Row, error) {
	if first.Newest == 0 {
		return first, nil
	}
	return t.Rows.get(first.Newest)
}

// comesAnew reports whether an arrival comes so long after the last one that it is a new callback.
func (t *Batch) comesAnew(r *Row, a *queue.Arrival) bool {
	return a.NewAfter > 0 && t.now-max(r.LastAt, r.ReceivedAt) > Stamp(Millis(a.NewAfter))
}

// renew stores an arrival as the newest callback under the identity of a first one.
func (t *Batch) renew(first *Row, a *queue.Arrival) (queue.Receipt, error) {
	seq, err := t.nextSeq(a.Kind)
	if err != nil {
		return queue.Receipt{}, err
	}
	next := *a
	next.Identity = once.DeriveIdentity(a.Identity, "new", int(seq))
	t.store(seq, &next, 0)
	t.change(first)
	first.Newest = seq
	return queue.Receipt{Outcome: queue.Accepted, Seq: seq, Identity: next.Identity,
		State: a.State}, nil
}

// keepBody is how long an arrival's payload is kept, in milliseconds.
func keepBody(a *queue.Arrival) int64 {
	keep := a.KeepBody
	if keep <= 0 || keep > a.Retention {
		keep = a.Retention
	}
	return Millis(max(keep, time.Millisecond))
}
