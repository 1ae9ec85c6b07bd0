package turn

import (
	"errors"
	"fmt"
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
	dueAtLeast = 4
	// maxPassed bounds the due rows that a Lease of fresh ones passes over.
	maxPassed = 4096
	// defaultMaxLost is how many attempts in a row a row may lose before it is a dead letter.
	defaultMaxLost = 5
)

// CheckLease refuses a request that asks for nothing.
func CheckLease(r queue.LeaseRequest) error {
	if r.Max < 1 || r.For <= 0 || r.Lane == "" {
		return fmt.Errorf("lease: lane %q, max %d, for %v: want a lane, at least "+
			"one row and a time above 0", r.Lane, r.Max, r.For)
	}
	return nil
}

// Lease takes due rows of a lane, in order, one of each order key.
func (t *Batch) Lease(r queue.LeaseRequest) (out queue.Leased, err error) {
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
			if len(out.Rows) == r.Max || t.Full() {
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

func (t *Batch) leaseOne(row *Row, r queue.LeaseRequest, out *queue.Leased) (leaseNext, error) {
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
	if out.Rows = append(out.Rows, row.Public(false)); row.Lost > 0 {
		return leaseEnd, nil
	}
	return leaseMore, nil
}

// due returns rows of a lane that are due, in order. after is 0 or the last one that was looked at.
func (t *Batch) due(lane string, after int64, limit int) ([]*Row, error) {
	q := RowQuery{Lane: lane, Phases: []Phase{Ready}, After: after}
	if after > 0 {
		return t.selectRows(q, limit)
	}
	from, all := t.lookFrom(lane)
	q.After = max(from-1, 0)
	rows, err := t.selectRows(q, limit)
	if err != nil {
		return nil, err
	}
	first := int64(0)
	if len(rows) > 0 {
		first = rows[0].Seq
	}
	t.noteHead(lane, first, all)
	return rows, nil
}

// dueFresh returns rows of a lane that are due and were never tried, in order. A row that was tried
// and has a key is passed over only if it stands in line, so that later ones of its key wait for
// it.
func (t *Batch) dueFresh(lane string, after int64, limit int) ([]*Row, error) {
	var out []*Row
	for passed := 0; passed < maxPassed; {
		rows, err := t.due(lane, after, dueChunk)
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
func (t *Batch) hold(r *Row, d time.Duration) {
	t.change(r)
	t.count(RowCounter(r.Kind(), r.Source, r.State), -1)
	r.Attempt++
	r.Fence++
	r.StartedAt = t.now
	r.SetPhase(Working)
	r.LeaseUntil, r.Node = t.now.Add(d), t.Node
	t.timer(r.LeaseUntil + 1)
	t.count(RowCounter(r.Kind(), r.Source, r.State), 1)
	t.setLane(r.Lane, func(l *LaneState) {
		if l.Working++; r.Lost > 0 {
			l.Suspects++
		}
	})
}

// letGo ends the lease of a row that somebody has in hand; the caller gives it another phase.
func (t *Batch) letGo(r *Row) {
	if r.Phase != Working {
		return
	}
	t.change(r)
	r.LeaseUntil, r.Node = 0, ""
	suspect := r.Lost > 0
	t.setLane(r.Lane, func(l *LaneState) {
		if l.Working--; suspect {
			l.Suspects--
		}
	})
}

// endLost makes a row whose workers were lost a dead letter, or holds it, and reports whether it
// did.
func (t *Batch) endLost(r *Row, req queue.LeaseRequest) (bool, error) {
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
		set.Block = req.Block(r.Public(false))
	}
	return true, t.giveUp(r, set)
}

// backToDue makes a row due again whose worker is gone: nobody knows how far it came.
func (t *Batch) backToDue(r *Row, reason string) error {
	t.change(r)
	before := r.State
	t.letGo(r)
	r.Lost++
	r.SetPhase(Ready)
	r.NextAt = 0
	t.addAttempt(r, "lost", reason)
	t.count(RowCounter(r.Kind(), r.Source, before), -1)
	t.count(RowCounter(r.Kind(), r.Source, r.State), 1)
	t.ring(r.Lane)
	return t.passLine(r)
}

// granted returns the row of a grant, if it is still its owner's.
func (t *Batch) granted(g queue.Grant) (*Row, error) {
	r, err := t.row(g.Seq)
	if errors.Is(err, once.ErrNotFound) ||
		err == nil && (r.Phase != Working || r.Fence != g.Fence) {
		return nil, once.ErrLeaseLost
	}
	return r, err
}

// Renew moves the end of leases. It returns one error a grant; the second is the store's own.
func (t *Batch) Renew(grants []queue.Grant, d time.Duration) ([]error, error) {
	errs := make([]error, len(grants))
	if err := t.Prefetch(grants); err != nil {
		return nil, err
	}
	for i, g := range grants {
		r, err := t.granted(g)
		if IsFault(err) {
			return nil, err
		}
		if errs[i] = err; err == nil {
			t.change(r)
			r.LeaseUntil = t.now.Add(d)
			t.timer(r.LeaseUntil + 1)
		}
	}
	return errs, nil
}

// Prefetch reads the rows of grants in one question, so that no operation has to ask for its own.
func (t *Batch) Prefetch(grants []queue.Grant) error {
	seqs := make([]int64, len(grants))
	for i, g := range grants {
		seqs[i] = g.Seq
	}
	return t.Rows.load(seqs)
}
