package oncesqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// lineKey names an order line.
type lineKey struct {
	lane int64
	key  string
}

// lease is a row in somebody's hands. Leases live in memory alone: another process can't have the
// file, and the rows of an earlier one are taken back at start.
type lease struct {
	fence int64
	until int64 // by instant.lap
	line  lineKey
	// suspect is true for a row whose worker was lost before.
	suspect bool
}

const (
	// maxExamined bounds the due rows that one Lease looks at, the ones in line included.
	maxExamined = 512
	// dueChunk bounds the rows that are read at once: their bodies may be long.
	dueChunk = 64
	// maxPassed bounds the due rows that a Lease of fresh ones passes over.
	maxPassed = 4096
)

// Lease takes due rows of a lane, in order, one of each order key.
func (s *Store) Lease(ctx context.Context, r queue.LeaseRequest) (queue.Leased, error) {
	if r.Max < 1 || r.For <= 0 || r.Lane == "" {
		return queue.Leased{}, fmt.Errorf("lease: lane %q, max %d, for %v: want a lane, at least "+
			"one row and a time above 0", r.Lane, r.Max, r.For)
	}
	var out queue.Leased
	err := s.do(ctx, &op{run: func(t *txn) error {
		lane, err := t.lane(r.Lane)
		if err != nil {
			return err
		}
		out, err = t.lease(lane, r)
		return err
	}})
	if err != nil {
		return queue.Leased{}, unavailable(err)
	}
	return out, nil
}

func (t *txn) lease(lane int64, r queue.LeaseRequest) (out queue.Leased, err error) {
	inHand, suspect := t.working(lane)
	if suspect {
		return out, nil // a row whose worker was lost before is worked alone until it is through
	}
	for examined := 0; examined < maxExamined; {
		due := t.due
		if r.Fresh {
			due = t.dueFresh
		}
		rows, err := due(lane, min(r.Max-len(out.Rows)+1, dueChunk))
		if err != nil || len(rows) == 0 {
			return out, err
		}
		examined += len(rows)
		for _, row := range rows { // each one leaves the rows that are due
			if len(out.Rows) == r.Max {
				out.More = true
				return out, nil
			}
			behind, err := t.isBehind(row)
			if err != nil {
				return out, err
			}
			if behind {
				if err := t.joinLine(row); err != nil {
					return out, err
				}
				continue
			}
			if ended, err := t.endLost(row, r); err != nil {
				return out, err
			} else if ended { // the next of its key may be due, before those that were read
				break
			}
			if row.Lost > 0 && len(out.Rows)+inHand > 0 {
				return out, nil
			}
			if err := t.take(row, r); err != nil {
				return out, err
			}
			if out.Rows = append(out.Rows, row.Row); row.Lost > 0 {
				return out, nil
			}
		}
	}
	out.More = true
	return out, nil
}

// working returns how many rows of a lane are in somebody's hands, and whether one of them lost a
// worker before.
func (t *txn) working(lane int64) (n int, suspect bool) {
	for _, l := range t.s.working {
		if l.line.lane == lane {
			n++
			suspect = suspect || l.suspect
		}
	}
	return n, suspect
}

// due returns rows of a lane that are due, in order.
func (t *txn) due(lane int64, limit int) ([]*stored, error) {
	var rows []*stored
	err := t.c.query("SELECT "+rowColumns+" FROM rows WHERE phase = 0 AND lane = ? "+
		"ORDER BY seq LIMIT ?", func(r *stmt) error {
		row, err := scanRow(r, true)
		rows = append(rows, row)
		return err
	}, lane, limit)
	return rows, err
}

// dueFresh returns rows of a lane that are due and were never tried, in order. A row that was tried
// and has a key is passed over only if it stands in line, so that later ones of its key wait for
// it.
func (t *txn) dueFresh(lane int64, limit int) ([]*stored, error) {
	var found []int64
	passed := 0
	err := t.c.query("SELECT seq, attempt, flags, order_key <> '' FROM rows "+
		"WHERE phase = 0 AND lane = ? ORDER BY seq", func(r *stmt) error {
		tried, keyed := r.int(1) > 0, r.int(3) != 0
		if tried && (!keyed || r.int(2)&flagInLine != 0) {
			passed++
		} else {
			found = append(found, r.int(0))
		}
		if len(found) == limit || passed == maxPassed {
			return errEnough
		}
		return nil
	}, lane)
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	rows := make([]*stored, len(found))
	for i, seq := range found {
		if rows[i], err = t.rowBy(bySeq, seq); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// errEnough ends a query whose further rows are of no interest.
var errEnough = errors.New("enough")

// take gives a due row to the caller.
func (t *txn) take(row *stored, r queue.LeaseRequest) error {
	row.Attempt++
	row.Fence++
	row.StartedAt = timeOf(t.now)
	row.State = row.Kind.Working()
	err := t.c.exec("UPDATE rows SET phase = 3, attempt = ?, fence = ?, started_at = ? "+
		"WHERE seq = ?", row.Attempt, row.Fence, t.now, row.Seq)
	if err != nil {
		return err
	}
	t.count(rowCounter(row.Kind, row.Source, queue.Pending), -1)
	t.count(rowCounter(row.Kind, row.Source, row.State), 1)
	t.hold(row, t.lap+r.For.Microseconds())
	return nil
}

// hold notes in memory who has a row and its order key.
func (t *txn) hold(row *stored, until int64) {
	s, seq, line := t.s, row.Seq, lineKey{row.lane, row.OrderKey}
	s.working[seq] = &lease{fence: row.Fence, until: until, line: line,
		suspect: row.Lost > 0}
	if line.key != "" {
		s.busy[line] = seq
	}
	t.onUndo(func() { s.letGo(seq, line) })
}

// letGo is the reverse of hold.
func (s *Store) letGo(seq int64, line lineKey) {
	delete(s.working, seq)
	if s.busy[line] == seq {
		delete(s.busy, line)
	}
}

// endLost makes a row whose workers were lost a dead letter, or holds it, and reports whether it
// did.
func (t *txn) endLost(row *stored, r queue.LeaseRequest) (bool, error) {
	maxLost := r.MaxLost
	if maxLost <= 0 {
		maxLost = defaultMaxLost
	}
	if row.Lost == 0 || row.Lost < maxLost && !r.HoldLost {
		return false, nil
	}
	set := queue.Settlement{State: queue.Dead, DeadCause: queue.CausePoison,
		Error: fmt.Sprintf("worker lost %d times in a row while it had this", row.Lost)}
	if r.HoldLost {
		set = queue.Settlement{State: queue.Held,
			Error: "worker lost; nobody can know whether the attempt had its effect"}
	}
	set.Block = r.Block != nil && r.Block(row.Row)
	return true, t.giveUp(row, set)
}

// Renew moves the end of leases.
func (s *Store) Renew(ctx context.Context, grants []queue.Grant, d time.Duration) []error {
	errs := make([]error, len(grants))
	err := s.do(ctx, &op{alone: true, run: func(t *txn) error {
		for i, g := range grants {
			if l := s.working[g.Seq]; l != nil && l.fence == g.Fence {
				l.until = t.lap + d.Microseconds()
				continue
			}
			errs[i] = once.ErrLeaseLost
		}
		return nil
	}})
	return allErrs(errs, err)
}

// allErrs gives every caller the error of the whole.
func allErrs(errs []error, err error) []error {
	if err == nil {
		return errs
	}
	for i := range errs {
		errs[i] = unavailable(err)
	}
	return errs
}
