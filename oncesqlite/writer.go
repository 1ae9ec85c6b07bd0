package oncesqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/oncekit/once/queue"
)

// op is something to be done in a transaction of the writer.
type op struct {
	run func(*txn) error
	// alone is true for a run that is one statement, has no effect when it fails, or makes its own
	// savepoints: it needs none.
	alone bool
	// rows is how many rows it writes; 0 counts as one. From longOp on it is a long one.
	rows int
	// leave is true if whoever waits for it leaves when its context ends, though it is still done.
	leave bool
	err   error
	done  chan struct{}
}

const (
	// maxBatch bounds the operations that share a transaction, so that a commit stays short.
	maxBatch = 1024
	// minBatch is how many share one at least, if they wait: fewer would cost a commit too often.
	minBatch = 96
	// opTime is about what one operation takes, or each row of one that writes many.
	opTime = 25 * time.Microsecond
	// longOp is how many rows make an operation a long one: those wait in a line of their own, of
	// which a transaction takes one, so that a message with a thousand callbacks holds up nobody
	// else's for longer than itself.
	longOp = 64
)

// batchSize is how many operations may share the next transaction: as many as take about as long as
// a flush. With more, those who were answered would send the next ones while the writer waits for
// them; with fewer, the writer would wait for the disk.
func (s *Store) batchSize() int {
	return int(min(max(s.flusher.took.Load()/int64(opTime), minBatch), maxBatch))
}

// do hands an operation to the writer and waits until it is durable.
func (s *Store) do(ctx context.Context, o *op) error {
	o.done = make(chan struct{})
	line := s.ops
	if o.rows >= longOp {
		line = s.longOps
	}
	select {
	case line <- o:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.quit:
		return errClosed
	}
	var left <-chan struct{}
	if o.leave {
		left = ctx.Done()
	}
	select {
	case <-o.done: // the writer ends what it took, also when it closes
		return o.err
	case <-left:
		return ctx.Err()
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
	for {
		timer.Reset(s.untilHousekeeping())
		var first *op
		select {
		case first = <-s.ops:
		case first = <-s.longOps:
		case <-timer.C:
		case <-s.quit:
			s.finish()
			return
		}
		s.flusher.turns <- struct{}{} // meanwhile others come to share the transaction
		s.commit(s.drain(first, s.batchSize()))
		s.forceCheckpoint()
	}
}

// drain returns what waits already, up to a limit, after the first one if there is one: short ones
// before one long one.
func (s *Store) drain(first *op, limit int) []*op {
	var batch []*op
	long := false
	if first != nil {
		batch = append(make([]*op, 0, min(1+len(s.ops), limit)), first)
		long = first.rows >= longOp
	}
	for len(batch) < limit {
		select {
		case o := <-s.ops:
			batch = append(batch, o)
			continue
		default:
		}
		break
	}
	if long {
		return batch
	}
	select {
	case o := <-s.longOps:
		batch = append(batch, o)
	default:
	}
	return batch
}

// finish ends what was handed over, and says in the store that it was closed in order.
func (s *Store) finish() {
	for {
		batch := s.drain(nil, maxBatch)
		if len(batch) == 0 {
			break
		}
		s.flusher.turns <- struct{}{}
		s.commit(batch)
	}
	s.flusher.pending.Wait()
	err := s.transactNow(func(t *txn) error {
		if err := s.notes.flush(t, 0); err != nil {
			return err
		}
		if err := t.setMeta(metaClock, t.now); err != nil {
			return err
		}
		return t.setMeta(metaClean, 1)
	})
	close(s.flusher.committed)
	if err != nil {
		s.cfg.Logger.Error("the store was not closed in order", "error", err)
	}
}

// commit runs a batch in one transaction. Its operations are answered when that is durable.
func (s *Store) commit(batch []*op) {
	u, err := s.transact(batch, s.housekeep)
	for byHandler(err) { // each time without one more settlement: Settle leaves out the culprit
		u, err = s.transact(batch, s.housekeep)
	}
	if err == nil {
		s.flusher.handOver(u)
		return
	}
	s.flusher.pending.Wait() // what is told last is what came last
	s.tell(&unflushed{batch: batch, wrote: true}, err)
	<-s.flusher.turns
}

// transactNow makes a transaction durable before it returns.
func (s *Store) transactNow(fn func(*txn) error) error {
	u, err := s.transact(nil, fn)
	if err == nil {
		err = s.flusher.makeDurable(u)
	}
	return err
}

// transact runs what is to be done in one transaction and commits it. It is not durable yet.
func (s *Store) transact(batch []*op, extra func(*txn) error) (*unflushed, error) {
	if err := s.present.check(); err != nil {
		return nil, err
	}
	if err := s.mend(); err != nil {
		return nil, err
	}
	if err := s.w.exec("BEGIN IMMEDIATE"); err != nil {
		s.damaged = true
		return nil, fmt.Errorf("begin: %w", err)
	}
	t := &txn{s: s, c: s.w, instant: s.clock.instant(), begun: time.Now(),
		rang: map[int64]struct{}{}}
	err := t.runAll(batch, extra)
	if err == nil {
		err = s.flushCounts(t)
	}
	if err != nil {
		t.rewind(mark{})
		if !s.w.raw.GetAutocommit() {
			err = errors.Join(err, s.w.exec("ROLLBACK"))
		}
		s.damaged = !byHandler(err)
		return nil, err
	}
	s.cfg.Probe(PointCommit)
	u := &unflushed{batch: batch, durable: t.durable, undo: t.undo}
	if err := s.commitTx(u); err != nil {
		t.rewind(mark{})
		s.damaged = true
		if !errors.Is(err, sqlite3.FULL) { // it may be in the file
			s.known.clear()
			s.records.outcomes.clear()
		}
		return nil, fmt.Errorf("commit: %w", err)
	}
	t.inFile = true
	t.committed()
	s.notStepped += time.Since(t.begun) - t.stepped
	return u, nil
}

// commitTx commits, and leaves the flush to whoever has u.
func (s *Store) commitTx(u *unflushed) error {
	wal, err := walOf(s.w.raw)
	if err != nil {
		return errors.Join(err, s.w.exec("ROLLBACK"))
	}
	if wal != nil {
		wal.later = true
		defer func() { wal.later = false }()
	}
	s.wrote, s.flusher.wal = false, wal
	if err = s.w.exec("COMMIT"); err != nil {
		s.flusher.hole.Store(true) // SQLite syncs the head of the WAL itself
	}
	u.wal, u.wrote = wal, s.wrote
	return err
}

// runAll runs the operations, each so that its failure undoes only itself.
func (t *txn) runAll(batch []*op, extra func(*txn) error) error {
	if err := t.movePlaces(); err != nil {
		return err
	}
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
	s.damaged = s.damaged || s.flusher.failed.Load()
	if !s.damaged {
		return nil
	}
	s.flusher.pending.Wait()
	if s.w != nil {
		if err := s.w.close(); err != nil {
			s.cfg.Logger.Warn("close a damaged connection", "error", err)
		}
		s.w = nil
	}
	s.flusher.forgetDoubted()
	s.flusher.noteLost()
	s.records.outcomes.clear()
	w, err := openWriter(context.Background(), s.writerDSN(), s.initWriter)
	if err != nil {
		return fmt.Errorf("open again: %w", err)
	}
	s.w = w
	if err := s.endDoubt(); err != nil {
		return err
	}
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
