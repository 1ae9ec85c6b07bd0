package oncepg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/turn"
	"github.com/oncekit/once/queue"
)

// op is something to be done in a batch.
type op struct {
	run func(*turn.Batch) error
	// grants are those whose rows it will ask for.
	grants []queue.Grant
	err    error
	done   chan struct{}
}

const (
	// maxOps bounds the operations that share a commit.
	maxOps = 512
	// batchBytes is how much a batch may write before no further operation is taken into it.
	batchBytes = 8 << 20
	// batchLimit bounds the time of a batch, the wait for the turn included.
	batchLimit = time.Minute
	// maxRedo bounds how often a batch is worked out again because somebody was in the way.
	maxRedo = 50
	// maxFaults bounds how often a batch is worked out again because a connection was lost: after a
	// restart of the server each connection of a pool is.
	maxFaults = 6
)

var (
	errStoreClosed = fmt.Errorf("store is closed: %w", once.ErrUnavailable)
	// errStoreKilled ends a store at a point, as if its process had been killed there.
	errStoreKilled = errors.New("the process was killed")
)

// do hands an operation to the writer and waits until it is durable, or until ctx ends if leave is
// true: then it may still be done.
func (s *Store) do(ctx context.Context, leave bool, run func(*turn.Batch) error) error {
	return s.hand(ctx, leave, &op{run: run, done: make(chan struct{})})
}

// doGranted is do for an operation under grants.
func (s *Store) doGranted(ctx context.Context, grants []queue.Grant,
	run func(*turn.Batch) error) error {
	return s.hand(ctx, false, &op{run: run, grants: grants, done: make(chan struct{})})
}

func (s *Store) hand(ctx context.Context, leave bool, o *op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.opened.Load() {
		return fmt.Errorf("the store was not opened: %w", once.ErrUnavailable)
	}
	select {
	case s.ops <- o:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", once.ErrUnavailable, ctx.Err())
	case <-s.quit:
		return errStoreClosed
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
		return errStoreClosed
	}
}

// write is the goroutine that has the turn for this node.
func (s *Store) write() {
	defer close(s.ended)
	var g gatherer
	for {
		select {
		case first := <-s.ops:
			ops := s.drain([]*op{first})
			g.gather(len(ops), s.quit, func() int {
				had := len(ops)
				ops = s.drain(ops)
				return len(ops) - had
			})
			s.batch(ops)
		case <-s.quit:
			for ops := s.drain(nil); len(ops) > 0; ops = s.drain(nil) {
				s.batch(ops)
			}
			return
		}
	}
}

// drain adds what waits already, up to a limit.
func (s *Store) drain(list []*op) []*op {
	for len(list) < maxOps {
		select {
		case o := <-s.ops:
			list = append(list, o)
			continue
		default:
		}
		break
	}
	return list
}

// batch runs operations in one commit, or in several if that is too long, and answers them.
func (s *Store) batch(ops []*op) {
	for len(ops) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), batchLimit)
		done, err := s.attempt(ctx, ops)
		cancel()
		if err != nil {
			done = len(ops)
		}
		for _, o := range ops[:done] {
			if err != nil {
				o.err = turn.AsUnavailable(turn.Fault(err))
			}
			close(o.done)
		}
		ops = ops[done:]
	}
}

// attempt works a batch out and commits it, again while somebody is in the way. It returns how many
// of the operations had their place in it.
func (s *Store) attempt(ctx context.Context, ops []*op) (done int, err error) {
	faults := 0
	for tries := 1; tries <= maxRedo; tries++ {
		if s.killed.Load() {
			return 0, errStoreKilled
		}
		if done, err = s.once(ctx, ops, tries > 1); err == nil || ctx.Err() != nil {
			return done, err
		}
		switch t := storeTrouble(err); {
		case errors.Is(err, errInDoubt) || errors.Is(err, errStoreKilled):
			return 0, err
		case t == rival, t == serialization, isTakenIdentity(err):
		case t == lost && faults < maxFaults:
			faults++
		default:
			return 0, err
		}
		if pause(ctx, tries) != nil {
			return 0, err
		}
	}
	return 0, err
}

// storeTrouble is troubleOf for transactions that the database ends when nothing happens in them:
// what ended them was this process, standing still, or the way to it.
func storeTrouble(err error) trouble {
	if codeOf(err) == codeIdleTransaction {
		return lost
	}
	return troubleOf(err)
}

const codeIdleTransaction = "25P03"

// once works a batch out in one transaction.
func (s *Store) once(ctx context.Context, ops []*op, again bool) (done int, err error) {
	tx, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.end()
	t := turn.New(s.config(tx, again), tx, tx.state, tx.now, tx.highest, tx.has)
	if err := t.Housekeep(); err != nil {
		return 0, err
	}
	var grants []queue.Grant
	for _, o := range ops {
		grants = append(grants, o.grants...)
	}
	if err := t.Prefetch(grants); err != nil {
		return 0, err
	}
	for _, o := range ops {
		if o.err = t.Savepoint(func() error { return o.run(t) }); turn.IsFault(o.err) {
			return 0, o.err
		}
		if done++; t.Full() {
			break
		}
	}
	if err := s.fail(pointRead); err != nil {
		return 0, err
	}
	if err := tx.commit(t); err != nil {
		return 0, err
	}
	if err := s.fail(pointCommitted); err != nil {
		return 0, err
	}
	for _, lane := range t.Committed() {
		s.bells.ring(lane)
	}
	return done, nil
}

// point is a place in a commit at which tests let the process end.
type point string

// The points of a commit, in their order.
const (
	pointRead      point = "read"      // the batch is worked out; nothing of it is in the database
	pointCommitted point = "committed" // all is written, and nobody was told
)

// fail asks the tests whether the process ends here.
func (s *Store) fail(p point) error {
	if s.killed.Load() || s.cfg.failpoint != nil && s.cfg.failpoint(p) {
		s.killed.Store(true)
		return errStoreKilled
	}
	return nil
}
