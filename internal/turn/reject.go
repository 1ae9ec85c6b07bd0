package turn

import "github.com/oncekit/once/queue"

// Reject keeps a refused message in the ring of its source. Strangers have a ring of their own:
// theirs must not push out what a sender was told of.
func (t *Batch) Reject(r queue.Rejected) error {
	ring := "senders"
	if r.Outcome == queue.Unauthorized {
		ring = "strangers"
	}
	d := &Rejected{ID: t.next(), Source: r.Source, Ring: ring, At: t.now,
		Outcome: r.Outcome, Reason: reason(r.Reason), Peer: r.Peer, Size: r.Size,
		Meta: r.Meta, Body: r.Body}
	t.Rejected.put(d)
	t.size += rowBytes + len(d.Meta) + len(d.Body)
	return t.trimRing(d)
}

// trimRing removes what is behind the end of a ring.
func (t *Batch) trimRing(d *Rejected) error {
	stored, err := t.stored.Ring(d.Source, d.Ring)
	if err != nil {
		return err
	}
	keep := t.RejectedPerSource
	for _, id := range t.Rejected.dirty { // those of this batch are the latest
		if new := t.Rejected.cells[id].now; new != nil && new.Source == d.Source &&
			new.Ring == d.Ring {
			keep--
		}
	}
	for _, id := range stored {
		if t.Rejected.touched(id) {
			continue
		}
		if keep--; keep < 0 {
			t.Rejected.removeUnread(id)
		}
	}
	return nil
}
