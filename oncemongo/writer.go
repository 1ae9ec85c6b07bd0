package oncemongo

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once"
)

// op is something to be done in a batch.
type op struct {
	run  func(*txn) error
	err  error
	done chan struct{}
}

const (
	// maxBatch bounds the operations that share a commit.
	maxBatch = 512
	// batchBytes is how much a batch may write before no further operation is taken into it.
	batchBytes = 4 << 20
	// maxJournal bounds the journal: a document holds 16 MB, and there is more in it.
	maxJournal = 15 << 20
	// batchLimit bounds the time of a batch, the wait for the turn included.
	batchLimit = 30 * time.Second
	// applyLimit bounds how long a commit that has happened is carried out until its callers are
	// told that they have to ask again.
	applyLimit = 20 * time.Second
	// maxRedo bounds how often a batch is worked out again because another node had the turn.
	maxRedo = 50
)

// do hands an operation to the writer and waits until it is durable, or until ctx ends if leave is
// true: then it may still be done.
func (s *Store) do(ctx context.Context, leave bool, run func(*txn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o := &op{run: run, done: make(chan struct{})}
	select {
	case s.ops <- o:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.quit:
		return errClosed
	}
	var left <-chan struct{}
	if leave {
		left = ctx.Done()
	}
	select {
	case <-o.done:
		return o.err
	case <-left:
		return fmt.Errorf("%w: %w", once.ErrUnavailable, ctx.Err())
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
	idle := time.NewTimer(time.Hour)
	defer idle.Stop()
	for {
		if s.solo.Load() { // nobody takes turns with us; one that comes is seen by look
			idle.Reset(s.cfg.Poll)
		} else {
			idle.Reset(s.cfg.turnIdle)
		}
		select {
		case first := <-s.ops:
			s.batch(s.drain(first))
			s.share()
		case <-idle.C:
			if s.wanted.Load() || !s.solo.Load() {
				s.yield()
			}
		case <-s.quit:
			for batch := s.drain(nil); len(batch) > 0; batch = s.drain(nil) {
				s.batch(batch)
			}
			s.yield()
			return
		}
	}
}

// drain returns what waits already, up to a limit, after the first one if there is one.
func (s *Store) drain(first *op) []*op {
	var batch []*op
	if first != nil {
		batch = append(batch, first)
	}
	for len(batch) < maxBatch {
		select {
		case o := <-s.ops:
			batch = append(batch, o)
			continue
		default:
		}
		break
	}
	return batch
}

// yield gives the turn back.
func (s *Store) yield() {
	if s.killed.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), batchLimit)
	defer cancel()
	s.release(ctx)
}

// share gives the turn back if it was held for a while and another node wants it.
func (s *Store) share() {
	if !s.turn.held || time.Since(s.turn.since) < s.cfg.turnShare || s.killed.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), batchLimit)
	defer cancel()
	head, err := s.readTurn(ctx, headFields)
	if err != nil {
		return // the next batch meets it too
	}
	if head.Wanted != "" && head.Wanted != s.node {
		s.release(ctx)
	}
	s.turn.since = time.Now()
}

// batch runs operations in one commit, or in several if that is too long, and answers them.
func (s *Store) batch(ops []*op) {
	if len(ops) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), batchLimit)
	stop := s.beat(ctx)
	done, err := s.attempt(ctx, ops)
	stop()
	cancel()
	switch {
	case errors.Is(err, errTooMuch) && len(ops) > 1:
		for _, half := range [][]*op{ops[:len(ops)/2], ops[len(ops)/2:]} {
			s.batch(half)
		}
		return
	case errors.Is(err, errTooMuch):
		err = fmt.Errorf("%w: %w", once.ErrTooLarge, err)
	case err == nil:
		defer s.batch(ops[done:])
		ops = ops[:done]
	}
	for _, o := range ops {
		if err != nil {
			o.err = asUnavailable(err)
		}
		close(o.done)
	}
}

// attempt works a batch out and commits it, again while another node has the turn in between. It
// returns how many of the operations had their place in it.
func (s *Store) attempt(ctx context.Context, ops []*op) (done int, err error) {
	for range maxRedo {
		if done, err = s.once(ctx, ops); !errors.Is(err, errTurnLost) {
			return done, err
		}
		s.turn.held = false
	}
	return done, err
}

func (s *Store) once(ctx context.Context, ops []*op) (done int, err error) {
	if s.killed.Load() {
		return 0, errKilled
	}
	if err := s.take(ctx); err != nil {
		return 0, err
	}
	t := s.newTxn(ctx)
	if err := t.housekeep(); err != nil {
		return 0, err
	}
	for _, o := range ops {
		if o.err = t.savepoint(func() error { return o.run(t) }); storeFault(o.err) {
			return 0, o.err
		}
		if done++; t.size > batchBytes {
			break
		}
	}
	if err := s.fail(pointRead); err != nil {
		return 0, err
	}
	return done, s.commit(ctx, t)
}

