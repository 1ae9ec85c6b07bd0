package oncesqlite

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A transaction is committed by the goroutine that writes and made durable by another one, so that
// the next transaction is made while the disk flushes the one before. Nobody is told of a
// transaction before its flush. See docs/adr/0006-sqlite-writes.md.

// maxUnflushed bounds the transactions between their begin and the end of their flush: one is
// made while another one is flushed.
const maxUnflushed = 2

// flusher makes committed transactions durable, in order.
type flusher struct {
	// turns has an entry for each transaction from its begin to the end of its flush.
	turns chan struct{}
	// committed are transactions that wait for their flush.
	committed chan *unflushed
	// pending counts those that were handed over and are not told.
	pending sync.WaitGroup
	// failed is true from a flush that failed until the connection was opened again. What was
	// committed after it stands on what may be lost, so nobody is told of that either.
	failed atomic.Bool
	// took is how long the last flush took, in nanoseconds.
	took atomic.Int64
	// doubted are the transactions of which nobody was told because a flush failed.
	doubted []*unflushed
	// wal is where the last transaction was written. hole is true from a fault until what is lost
	// of it, if anything is, was written again: it may not be on the disk, whatever a later sync
	// says.
	wal  *gatherFile
	hole atomic.Bool
	lost span
}

// unflushed is a transaction that is committed and that nobody was told of.
type unflushed struct {
	batch []*op
	// wal is where it was written; nil: commits are not flushed, or were by SQLite.
	wal *gatherFile
	// wrote is false for a transaction that changed nothing.
	wrote bool
	// durable runs when the transaction is; undo takes back what it changed in memory.
	durable, undo []func()
}

var errFlush = errors.New("the flush of an earlier commit failed")

// flush is the goroutine that makes transactions durable.
func (s *Store) flush() {
	for u := range s.flusher.committed {
		err := s.flusher.makeDurable(u)
		if err != nil {
			s.flusher.doubted = append(s.flusher.doubted, u)
		}
		s.tell(u, err)
		<-s.flusher.turns
		s.flusher.pending.Done()
	}
}

// handOver gives a committed transaction to the goroutine that flushes. The caller has a turn.
func (f *flusher) handOver(u *unflushed) {
	f.pending.Add(1)
	f.committed <- u
}

func (f *flusher) makeDurable(u *unflushed) error {
	if f.failed.Load() {
		return errFlush
	}
	if u.wal == nil || !u.wrote {
		return nil
	}
	begun := time.Now()
	if err := u.wal.syncLater(); err != nil {
		f.hole.Store(true)
		f.failed.Store(true)
		return fmt.Errorf("flush: %w", err)
	}
	f.took.Store(int64(time.Since(begun)))
	return nil
}

// tell answers the operations of a transaction.
func (s *Store) tell(u *unflushed, err error) {
	err = withRoom(s.cfg.Path, err)
	s.noteHealth(err, len(u.batch), u.wrote)
	if err == nil {
		s.cfg.Probe(PointReply)
		for _, fn := range u.durable {
			fn()
		}
	}
	for _, o := range u.batch {
		if err != nil {
			o.err = unavailable(err)
		}
		close(o.done)
	}
}

// forgetDoubted takes back in memory what nobody was told of. Nothing is pending.
func (f *flusher) forgetDoubted() {
	for _, u := range slices.Backward(f.doubted) {
		for _, undo := range slices.Backward(u.undo) {
			undo()
		}
	}
	f.doubted = nil
}

// noteLost remembers what of the WAL may not be on the disk. The connection that wrote it is
// closed.
func (f *flusher) noteLost() {
	if f.wal != nil {
		f.lost = f.lost.with(f.wal.takeUnsynced())
	}
}

// endDoubt writes again what may not be on the disk, so that nothing comes to stand behind a hole
// in the WAL. What nobody was told of is in the file then all the same.
func (s *Store) endDoubt() error {
	f := &s.flusher
	if !f.hole.Load() {
		return nil
	}
	if err := s.w.exec("BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	wal, err := walOf(s.w.raw)
	if err == nil && wal != nil {
		err = wal.writeAgain(f.lost)
	}
	if err = errors.Join(err, s.w.exec("ROLLBACK")); err != nil {
		return fmt.Errorf("write again what was not flushed: %w", err)
	}
	if f.failed.Load() {
		s.known.clear() // some may have died or been swept, untold
		s.records.outcomes.clear()
	}
	f.lost = span{}
	f.hole.Store(false)
	f.failed.Store(false)
	return nil
}
