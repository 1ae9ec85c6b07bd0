package turn

import (
	"errors"
	"fmt"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// errAction refuses an action that doesn't say who and why.
var errAction = errors.New("an action needs an actor and a reason")

// CheckAction refuses an action that doesn't say who and why.
func CheckAction(by queue.Action) error {
	if by.Actor == "" || by.Reason == "" {
		return errAction
	}
	return nil
}

// act runs an action of a person on a row, and keeps it.
func (t *Batch) act(k queue.Kind, id string, by queue.Action, fn func(*Row) error) error {
	r, err := t.byPublicText(k, id)
	if err != nil {
		return err
	}
	r.tried = false
	if err := fn(r); err != nil {
		return err
	}
	t.change(r)
	r.Acted = true
	t.record(k.String()+"/"+id, by)
	return nil
}

// byPublicText is byPublicID for the text of an id.
func (t *Batch) byPublicText(k queue.Kind, id string) (*Row, error) {
	raw, err := once.ParseID(id)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", once.ErrNotFound, err)
	}
	return t.byPublicID(k, raw)
}

// inState refuses a row that is in none of the states.
func inState(r *Row, allowed ...queue.State) error {
	for _, s := range allowed {
		if r.State == s {
			return nil
		}
	}
	return fmt.Errorf("it is %s: %w", r.State, once.ErrState)
}

// Retry makes a parked, unrouted, dead or held row due again.
func (t *Batch) Retry(k queue.Kind, id string, by queue.Action,
	route func(queue.Row) (queue.Arrival, error)) error {
	return t.act(k, id, by, func(r *Row) error {
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
func (t *Batch) reroute(r *Row, route func(queue.Row) (queue.Arrival, error)) error {
	a, err := callRoute(r.Public(false), route)
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
func (t *Batch) place(r *Row, a queue.Arrival) {
	t.change(r)
	r.Lane, r.OrderKey, r.Flow, r.Task, r.Event = a.Lane, a.OrderKey, a.Flow, a.Task, a.Event
}

// bodySwept reports whether what a finished row carried is past its time.
func (t *Batch) bodySwept(r *Row) bool {
	since := max(r.LastAt, r.FinishedAt, r.ReceivedAt)
	return r.Body == nil && r.Meta == nil && r.KeepBodyMS < r.RetentionMS &&
		t.now >= since+Stamp(r.KeepBodyMS)
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
func (t *Batch) Discard(k queue.Kind, id string, by queue.Action,
	then func(queue.View, queue.Row) queue.Settlement) error {
	return t.act(k, id, by, func(r *Row) error {
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
func (t *Batch) Acknowledge(id string, by queue.Action,
	then func(queue.View, queue.Row) queue.Settlement) error {
	return t.act(queue.Effect, id, by, func(r *Row) error {
		if err := inState(r, queue.Held, queue.Dead, queue.Expired); err != nil {
			return err
		}
		return t.settleRow(r, queue.Settlement{State: queue.Done, Then: then,
			Error: fmt.Sprintf("%s says that it happened: %s", by.Actor, by.Reason)})
	})
}

// Accept makes a conflicting arrival a new revision of its callback.
func (t *Batch) Accept(id string, n int64, by queue.Action,
	route func(queue.Row) (queue.Arrival, error)) (string, error) {
	var revision string
	err := t.act(queue.Callback, id, by, func(r *Row) error {
		d, err := t.Arrivals.get(ArrivalKey{r.Seq, n})
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

func (t *Batch) accept(r *Row, d *Arrival,
	route func(queue.Row) (queue.Arrival, error)) (string, error) {
	next := r.Public(false)
	next.Meta, next.Body, next.Fingerprint = d.Meta, d.Body, d.Fingerprint
	a, err := callRoute(next, route)
	if err != nil {
		return "", err
	}
	a.Identity = once.DeriveIdentity(next.Identity, "revision", int(d.N))
	a.Fingerprint, a.Peer, a.Cause = next.Fingerprint, d.Peer, r.ID()
	if err := t.checkArrivals([]queue.Arrival{a}); err != nil {
		return "", err
	}
	made, fresh, err := t.insert(&a, r.Revision+len(r.Accepted)+1)
	if err != nil {
		return "", err
	}
	if !fresh {
		return "", fmt.Errorf("arrival %d was accepted before: %w", d.N, once.ErrState)
	}
	t.Arrivals.change(d.key())
	d.Accepted = made.ID()
	t.change(r)
	r.Accepted = append(append([]Revision(nil), r.Accepted...),
		Revision{N: d.N, Fingerprint: d.Fingerprint, ID: made.ID()})
	return made.ID(), nil
}
