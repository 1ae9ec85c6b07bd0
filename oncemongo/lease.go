package oncemongo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

const (
	// maxExamined bounds the due rows that one Lease looks at, the ones in line included.
	maxExamined = 512
	// dueChunk bounds the rows that are read at once: their bodies may be long.
	dueChunk = 64
	// dueAtLeast is how many are read if fewer are asked for: the first ones may be in line.
	dueAtLeast = 16
	// maxPassed bounds the due rows that a Lease of fresh ones passes over.
	maxPassed = 4096
	// defaultMaxLost is how many attempts in a row a row may lose before it is a dead letter.
	defaultMaxLost = 5
)

// Lease takes due rows of a lane, in order, one of each order key.
func (s *Store) Lease(ctx context.Context, r queue.LeaseRequest) (queue.Leased, error) {
	if r.Max < 1 || r.For <= 0 || r.Lane == "" {
		return queue.Leased{}, fmt.Errorf("lease: lane %q, max %d, for %v: want a lane, at least "+
			"one row and a time above 0", r.Lane, r.Max, r.For)
	}
	var out queue.Leased
	err := s.do(ctx, false, func(t *txn) (err error) {
		out, err = t.lease(r)
		return err
	})
	if err != nil {
		return queue.Leased{}, err
	}
	return out, nil
}

func (t *txn) lease(r queue.LeaseRequest) (out queue.Leased, err error) {
	if t.lane(r.Lane).Suspects > 0 {
		return out, nil // a row whose worker was lost before is worked alone until it is through
	}
	after := int64(0) // those before it have left the rows that are due
	for examined := 0; examined < maxExamined; {
		due := t.due
		if r.Fresh {
			due = t.dueFresh
		}
		rows, err := due(r.Lane, after, min(max(r.Max-len(out.Rows)+1, dueAtLeast), dueChunk))
		if err != nil || len(rows) == 0 {
			return out, err
		}
		after = rows[len(rows)-1].Seq
		if err := t.prefetchLines(r.Lane, rows); err != nil {
			return out, err
		}
		examined += len(rows)
		for _, row := range rows {
			if len(out.Rows) == r.Max || t.size > batchBytes {
				out.More = true
				return out, nil
			}
			next, err := t.leaseOne(row, r, &out)
			if err != nil || next == leaseEnd {
				return out, err
			}
			if next == leaseAgain {
				after = 0
				break
			}
		}
	}
	out.More = true
	return out, nil
}

// What follows after a due row was looked at.
type leaseNext int

const (
	leaseMore  leaseNext = iota // the next row
	leaseAgain                  // others may be due now, before those that were read
	leaseEnd                    // none
)

func (t *txn) leaseOne(row *row, r queue.LeaseRequest, out *queue.Leased) (leaseNext, error) {
	behind, err := t.isBehind(row)
	if err != nil {
		return leaseEnd, err
	}
	if behind {
		t.joinLine(row)
		return leaseMore, nil
	}
	if ended, err := t.endLost(row, r); err != nil || ended {
		return leaseAgain, err
	}
	if row.Lost > 0 && t.lane(r.Lane).Working > 0 {
		return leaseEnd, nil
	}
	t.hold(row, r.For)
	taken, err := row.public(false)
	if err != nil {
		return leaseEnd, err
	}
	if out.Rows = append(out.Rows, taken); row.Lost > 0 {
		return leaseEnd, nil
	}
	return leaseMore, nil
}

// due returns rows of a lane that are due, in order.
func (t *txn) due(lane string, after int64, limit int) ([]*row, error) {
	return t.selectIn(lane, rowQuery{Phases: []phase{phaseReady}, After: after}, limit)
}

// dueFresh returns rows of a lane that are due and were never tried, in order. A row that was tried
// and has a key is passed over only if it stands in line, so that later ones of its key wait for
// it.
func (t *txn) dueFresh(lane string, after int64, limit int) ([]*row, error) {
	var out []*row
	for passed := 0; passed < maxPassed; {
		rows, err := t.selectIn(lane, rowQuery{Phases: []phase{phaseReady}, After: after}, dueChunk)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if after = r.Seq; r.Attempt > 0 && (r.OrderKey == "" || r.InLine) {
				passed++
			} else if out = append(out, r); len(out) == limit {
				return out, nil
			}
		}
		if len(rows) < dueChunk {
			break
		}
	}
	return out, nil
}