// commit makes a batch true.
func (s *Store) commit(ctx context.Context, t *txn) error {
	journal, err := t.writes()
	if err != nil {
		return err
	}
	next := t.finalState()
	s.batches++
	if len(journal) == 0 && reflect.DeepEqual(next, s.turn.state) {
		t.committed()
		return nil
	}
	next.At = t.now
	if err := s.passOn(ctx, next, journal); err != nil {
		return err
	}
	s.turn.n++
	s.turn.state = next
	t.keepLive(s.turn.n)
	for k, n := range t.deltas {
		s.turn.counts[k] += n
	}
	if !s.facts.Transactions {
		if err := s.finish(ctx, journal); err != nil {
			return err
		}
	}
	t.committed()
	return nil
}

// passOn writes the journal into the turn. Once that is durable the commit has happened, and
// whoever has the turn next carries it out. With transactions it is carried out in the same step.
func (s *Store) passOn(ctx context.Context, next turnState, journal []docWrite) error {
	set := bson.D{{Key: "n", Value: s.turn.n + 1}, {Key: "state", Value: next},
		{Key: "journal", Value: journal}}
	size, err := bson.Marshal(set)
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	if len(size) > maxJournal {
		return fmt.Errorf("%w: %d bytes, at most %d", errTooMuch, len(size), maxJournal)
	}
	// Our own commits ring the lanes that they make due. Should it be another node's that has this
	// number, all lanes ring when we take the turn again.
	s.sees(s.turn.n + 1)
	var matched bool
	if s.facts.Transactions {
		matched, err = s.passOnAtOnce(ctx, next, journal)
	} else {
		r, e := collection(s.db, meta).UpdateOne(ctx, s.ours(),
			bson.D{{Key: "$set", Value: set}})
		matched, err = e == nil && r.MatchedCount == 1, fault(e)
	}
	if err == nil && !matched {
		return errTurnLost
	}
	if err != nil {
		return s.resolve(ctx, err)
	}
	return s.fail(pointCommitted)
}

// ours selects the turn if it is as we left it.
func (s *Store) ours() bson.D {
	return bson.D{{Key: "_id", Value: turnID}, {Key: "epoch", Value: s.turn.epoch},
		{Key: "n", Value: s.turn.n}}
}

// resolve finds out whether a commit happened whose answer was lost. It takes the turn anew, after
// which what is still on its way can't happen any more.
func (s *Store) resolve(ctx context.Context, cause error) error {
	s.turn.held, s.turn.owed = false, true
	epoch, n := s.turn.epoch, s.turn.n
	doc, err := s.grab(ctx, epoch)
	switch {
	case errors.Is(err, errTurnLost):
		return fmt.Errorf("%w: %w", errDoubt, cause)
	case err != nil:
		return fmt.Errorf("commit: %w; ask whether it happened: %w", cause, err)
	}
	s.turn.epoch = doc.Epoch
	if doc.N == n {
		return errTurnLost // it did not, and never will: work it out again
	}
	s.turn.held = true
	return nil
}

// finish carries out a commit that has happened. If it can't, the next batch begins with that.
func (s *Store) finish(ctx context.Context, journal []docWrite) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), applyLimit)
	defer cancel()
	for {
		s.turn.owed = true
		err := s.carryOut(ctx, s.turn.n, journal)
		if err == nil {
			s.turn.owed = false
			return nil
		}
		pause := time.NewTimer(s.cfg.turnPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
		if ctx.Err() != nil || errors.Is(err, errKilled) || errors.Is(err, errDamaged) {
			s.turn.held = false
			return fmt.Errorf("carry out commit %d: %w", s.turn.n, err)
		}
	}
}

// committed tells of the batch.
func (t *txn) committed() {
	for _, fn := range t.durable {
		fn()
	}
	for lane := range t.rang {
		t.s.bells.ring(lane)
	}
}

// beat shows the other nodes that the turn's holder lives, while a batch takes long.
func (s *Store) beat(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(s.cfg.turnLost / 4)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if s.killed.Load() {
				return
			}
			_, _ = s.db.Collection(meta, quickly()).UpdateOne(ctx, // one that is missed is no harm
				bson.D{{Key: "_id", Value: turnID}, {Key: "holder", Value: s.node}},
				bson.D{{Key: "$inc", Value: bson.D{{Key: "beat", Value: 1}}}})
		}
	})
	return func() { cancel(); wg.Wait() }
}
