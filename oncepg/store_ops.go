package oncepg

import (
	"context"
	"fmt"
	"time"

	"github.com/oncekit/once/internal/turn"
	"github.com/oncekit/once/queue"
)

// Lease takes due rows of a lane, in order, one of each order key.
func (s *Store) Lease(ctx context.Context, r queue.LeaseRequest) (out queue.Leased, err error) {
	if err := turn.CheckLease(r); err != nil {
		return out, err
	}
	err = s.do(ctx, false, func(t *turn.Batch) (err error) {
		out, err = t.Lease(r)
		return err
	})
	if err != nil {
		return queue.Leased{}, err
	}
	return out, nil
}

// Renew moves the end of leases.
func (s *Store) Renew(ctx context.Context, grants []queue.Grant, d time.Duration) []error {
	errs := make([]error, len(grants))
	if len(grants) == 0 {
		return errs
	}
	err := s.doGranted(ctx, grants, func(t *turn.Batch) (err error) {
		errs, err = t.Renew(grants, d)
		return err
	})
	return allErrs(errs, len(grants), err)
}

// Settle applies settlements, each whole or not at all, all with one commit.
func (s *Store) Settle(ctx context.Context, settlements []queue.Settlement) []error {
	errs := make([]error, len(settlements))
	if len(settlements) == 0 {
		return errs
	}
	err := s.doGranted(ctx, turn.Grants(settlements), func(t *turn.Batch) (err error) {
		errs, err = t.Settle(settlements)
		return err
	})
	return allErrs(errs, len(settlements), err)
}

// allErrs gives every caller the error of the whole.
func allErrs(errs []error, n int, err error) []error {
	if err == nil {
		return errs
	}
	errs = make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// Step takes due rows of a lane in order and settles them in one commit.
func (s *Store) Step(ctx context.Context, r queue.StepRequest) (out queue.Stepped, err error) {
	if err := turn.CheckStep(r); err != nil {
		return out, err
	}
	if err := s.markStepped(ctx, r.Lane); err != nil {
		return out, err
	}
	single := false
	err = s.do(ctx, false, func(t *turn.Batch) (err error) {
		if single = t.StepsSingly(r.Lane); single {
			return nil
		}
		out, err = t.Step(r)
		return err
	})
	if err == nil && single {
		out, err = s.stepSingly(ctx, r)
	}
	if err != nil {
		return queue.Stepped{}, err
	}
	return out, nil
}

// markStepped writes down that rows of a lane are decided on in this store, before the first of
// them is: should one of them end the process, it can be found.
func (s *Store) markStepped(ctx context.Context, lane string) error {
	if _, known := s.stepped.Load(lane); known {
		return nil
	}
	err := s.do(ctx, false, func(t *turn.Batch) error {
		t.MarkStepped(lane)
		return nil
	})
	if err == nil {
		s.stepped.Store(lane, true)
	}
	return err
}

// stepSingly works the row at the head alone, with its attempt committed first: after a lost node
// one of these rows may have been the cause.
func (s *Store) stepSingly(ctx context.Context, r queue.StepRequest) (queue.Stepped, error) {
	var grant queue.Grant
	var ok, working bool
	err := s.do(ctx, false, func(t *turn.Batch) (err error) {
		grant, ok, working, err = t.TakeSingle(r)
		return err
	})
	if err != nil || !ok {
		return queue.Stepped{More: !working}, err
	}
	err = s.do(ctx, false, func(t *turn.Batch) error { return t.WorkSingle(grant, r) })
	return queue.Stepped{Rows: 1, More: true}, err
}

// Transact applies what fn returns, but for what is about a row.
func (s *Store) Transact(ctx context.Context,
	fn func(queue.View) (queue.Settlement, error)) error {
	return s.do(ctx, false, func(t *turn.Batch) error { return t.Transact(fn) })
}

// Sweep removes bodies that are past KeepBody, rows past their retention, and tasks; and records of
// [Store.Records] past theirs.
func (s *Store) Sweep(ctx context.Context, limit int) (n int, err error) {
	if limit < 1 {
		return 0, fmt.Errorf("sweep: limit %d, want at least 1", limit)
	}
	err = s.do(ctx, false, func(t *turn.Batch) (err error) {
		n, err = t.Sweep(limit)
		return err
	})
	if err != nil || n >= limit {
		return n, err
	}
	records, err := s.records.Sweep(ctx, limit-n)
	if err != nil {
		return 0, err
	}
	return n + records, nil
}

// Reject keeps a refused message in the ring of its source.
func (s *Store) Reject(ctx context.Context, r queue.Rejected) error {
	return s.do(ctx, true, func(t *turn.Batch) error { return t.Reject(r) })
}

// act carries out an action of a person.
func (s *Store) act(ctx context.Context, k queue.Kind, id string, by queue.Action,
	fn func(*turn.Batch) error) error {
	err := turn.CheckAction(by)
	if err == nil {
		err = s.do(ctx, false, fn)
	}
	if err != nil {
		return fmt.Errorf("%s %v %s: %w", by.Name, k, id, err)
	}
	return nil
}

// Retry makes a parked, unrouted, dead or held row due again.
func (s *Store) Retry(ctx context.Context, k queue.Kind, id string, by queue.Action,
	route func(queue.Row) (queue.Arrival, error)) error {
	return s.act(ctx, k, id, by, func(t *turn.Batch) error { return t.Retry(k, id, by, route) })
}

// Discard gives up a row that is not finished and in nobody's hands.
func (s *Store) Discard(ctx context.Context, k queue.Kind, id string, by queue.Action,
	then func(queue.View, queue.Row) queue.Settlement) error {
	return s.act(ctx, k, id, by, func(t *turn.Batch) error { return t.Discard(k, id, by, then) })
}

// Acknowledge says of an effect that it happened.
func (s *Store) Acknowledge(ctx context.Context, id string, by queue.Action,
	then func(queue.View, queue.Row) queue.Settlement) error {
	return s.act(ctx, queue.Effect, id, by,
		func(t *turn.Batch) error { return t.Acknowledge(id, by, then) })
}

// Accept makes a conflicting arrival a new revision of its callback.
func (s *Store) Accept(ctx context.Context, id string, n int64, by queue.Action,
	route func(queue.Row) (queue.Arrival, error)) (revision string, err error) {
	err = s.act(ctx, queue.Callback, id, by, func(t *turn.Batch) (err error) {
		revision, err = t.Accept(id, n, by, route)
		return err
	})
	if err != nil {
		return "", err
	}
	return revision, nil
}
