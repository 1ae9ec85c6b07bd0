package oncepg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/turn"
	"github.com/oncekit/once/queue"
)

const (
	// maxIntake bounds the calls that wait for a window: more wait in front.
	maxIntake = 1024
	// windowRows and windowBytes bound the arrivals that share a commit.
	windowRows  = 256
	windowBytes = 4 << 20
	// intakeLimit bounds the time of a window, what is asked anew included.
	intakeLimit = time.Minute
)

// intake is a call of Append on its way.
type intake struct {
	list []queue.Arrival
	// first is true for the first one of its identity in a window.
	first    bool
	receipts []queue.Receipt
	err      error
	done     chan struct{}
}

func (in *intake) bytes() (n int) {
	for i := range in.list {
		n += len(in.list[i].Body) + len(in.list[i].Meta)
	}
	return n
}

func (in *intake) answer(receipts []queue.Receipt, err error) {
	in.receipts, in.err = receipts, err
	close(in.done)
}

// Append stores arrivals. New ones and plain duplicates are committed beside everything else, many
// calls with one flush; the rest waits for the turn. A duplicate is counted in the row that it is
// one of, with a commit of its own, so that no row is the reason of an answer that could be lost.
func (s *Store) Append(ctx context.Context, list []queue.Arrival) ([]queue.Receipt, error) {
	if err := turn.CheckArrivals(list, maxRowBytes); err != nil {
		return nil, fmt.Errorf("append: %w", err)
	}
	if len(list) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !s.opened.Load() {
		return nil, fmt.Errorf("append: the store was not opened: %w", once.ErrUnavailable)
	}
	in := &intake{list: list, done: make(chan struct{})}
	select {
	case s.intake <- in:
	case <-ctx.Done():
		return nil, fmt.Errorf("append: %w: %w", once.ErrUnavailable, ctx.Err())
	case <-s.quit:
		return nil, errStoreClosed
	}
	select {
	case <-in.done:
		return in.receipts, in.err
	case <-ctx.Done():
		return nil, fmt.Errorf("append: %w: %w", once.ErrUnavailable, ctx.Err())
	case <-s.ended: // it may have been handed over just after the last look
	}
	select {
	case <-in.done:
		return in.receipts, in.err
	default:
		return nil, errStoreClosed
	}
}

// receive is one of the goroutines that commit arrivals. Each counts in a slot of its own. One of
// them gathers while the others commit.
func (s *Store) receive(slot string) {
	for calls := s.nextWindow(); calls != nil; calls = s.nextWindow() {
		s.window(slot, calls)
	}
}

// nextWindow waits for a call and returns it with those that come soon; nil at the end.
func (s *Store) nextWindow() []*intake {
	s.gathering.Lock()
	defer s.gathering.Unlock()
	var c collected
	select {
	case first := <-s.intake:
		c.add(first)
	case <-s.quit:
	}
	s.collect(&c)
	if c.calls != nil {
		s.arriving.gather(c.rows, s.quit, func() int { return s.collect(&c) })
	}
	return c.calls
}

// collected are calls for one window.
type collected struct {
	calls       []*intake
	rows, bytes int
}

func (c *collected) add(in *intake) {
	c.calls = append(c.calls, in)
	c.rows += len(in.list)
	c.bytes += in.bytes()
}

// collect adds what waits already, and returns how many rows that are.
func (s *Store) collect(c *collected) int {
	before := c.rows
	for c.rows < windowRows && c.bytes < windowBytes {
		select {
		case in := <-s.intake:
			c.add(in)
			continue
		default:
		}
		break
	}
	return c.rows - before
}

// window answers calls. Those of one arrival share their statements; one of several is all or
// nothing, and has its own.
func (s *Store) window(slot string, calls []*intake) {
	ctx, cancel := context.WithTimeout(context.Background(), intakeLimit)
	defer cancel()
	var single, later []*intake
	for _, in := range calls {
		switch {
		case hasEffect(in.list): // their numbers come with the turn
			later = append(later, in)
		case len(in.list) == 1:
			single = append(single, in)
		case !s.appendMany(ctx, slot, in):
			later = append(later, in)
		}
	}
	later = append(later, s.appendSingle(ctx, slot, single)...)
	var wg sync.WaitGroup
	for _, in := range later {
		wg.Go(func() { in.answer(s.appendInTurn(ctx, in.list)) })
	}
	wg.Wait()
}

func hasEffect(list []queue.Arrival) bool {
	for i := range list {
		if list[i].Kind != queue.Callback {
			return true
		}
	}
	return false
}

// appendInTurn stores arrivals as what they are: repeats that revive, replace or contradict a row.
func (s *Store) appendInTurn(ctx context.Context, list []queue.Arrival) ([]queue.Receipt, error) {
	var receipts []queue.Receipt
	err := s.do(ctx, true, func(t *turn.Batch) error {
		out, err := t.Append(list)
		if err == nil {
			t.OnCommit(func() { receipts = out })
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("append: %w", err)
	}
	return receipts, nil
}

// appendSingle answers calls of one arrival, and returns those that need the turn. After a fault it
// asks anew, and knows by its token what it had stored.
func (s *Store) appendSingle(ctx context.Context, slot string, calls []*intake) (later []*intake) {
	if len(calls) == 0 {
		return nil
	}
	token := []byte(rand.Text())
	firsts, repeats := split(calls)
	err := s.tries(ctx, func(bool) error {
		rest, err := s.storeFirsts(ctx, slot, token, firsts)
		repeats = append(rest, repeats...)
		return err
	})
	if err == nil {
		err = s.tries(ctx, func(bool) (err error) {
			later, err = s.countRepeats(ctx, token, repeats)
			return err
		})
	}
	if err == nil {
		return later
	}
	open := unansweredCalls(calls)
	later = nil
	if len(open) > 1 && troubleOf(err) == noTrouble && ctx.Err() == nil &&
		!errors.Is(err, once.ErrUnavailable) {
		// One of them can't be stored. The others can.
		for _, in := range open {
			later = append(later, s.appendSingle(ctx, slot, []*intake{in})...)
		}
		return later
	}
	for _, in := range open {
		in.answer(nil, fmt.Errorf("append: %w", turn.AsUnavailable(turn.Fault(err))))
	}
	return nil
}

// unansweredCalls are the calls that have no answer yet.
func unansweredCalls(calls []*intake) (out []*intake) {
	for _, in := range calls {
		select {
		case <-in.done:
		default:
			out = append(out, in)
		}
	}
	return out
}

// split tells the first call of each identity from the others.
func split(calls []*intake) (firsts, repeats []*intake) {
	seen := make(map[once.Identity]bool, len(calls))
	for _, in := range calls {
		if id := in.list[0].Identity; !seen[id] {
			seen[id], in.first = true, true
			firsts = append(firsts, in)
		} else {
			repeats = append(repeats, in)
		}
	}
	return firsts, repeats
}

// tries carries out fn again while somebody is in the way, or after an answer was lost.
func (s *Store) tries(ctx context.Context, fn func(again bool) error) error {
	faults, again := 0, false
	for tries := 1; ; tries++ {
		if s.killed.Load() {
			return errStoreKilled
		}
		err := fn(again)
		t := storeTrouble(err)
		if err == nil || ctx.Err() != nil || t == noTrouble || tries >= maxRedo ||
			errors.Is(err, errStoreKilled) {
			return err
		}
		if t == lost {
			if again = true; faults == maxFaults {
				return err
			}
			faults++
		}
		if pause(ctx, tries) != nil {
			return err
		}
	}
}