// hold gives a due row to a worker, with its attempt counted.
func (t *txn) hold(r *row, d time.Duration) {
	t.change(r)
	t.count(rowCounter(r.kind(), r.Source, r.State), -1)
	r.Attempt++
	r.Fence++
	r.StartedAt = t.now
	r.setPhase(phaseWorking)
	r.LeaseUntil, r.Node = t.now.add(d), t.s.node
	t.timer(r.LeaseUntil + 1)
	t.count(rowCounter(r.kind(), r.Source, r.State), 1)
	t.setLane(r.Lane, func(l *laneState) {
		if l.Working++; r.Lost > 0 {
			l.Suspects++
		}
	})
}

// letGo ends the lease of a row that somebody has in hand; the caller gives it another phase.
func (t *txn) letGo(r *row) {
	if r.Phase != phaseWorking {
		return
	}
	t.change(r)
	r.LeaseUntil, r.Node = 0, ""
	suspect := r.Lost > 0
	t.setLane(r.Lane, func(l *laneState) {
		if l.Working--; suspect {
			l.Suspects--
		}
	})
}

// endLost makes a row whose workers were lost a dead letter, or holds it, and reports whether it
// did.
func (t *txn) endLost(r *row, req queue.LeaseRequest) (bool, error) {
	maxLost := req.MaxLost
	if maxLost <= 0 {
		maxLost = defaultMaxLost
	}
	if r.Lost == 0 || r.Lost < maxLost && !req.HoldLost {
		return false, nil
	}
	set := queue.Settlement{State: queue.Dead, DeadCause: queue.CausePoison,
		Error: fmt.Sprintf("worker lost %d times in a row while it had this", r.Lost)}
	if req.HoldLost {
		set = queue.Settlement{State: queue.Held,
			Error: "worker lost; nobody can know whether the attempt had its effect"}
	}
	if req.Block != nil {
		as, err := r.public(false)
		if err != nil {
			return false, err
		}
		set.Block = req.Block(as)
	}
	return true, t.giveUp(r, set)
}

// backToDue makes a row due again whose worker is gone: nobody knows how far it came.
func (t *txn) backToDue(r *row, reason string) error {
	t.change(r)
	before := r.State
	t.letGo(r)
	r.Lost++
	r.setPhase(phaseReady)
	r.NextAt = 0
	t.addAttempt(r, "lost", reason)
	t.count(rowCounter(r.kind(), r.Source, before), -1)
	t.count(rowCounter(r.kind(), r.Source, r.State), 1)
	t.ring(r.Lane)
	return t.passLine(r)
}

// granted returns the row of a grant, if it is still its owner's.
func (t *txn) granted(g queue.Grant) (*row, error) {
	r, err := t.row(g.Seq)
	if errors.Is(err, once.ErrNotFound) ||
		err == nil && (r.Phase != phaseWorking || r.Fence != g.Fence) {
		return nil, once.ErrLeaseLost
	}
	return r, err
}

// Renew moves the end of leases.
func (s *Store) Renew(ctx context.Context, grants []queue.Grant, d time.Duration) []error {
	errs := make([]error, len(grants))
	if len(grants) == 0 {
		return errs
	}
	err := s.do(ctx, false, func(t *txn) error {
		if err := t.prefetchGrants(grants); err != nil {
			return err
		}
		for i, g := range grants {
			r, err := t.granted(g)
			if storeFault(err) {
				return err
			}
			if errs[i] = err; err == nil {
				t.change(r)
				r.LeaseUntil = t.now.add(d)
				t.timer(r.LeaseUntil + 1)
			}
		}
		return nil
	})
	return allErrs(errs, err)
}

// prefetchGrants reads the rows of grants in one question a kind.
func (t *txn) prefetchGrants(grants []queue.Grant) error {
	for _, k := range []queue.Kind{queue.Callback, queue.Effect} {
		var seqs []int64
		for _, g := range grants {
			if kindOf(g.Seq) == k && !t.s.isLive(g.Seq) {
				seqs = append(seqs, g.Seq)
			}
		}
		for part := range slices.Chunk(seqs, prefetchPart) {
			if err := t.rows.of(k).load(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// allErrs gives every caller the error of the whole.
func allErrs(errs []error, err error) []error {
	if err == nil {
		return errs
	}
	for i := range errs {
		errs[i] = err
	}
	return errs
}
