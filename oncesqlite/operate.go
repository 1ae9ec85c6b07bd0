package oncesqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// errAction refuses an action that doesn't say who and why.
var errAction = errors.New("an action needs an actor and a reason")

// act runs an action of a person on a row in one transaction, and keeps it.
func (s *Store) act(ctx context.Context, k queue.Kind, id string, by queue.Action,
	fn func(*txn, *stored) error) error {
	if by.Actor == "" || by.Reason == "" {
		return errAction
	}
	err := s.do(ctx, &op{run: func(t *txn) error {
		row, err := s.rowByID(t.c, k, id)
		if err != nil {
			return err
		}
		if err := fn(t, row); err != nil {
			return err
		}
		return t.record(k.String()+"/"+id, by)
	}})
	return actErr(by, k, id, err)
}

func actErr(by queue.Action, k queue.Kind, id string, err error) error {
	if err == nil {
		return nil
	}
	if storeFault(err) {
		err = unavailable(err)
	}
	return fmt.Errorf("%s %v %s: %w", by.Name, k, id, err)
}

func (t *txn) record(target string, by queue.Action) error {
	return t.c.exec("INSERT INTO audit (at, target, action, actor, reason) VALUES (?, ?, ?, ?, ?)",
		t.now, target, by.Name, by.Actor, by.Reason)
}

// inState refuses a row that is in none of the states.
func inState(row *stored, allowed ...queue.State) error {
	for _, s := range allowed {
		if row.State == s {
			return nil
		}
	}
	return fmt.Errorf("it is %s: %w", row.State, once.ErrState)
}

// Retry makes a parked, unrouted, dead or held row due again.
func (s *Store) Retry(ctx context.Context, k queue.Kind, id string, by queue.Action,
	route func(queue.Row) (queue.Arrival, error)) error {
	return s.act(ctx, k, id, by, func(t *txn, row *stored) error {
		err := inState(row, queue.Parked, queue.Unrouted, queue.Dead, queue.Held)
		if err != nil {
			return err
		}
		if row.State == queue.Unrouted && t.bodySwept(row) {
			return fmt.Errorf("its body is not kept any more: %w", once.ErrState)
		}
		handled := k == queue.Callback && row.Flow == "" // its lane may be nobody's by now
		if route != nil && (row.State == queue.Unrouted || handled && !t.bodySwept(row)) {
			if err := t.reroute(row, route); err != nil {
				return err
			}
		}
		return t.makeDue(row)
	})
}

// reroute gives a row the place that it has by today's configuration.
func (t *txn) reroute(row *stored, route func(queue.Row) (queue.Arrival, error)) error {
	a, err := callRoute(row.Row, route)
	if err != nil {
		return err
	}
	if a.State == queue.Unrouted {
		return fmt.Errorf("nothing is declared for event %q yet: %w", row.Event, once.ErrState)
	}
	if id, ok := t.s.lanes[a.Lane]; ok && id == row.lane && row.State != queue.Unrouted {
		return nil // it keeps its place
	}
	if err := t.leaveLine(row); err != nil {
		return err
	}
	return t.place(row, a)
}

// place gives a row that is in no line the place of an arrival.
func (t *txn) place(row *stored, a queue.Arrival) (err error) {
	if row.lane, err = t.laneFor(a.Lane, row.Kind); err != nil {
		return err
	}
	row.OrderKey, row.Flow, row.Task, row.Event = a.OrderKey, a.Flow, a.Task, a.Event
	err = t.c.exec("UPDATE rows SET lane = ?, order_key = ?, flow = ?, task = ?, event = ? "+
		"WHERE seq = ?", row.lane, a.OrderKey, a.Flow, a.Task, a.Event, row.Seq)
	if err != nil {
		return err
	}
	return t.indexAgain(row)
}

// bodySwept reports whether what a finished row carried is past its time.
func (t *txn) bodySwept(row *stored) bool {
	since := max(micros(row.LastAt), micros(row.FinishedAt))
	return row.Body == nil && row.Meta == nil && row.keepBody < row.retention &&
		t.now >= since+row.keepBody
}

