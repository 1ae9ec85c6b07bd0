package oncesqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncekit/once/queue"
)

// op is something to be done in a transaction of the writer.
type op struct {
	run func(*txn) error
	// alone is true for a run that is one statement, has no effect when it fails, or makes its own
	// savepoints: it needs none.
	alone bool
	err   error
	done  chan struct{}
}

// maxBatch bounds the operations that share a transaction, so that a commit stays short.
const maxBatch = 1024

// do hands an operation to the writer and waits until it is durable.
func (s *Store) do(ctx context.Context, o *op) error {
	o.done = make(chan struct{})
	select {
	case s.ops <- o:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.quit:
		return errClosed
	}
	select {
	case <-o.done: // the writer ends what it took, also when it closes
		return o.err
	case <-s.ended: // it may have been handed over just after the writer's last look
	}
	select {
	case <-o.done:
		return o.err
	default:
		return errClosed
	}
}

// write is the goroutine that writes.
func (s *Store) write() {
	defer close(s.ended)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var g gathering
	for {
		timer.Reset(s.untilHousekeeping())
		batch := s.batch[:0]
		select {
		case o := <-s.ops:
			batch = append(batch, o)
		case <-timer.C:
		case <-s.quit:
			s.finish()
			return
		}
		s.batch = s.gather(s.drain(batch), &g)
		s.commit(s.batch)
		g = gathering{size: len(s.batch), ended: time.Now()}
		clear(s.batch)
		s.forceCheckpoint()
	}
}

// gathering is what is known of the commit before.
type gathering struct {
	size  int // its operations
	ended time.Time
}

const (
	// gatherFrom is the size of a commit from which many are taken to be at work: below it an
	// operation never waits for others.
	gatherFrom = 16
	// maxGatherWait bounds what an operation waits for others to share its flush: about as long as
	// a flush takes.
	maxGatherWait = 2 * time.Millisecond
	// gatherPause is how long nobody may come until nobody more is expected.
	gatherPause = 200 * time.Microsecond
	// gatherEnough is a batch in which the cost of a flush is small beside that of its operations.
	gatherEnough = 256
)

// gather waits a moment, under load, for those who were just answered to come again. A commit that
// begins with the first of them would let all the others wait for its flush.
func (s *Store) gather(batch []*op, g *gathering) []*op {
	if g.size < gatherFrom || len(batch) >= gatherEnough || time.Since(g.ended) > maxGatherWait {
		return batch
	}
	pause := time.NewTimer(gatherPause)
	defer pause.Stop()
	for len(batch) < gatherEnough && time.Since(g.ended) < maxGatherWait {
		select {
		case o := <-s.ops:
			batch = s.drain(append(batch, o))
			pause.Reset(gatherPause)
		case <-pause.C:
			return batch
		case <-s.quit:
			return batch
		}
	}
	return batch
}

// drain adds what waits already, up to a full batch.
func (s *Store) drain(batch []*op) []*op {
	for len(batch) < maxBatch {
		select {
		case o := <-s.ops:
			batch = append(batch, o)
		default:
			return batch
		}
	}
	return batch
}

// finish ends what was handed over, and says in the store that it was closed in order.
func (s *Store) finish() {
	for {
		batch := s.drain(nil)
		if len(batch) == 0 {
			break
		}
		s.commit(batch)
	}
	err := s.transact(nil, func(t *txn) error {
		if err := s.notes.flush(t, 0); err != nil {
			return err
		}
		return t.setMeta(metaClean, 1)
	})
	if err != nil {
		s.cfg.Logger.Error("the store was not closed in order", "error", err)
	}
}

// commit runs a batch in one transaction and answers each operation.
func (s *Store) commit(batch []*op) {
	err := s.transact(batch, s.housekeep)
	for byHandler(err) { // each time without one more settlement: Settle leaves out the culprit
		err = s.transact(batch, s.housekeep)
	}
	s.noteHealth(err, len(batch))
	if err == nil {
		s.cfg.Probe(PointReply)
	}
	for _, o := range batch {
		if err != nil {
			o.err = unavailable(err)
		}
		close(o.done)
	}
}

