package oncemongo

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// errAction refuses an action that doesn't say who and why.
var errAction = errors.New("an action needs an actor and a reason")

// act runs an action of a person on a row in one commit, and keeps it.
func (s *Store) act(ctx context.Context, k queue.Kind, id string, by queue.Action,
	fn func(*txn, *row) error) error {
	if by.Actor == "" || by.Reason == "" {
		return errAction
	}
	err := s.do(ctx, false, func(t *txn) error {
		r, err := t.byPublicID(k, id)
		if err != nil {
			return err
		}
		r.tried = false
		if err := fn(t, r); err != nil {
			return err
		}
		t.change(r)
		r.Acted = true
		t.record(k.String()+"/"+id, by)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s %v %s: %w", by.Name, k, id, asUnavailable(err))
	}
	return nil
}

// byPublicID returns a row by its kind and public id.
func (t *txn) byPublicID(k queue.Kind, id string) (*row, error) {
	if _, err := once.ParseID(id); err != nil {
		return nil, fmt.Errorf("%w: %w", once.ErrNotFound, err)
	}
	s := t.rows.of(k)
	for _, seq := range s.dirty {
		if r := s.cells[seq].now; r != nil && r.ID == id {
			return r, nil
		}
	}
	found, err := t.find(s.name, bson.D{{Key: "id", Value: id}}, nil, 1)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, once.ErrNotFound
	}
	seq, ok := found[0].Lookup("_id").Int64OK()
	if !ok {
		return nil, errDamaged
	}
	r, err := s.keep(seq, found[0])
	if err == nil && r == nil {
		err = once.ErrNotFound
	}
	return r, err
}

// inState refuses a row that is in none of the states.
func inState(r *row, allowed ...queue.State) error {
	for _, s := range allowed {
		if r.State == s {
			return nil
		}
	}
	return fmt.Errorf("it is %s: %w", r.State, once.ErrState)
}

// Retry makes a parked, unrouted, dead or held row due again.
func (s *Store) Retry(ctx context.Context, k queue.Kind, id string, by queue.Action,
	route func(queue.Row) (queue.Arrival, error)) error {
	return s.act(ctx, k, id, by, func(t *txn, r *row) error {
		err := inState(r, queue.Parked, queue.Unrouted, queue.Dead, queue.Held)
		if err != nil {
			return err
		}
		if r.State == queue.Unrouted && t.bodySwept(r) {
			return fmt.Errorf("its body is not kept any more: %w", once.ErrState)
		}
		handled := k == queue.Callback && r.Flow == "" // its lane may be nobody's by now
		if route != nil && (r.State == queue.Unrouted || handled && !t.bodySwept(r)) {
			if err := t.reroute(r, route); err != nil {
				return err
			}
		}
		return t.makeDue(r)
	})
}

// reroute gives a row the place that it has by today's configuration.
func (t *txn) reroute(r *row, route func(queue.Row) (queue.Arrival, error)) error {
	as, err := r.public(false)
	if err != nil {
		return err
	}
	a, err := callRoute(as, route)
	if err != nil {
		return err
	}
	if a.State == queue.Unrouted {
		return fmt.Errorf("nothing is declared for event %q yet: %w", r.Event, once.ErrState)
	}
	if a.Lane == r.Lane && r.State != queue.Unrouted {
		return nil // it keeps its place
	}
	if err := t.leaveLine(r); err != nil {
		return err
	}
	t.place(r, a)
	return nil
}

// place gives a row that is in no line the place of an arrival.
func (t *txn) place(r *row, a queue.Arrival) {
	t.intoLane(a.Lane, r.kind())
	t.change(r)
	r.Lane, r.OrderKey, r.Flow, r.Task, r.Event = a.Lane, a.OrderKey, a.Flow, a.Task, a.Event
}