// callRoute calls the caller's function inside the transaction: a panic in it is an error.
func callRoute(row queue.Row, route func(queue.Row) (queue.Arrival, error)) (a queue.Arrival,
	err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p}
		}
	}()
	return route(row)
}

// Discard gives up a row that is not finished and in nobody's hands.
func (s *Store) Discard(ctx context.Context, k queue.Kind, id string, by queue.Action,
	then func(queue.View, queue.Row) queue.Settlement) error {
	return s.act(ctx, k, id, by, func(t *txn, row *stored) error {
		err := inState(row, queue.Pending, queue.Parked, queue.Unrouted, queue.Dead, queue.Held,
			queue.Expired)
		if err != nil {
			return err
		}
		reason := fmt.Sprintf("discarded by %s: %s", by.Actor, by.Reason)
		return t.giveUp(row, queue.Settlement{State: queue.Discarded, Error: reason, Then: then})
	})
}

// Acknowledge says of an effect that it happened.
func (s *Store) Acknowledge(ctx context.Context, id string, by queue.Action,
	then func(queue.View, queue.Row) queue.Settlement) error {
	return s.act(ctx, queue.Effect, id, by, func(t *txn, row *stored) error {
		if err := inState(row, queue.Held, queue.Dead, queue.Expired); err != nil {
			return err
		}
		return t.settleRow(row, queue.Settlement{State: queue.Done, Then: then,
			Error: fmt.Sprintf("%s says that it happened: %s", by.Actor, by.Reason)})
	})
}

// Accept makes a conflicting arrival a new revision of its callback.
func (s *Store) Accept(ctx context.Context, id string, n int64, by queue.Action,
	route func(queue.Row) (queue.Arrival, error)) (string, error) {
	var revision string
	err := s.act(ctx, queue.Callback, id, by, func(t *txn, row *stored) error {
		c := queue.StoredArrival{}
		found, err := t.c.one("SELECT outcome, fingerprint, meta, body, accepted, peer "+
			"FROM receipts WHERE seq = ? AND n = ?", func(r *stmt) {
			c.Outcome, c.Meta, c.Body = queue.Outcome(r.text(0)), r.blob(2), r.blob(3)
			copy(c.Fingerprint[:], r.raw.ColumnRawBlob(1))
			c.Accepted, c.Peer = r.text(4), r.text(5)
		}, row.Seq, n)
		switch {
		case err != nil:
			return err
		case !found:
			return fmt.Errorf("arrival %d: %w", n, once.ErrNotFound)
		case c.Outcome != queue.Conflict || c.Accepted != "" || c.Body == nil:
			return fmt.Errorf("arrival %d is no conflict that can be accepted: %w", n,
				once.ErrState)
		}
		revision, err = t.accept(row, n, c, route)
		return err
	})
	return revision, err
}

func (t *txn) accept(row *stored, n int64, c queue.StoredArrival,
	route func(queue.Row) (queue.Arrival, error)) (string, error) {
	next := row.Row
	next.Meta, next.Body, next.Fingerprint = c.Meta, c.Body, c.Fingerprint
	a, err := callRoute(next, route)
	if err != nil {
		return "", err
	}
	last, err := t.c.int("SELECT count(*) FROM receipts WHERE seq = ? AND accepted IS NOT NULL",
		row.Seq)
	if err != nil {
		return "", err
	}
	a.Identity = once.DeriveIdentity(row.Identity, "revision", int(n))
	a.Fingerprint, a.Peer, a.Cause = c.Fingerprint, c.Peer, row.ID()
	if err := checkArrivals([]queue.Arrival{a}); err != nil {
		return "", err
	}
	_, fresh, err := t.insert(&a, int64(row.Revision)+last+1)
	if err != nil {
		return "", err
	}
	if !fresh {
		return "", fmt.Errorf("arrival %d was accepted before: %w", n, once.ErrState)
	}
	id := a.Identity.ID()
	return id, t.c.exec("UPDATE receipts SET accepted = ? WHERE seq = ? AND n = ?", id, row.Seq, n)
}
