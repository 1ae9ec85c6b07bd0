package oncemongo

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// rejectedDoc is a refused message.
type rejectedDoc struct {
	ID      int64         `bson:"_id"`
	V       int64         `bson:"v"`
	Source  string        `bson:"source"`
	Ring    string        `bson:"ring"`
	At      stamp         `bson:"at"`
	Outcome queue.Outcome `bson:"outcome"`
	Reason  string        `bson:"reason"`
	Peer    string        `bson:"peer,omitempty"`
	Size    int64         `bson:"size"`
	Meta    payload       `bson:"meta,omitempty"`
	Body    payload       `bson:"body,omitempty"`
}

// Reject keeps a refused message in the ring of its source. Strangers have a ring of their own:
// theirs must not push out what a sender was told of.
func (s *Store) Reject(ctx context.Context, r queue.Rejected) error {
	ring := "senders"
	if r.Outcome == queue.Unauthorized {
		ring = "strangers"
	}
	err := s.do(ctx, true, func(t *txn) error {
		d := &rejectedDoc{ID: t.next(), Source: r.Source, Ring: ring, At: t.now,
			Outcome: r.Outcome, Reason: reason(r.Reason), Peer: r.Peer, Size: r.Size,
			Meta: r.Meta, Body: r.Body}
		t.rejected.put(d.ID, d)
		t.size += rowBytes + len(d.Meta) + len(d.Body)
		return t.trimRing(d)
	})
	return err
}

// trimRing removes what is behind the end of a ring.
func (t *txn) trimRing(d *rejectedDoc) error {
	stored, err := t.s.find(t.ctx, rejected, bson.D{{Key: "source", Value: d.Source},
		{Key: "ring", Value: d.Ring}}, bson.D{{Key: "_id", Value: -1}}, 0,
		bson.D{{Key: "_id", Value: 1}})
	if err != nil {
		return err
	}
	keep := t.s.cfg.RejectedPerSource
	for _, id := range t.rejected.dirty { // those of this batch are the latest
		if new := t.rejected.cells[id].now; new != nil && new.Source == d.Source &&
			new.Ring == d.Ring {
			keep--
		}
	}
	for _, raw := range stored {
		id, ok := raw.Lookup("_id").Int64OK()
		if !ok {
			return errDamaged
		}
		if c := t.rejected.cells[id]; c != nil && c.touched {
			continue
		}
		if keep--; keep < 0 {
			t.rejected.removeUnread(id)
		}
	}
	return nil
}

// Rejected returns the latest refused messages.
func (s *Store) Rejected(ctx context.Context, source string, limit int) ([]queue.Rejected, error) {
	if limit < 1 || limit > maxPage {
		return nil, fmt.Errorf("rejected: limit %d, want 1 to %d", limit, maxPage)
	}
	f := bson.D{}
	if source != "" {
		f = append(f, bson.E{Key: "source", Value: source})
	}
	found, err := s.find(ctx, rejected, f, bson.D{{Key: "_id", Value: -1}}, limit, nil)
	if err != nil {
		return nil, asUnavailable(err)
	}
	var out []queue.Rejected
	for _, raw := range found {
		var d rejectedDoc
		if err := bson.Unmarshal(raw, &d); err != nil {
			return nil, fmt.Errorf("read a refused message: %w: %w", once.ErrCorrupt, err)
		}
		out = append(out, queue.Rejected{ID: d.ID, Source: d.Source, At: d.At.time(),
			Outcome: d.Outcome, Reason: d.Reason, Peer: d.Peer, Meta: d.Meta, Body: d.Body,
			Size: d.Size})
	}
	return out, nil
}