// bodySwept reports whether what a finished row carried is past its time.
func (t *txn) bodySwept(r *row) bool {
	since := max(r.LastAt, r.FinishedAt, r.ReceivedAt)
	return r.Body == nil && r.Meta == nil && r.KeepBodyMS < r.RetentionMS &&
		t.now >= since+stamp(r.KeepBodyMS)
}

// callRoute calls the caller's function inside the batch: a panic in it is an error.
func callRoute(r queue.Row, route func(queue.Row) (queue.Arrival, error)) (a queue.Arrival,
	err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p}
		}
	}()
	return route(r)
}

// Discard gives up a row that is not finished and in nobody's hands.
func (s *Store) Discard(ctx context.Context, k queue.Kind, id string, by queue.Action,
	then func(queue.View, queue.Row) queue.Settlement) error {
	return s.act(ctx, k, id, by, func(t *txn, r *row) error {
		err := inState(r, queue.Pending, queue.Parked, queue.Unrouted, queue.Dead, queue.Held,
			queue.Expired)
		if err != nil {
			return err
		}
		why := fmt.Sprintf("discarded by %s: %s", by.Actor, by.Reason)
		return t.giveUp(r, queue.Settlement{State: queue.Discarded, Error: why, Then: then})
	})
}

// Acknowledge says of an effect that it happened.
func (s *Store) Acknowledge(ctx context.Context, id string, by queue.Action,
	then func(queue.View, queue.Row) queue.Settlement) error {
	return s.act(ctx, queue.Effect, id, by, func(t *txn, r *row) error {
		if err := inState(r, queue.Held, queue.Dead, queue.Expired); err != nil {
			return err
		}
		return t.settleRow(r, queue.Settlement{State: queue.Done, Then: then,
			Error: fmt.Sprintf("%s says that it happened: %s", by.Actor, by.Reason)})
	})
}

// Accept makes a conflicting arrival a new revision of its callback.
func (s *Store) Accept(ctx context.Context, id string, n int64, by queue.Action,
	route func(queue.Row) (queue.Arrival, error)) (string, error) {
	var revision string
	err := s.act(ctx, queue.Callback, id, by, func(t *txn, r *row) error {
		d, err := t.arrivals.get(arrivalID(r.Seq, n))
		switch {
		case err != nil:
			return err
		case d == nil:
			return fmt.Errorf("arrival %d: %w", n, once.ErrNotFound)
		case d.Outcome != queue.Conflict || d.Accepted != "" || d.Body == nil:
			return fmt.Errorf("arrival %d is no conflict that can be accepted: %w", n,
				once.ErrState)
		}
		revision, err = t.accept(r, d, route)
		return err
	})
	return revision, err
}

func (t *txn) accept(r *row, d *arrivalDoc,
	route func(queue.Row) (queue.Arrival, error)) (string, error) {
	next, err := r.public(false)
	if err != nil {
		return "", err
	}
	next.Meta, next.Body = d.Meta, d.Body
	if err := unhex(next.Fingerprint[:], d.Fingerprint); err != nil {
		return "", fmt.Errorf("arrival %d: %w: %w", d.N, once.ErrCorrupt, err)
	}
	a, err := callRoute(next, route)
	if err != nil {
		return "", err
	}
	a.Identity = once.DeriveIdentity(next.Identity, "revision", int(d.N))
	a.Fingerprint, a.Peer, a.Cause = next.Fingerprint, d.Peer, r.ID
	if err := checkArrivals([]queue.Arrival{a}); err != nil {
		return "", err
	}
	made, fresh, err := t.insert(&a, r.Revision+len(r.Accepted)+1)
	if err != nil {
		return "", err
	}
	if !fresh {
		return "", fmt.Errorf("arrival %d was accepted before: %w", d.N, once.ErrState)
	}
	t.arrivals.change(d.ID)
	d.Accepted = made.ID
	t.change(r)
	r.Accepted = append(append([]revisionOf(nil), r.Accepted...),
		revisionOf{N: d.N, Fingerprint: d.Fingerprint, ID: made.ID})
	return made.ID, nil
}
