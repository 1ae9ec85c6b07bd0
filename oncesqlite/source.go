package oncesqlite

import (
	"context"
	"fmt"

	"github.com/oncekit/once/queue"
)

// DiscardSource gives up the unfinished callbacks of a source that is gone. What is remembered of
// the others stays until the end of its retention. It returns how many it gave up, and may be
// called again after an error.
func (s *Store) DiscardSource(ctx context.Context, source, reason string) (int64, error) {
	n, err := s.eachUnfinished(ctx, queue.Callback, "source = ?", []any{source},
		discardFor(reason, nil))
	if err != nil {
		return n, fmt.Errorf("discard callbacks of source %s: %w", source, err)
	}
	return n, nil
}

// MoveSource makes the unfinished callbacks of a source that is gone, and the unrouted ones, those
// of another: route says where that one has them worked. They keep their identity, so a repeat that
// is sent to the other source counts as new. What is dead or held stays so; what was parked is
// looked at again. It returns how many it moved, and may be called again after an error.
func (s *Store) MoveSource(ctx context.Context, from, to string,
	route func(queue.Row) (queue.Arrival, error)) (int64, error) {
	if from == to {
		return 0, nil
	}
	n, err := s.eachUnfinished(ctx, queue.Callback, "source = ?", []any{from},
		func(t *txn, row *stored) error { return t.moveSource(row, to, route) })
	if err == nil {
		var unrouted int64
		unrouted, err = s.renameUnrouted(ctx, from, to)
		n += unrouted
	}
	if err != nil {
		return n, fmt.Errorf("move callbacks of source %s to %s: %w", from, to, err)
	}
	return n, nil
}

// moveSource gives a row another source, and the place that it has there.
func (t *txn) moveSource(row *stored, to string,
	route func(queue.Row) (queue.Arrival, error)) error {
	if err := t.rename(row, to); err != nil {
		return err
	}
	a, err := callRoute(row.Row, route)
	waits := row.State == queue.Pending || row.State == queue.Parked
	switch {
	case err != nil && waits:
		return t.giveUp(row, queue.Settlement{State: queue.Dead, DeadCause: queue.CausePermanent,
			Error: fmt.Sprintf("source %s can't take it: %v", to, err)})
	case err != nil: // whoever wants it tried again is told then
		return t.indexAgain(row)
	case a.State == queue.Unrouted && waits:
		return t.giveUp(row, queue.Settlement{State: queue.Unrouted,
			Error: fmt.Sprintf("source %s has no place for it", to)})
	case a.State == queue.Unrouted:
		return t.indexAgain(row)
	}
	if err := t.leaveLine(row); err != nil {
		return err
	}
	if a.Flow != row.Flow || a.Task != row.Task { // else it keeps its turn
		if err := t.dropWaits(row); err != nil {
			return err
		}
	}
	if err := t.place(row, a); err != nil {
		return err
	}
	if waits {
		return t.makeDue(row)
	}
	if row.flags&flagBlock != 0 { // it blocks its key there, too
		if err := t.enterLine(row); err != nil {
			return err
		}
	}
	return t.c.exec("UPDATE rows SET flags = ? WHERE seq = ?", row.flags, row.Seq)
}

// dropWaits ends the waits of a row that is worked elsewhere. If it was woken and did not get its
// turn, the next one that waits for the same gets it.
func (t *txn) dropWaits(row *stored) error {
	waits, woken := row.Waits, row.State == queue.Pending
	if err := t.endWaits(row); err != nil {
		return err
	}
	err := t.c.exec("UPDATE rows SET waits = NULL, wait_until = NULL WHERE seq = ?", row.Seq)
	for i := 0; woken && err == nil && i < len(waits); i++ {
		err = t.wake(queue.Wake{Wait: waits[i], First: true}, row)
	}
	return err
}

// rename gives a row another source. The caller has it indexed again.
func (t *txn) rename(row *stored, to string) error {
	t.count(rowCounter(row.Kind, row.Source, row.State), -1)
	t.count(rowCounter(row.Kind, to, row.State), 1)
	row.Source = to
	return t.c.exec("UPDATE rows SET source = ? WHERE seq = ?", to, row.Seq)
}

// renameUnrouted gives unrouted callbacks another source: it decides when somebody retries them.
func (s *Store) renameUnrouted(ctx context.Context, from, to string) (int64, error) {
	query := "SELECT seq FROM rows WHERE phase = 8 AND kind = ? AND source = ? ORDER BY seq"
	return s.eachRow(ctx, query, []any{int64(queue.Callback), from},
		func(t *txn, row *stored) error {
			if err := t.rename(row, to); err != nil {
				return err
			}
			return t.indexAgain(row)
		})
}
