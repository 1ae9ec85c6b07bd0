package oncemongo

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// keptArrivals: of very many arrivals so many first and so many last ones are kept.
const keptArrivals = 20

// arrivalDoc is one arrival of a callback after the first.
type arrivalDoc struct {
	ID          string        `bson:"_id"`
	V           int64         `bson:"v"`
	Row         int64         `bson:"row"`
	N           int64         `bson:"n"`
	At          stamp         `bson:"at"`
	Outcome     queue.Outcome `bson:"outcome"`
	Peer        string        `bson:"peer,omitempty"`
	Fingerprint string        `bson:"fingerprint,omitempty"`
	// Accepted is the id of the revision that a person made of it.
	Accepted string  `bson:"accepted,omitempty"`
	Meta     payload `bson:"meta,omitempty"` // of conflicts only, as Body
	Body     payload `bson:"body,omitempty"`
}

func arrivalID(seq, n int64) string { return fmt.Sprintf("%d/%d", seq, n) }

// addArrival keeps an arrival, a conflict with its content.
func (t *txn) addArrival(r *row, a *queue.Arrival, o queue.Outcome) error {
	t.change(r)
	n := r.Duplicates + r.Conflicts + 1
	d := &arrivalDoc{ID: arrivalID(r.Seq, n), Row: r.Seq, N: n, At: t.now, Outcome: o,
		Peer: a.Peer, Fingerprint: fingerprintText(a.Fingerprint)}
	if r.LastAt = t.now; o == queue.Conflict {
		r.Conflicts++
		d.Meta, d.Body = a.Meta, a.Body
		t.size += len(a.Meta) + len(a.Body)
	} else {
		r.Duplicates++
	}
	t.arrivals.put(d.ID, d)
	t.size += rowBytes
	return t.trimArrivals(r, n)
}

// trimArrivals keeps the first and the last arrivals, of conflicts the first and last among
// themselves, and those that a person accepted. One that comes pushes one out at most.
func (t *txn) trimArrivals(r *row, n int64) error {
	if n <= 2*keptArrivals {
		return nil
	}
	old, err := t.arrivals.get(arrivalID(r.Seq, n-keptArrivals))
	if err != nil {
		return err
	}
	if old != nil && old.Outcome == queue.Duplicate {
		t.arrivals.remove(old.ID)
	}
	if r.Conflicts <= 2*keptArrivals {
		return nil
	}
	conflicts, err := t.arrivalsOf(r.Seq, bson.D{{Key: "outcome", Value: queue.Conflict}},
		func(d *arrivalDoc) bool { return d.Outcome == queue.Conflict && d.Accepted == "" })
	if err != nil {
		return err
	}
	for i := keptArrivals; i < len(conflicts)-keptArrivals; i++ {
		t.arrivals.remove(conflicts[i].ID)
	}
	return nil
}

// arrivalsOf returns arrivals of a row, in their order. filter is what is asked of the server, and
// match what is asked of each as the batch has it.
func (t *txn) arrivalsOf(seq int64, filter bson.D, match func(*arrivalDoc) bool) ([]*arrivalDoc,
	error) {
	stored, err := t.find(arrivals, append(bson.D{{Key: "row", Value: seq}}, filter...),
		bson.D{{Key: "n", Value: 1}}, 0)
	if err != nil {
		return nil, err
	}
	var out []*arrivalDoc
	for _, raw := range stored {
		id, _ := raw.Lookup("_id").StringValueOK()
		if c := t.arrivals.cells[id]; c != nil && c.touched {
			continue
		}
		d, err := t.arrivals.keep(id, raw)
		if err != nil {
			return nil, err
		}
		if d != nil && match(d) {
			out = append(out, d)
		}
	}
	for _, id := range t.arrivals.dirty { // later than those that are stored
		if d := t.arrivals.cells[id].now; d != nil && d.Row == seq && match(d) {
			out = append(out, d)
		}
	}
	return sortedArrivals(out), nil
}

// Under one key there may be several callbacks, one after the other (queue.Arrival.NewAfter). The
// first one has the identity that arrivals come with. It knows the number of the newest one, which
// has an identity that is derived from the first one's and from its own number: a number is never
// used again, so no two are equal. Every arrival finds the first row, so that one outlives its
// retention, without its payload, as long as the newest one is there.

// newestRow returns the row to which arrivals under the identity of a first one belong; nil: that
// was swept.
func (t *txn) newestRow(first *row) (*row, error) {
	if first.Newest == 0 {
		return first, nil
	}
	return t.rows.callbacks.get(first.Newest)
}

// comesAnew reports whether an arrival comes so long after the last one that it is a new callback.
func (t *txn) comesAnew(r *row, a *queue.Arrival) bool {
	return a.NewAfter > 0 && t.now-max(r.LastAt, r.ReceivedAt) > stamp(millis(a.NewAfter))
}

// renew stores an arrival as the newest callback under the identity of a first one.
func (t *txn) renew(first *row, a *queue.Arrival) queue.Receipt {
	seq := t.nextSeq(a.Kind)
	next := *a
	next.Identity = once.DeriveIdentity(a.Identity, "new", int(seq))
	t.store(seq, &next, 0)
	t.change(first)
	first.Newest = seq
	return queue.Receipt{Outcome: queue.Accepted, Seq: seq, Identity: next.Identity,
		State: a.State}
}

// keepBody is how long an arrival's payload is kept, in milliseconds.
func keepBody(a *queue.Arrival) int64 {
	keep := a.KeepBody
	if keep <= 0 || keep > a.Retention {
		keep = a.Retention
	}
	return millis(max(keep, time.Millisecond))
}

func sortedArrivals(list []*arrivalDoc) []*arrivalDoc {
	slices.SortFunc(list, func(a, b *arrivalDoc) int { return cmp.Compare(a.N, b.N) })
	return list
}