// transact runs what is to be done in one transaction and makes it durable.
func (s *Store) transact(batch []*op, extra func(*txn) error) (err error) {
	if err := s.present.check(); err != nil {
		return err
	}
	if err := s.mend(); err != nil {
		return err
	}
	ctx := context.Background() // the writer's own work is not a caller's
	tx, err := s.w.sql.BeginTx(ctx, nil)
	if err != nil {
		s.damaged = true
		return fmt.Errorf("begin: %w", err)
	}
	t := &txn{s: s, c: s.w, now: s.clock.now(), tx: tx,
		rang: map[int64]struct{}{}}
	err = t.runAll(batch, extra)
	if err == nil {
		err = s.flushCounts(t)
	}
	if err != nil {
		t.rewind(mark{})
		gone := s.w.raw.GetAutocommit()
		if e := tx.Rollback(); !gone { // it ends database/sql's view of the transaction, too
			err = errors.Join(err, e)
		}
		s.damaged = !byHandler(err)
		return err
	}
	s.cfg.Probe(PointCommit)
	if err := tx.Commit(); err != nil {
		t.rewind(mark{})
		s.damaged = true
		return fmt.Errorf("commit: %w", err)
	}
	t.committed()
	return nil
}

// runAll runs the operations, each so that its failure undoes only itself.
func (t *txn) runAll(batch []*op, extra func(*txn) error) error {
	if err := extra(t); err != nil {
		return err
	}
	for _, o := range batch {
		if o.alone {
			o.err = o.run(t)
		} else {
			o.err = t.savepoint(func() error { return o.run(t) })
		}
		if o.err == nil {
			continue
		}
		if t.c.raw.GetAutocommit() {
			return t.lost(o.err)
		}
		if storeFault(o.err) {
			return o.err
		}
	}
	return nil
}

// committed makes the transaction known in memory and rings the lanes in which rows became due.
func (t *txn) committed() {
	s := t.s
	for _, fn := range t.after {
		fn()
	}
	for _, d := range t.deltas {
		s.counts.add(d.key, d.n)
	}
	if t.timers {
		s.loadTimers()
	}
	for lane := range t.rang {
		s.bells.ring(s.laneNames[lane])
	}
}

// mend opens the connection again after a fault, so that a store that comes back is used again.
func (s *Store) mend() error {
	if !s.damaged {
		return nil
	}
	if s.w != nil {
		if err := s.w.close(); err != nil {
			s.cfg.Logger.Warn("close a damaged connection", "error", err)
		}
		s.w = nil
	}
	w, err := openWriter(context.Background(), s.writerDSN(), s.initWriter)
	if err != nil {
		return fmt.Errorf("open again: %w", err)
	}
	s.w = w
	if err := s.reload(); err != nil {
		return err
	}
	s.damaged, s.mended = false, true
	return nil
}

// reconcile makes the leases in memory and the rows in the file agree after a fault: of a commit
// that failed nobody knows whether it is in the file.
func (t *txn) reconcile() error {
	s := t.s
	for seq, l := range s.working {
		fence, err := t.c.int("SELECT fence FROM rows WHERE seq = ? AND phase = 3", seq)
		if err != nil {
			return err
		}
		if fence != l.fence {
			t.letGo(seq, l)
		}
	}
	t.after = append(t.after, func() { s.mended = false })
	return t.takeBack(false)
}

// Transact runs fn in a transaction and applies the settlement it returns.
func (s *Store) Transact(ctx context.Context, fn func(queue.View) (queue.Settlement, error)) error {
	return s.do(ctx, &op{run: func(t *txn) error {
		set, err := t.decide(func() (queue.Settlement, error) { return fn(t.view()) })
		if err != nil {
			return err
		}
		return t.applyChanges(set, nil)
	}})
}
