package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/oncekit/once"
)

const (
	// brokenAfter is how many tries in a row have to fail until a lane is only probed: one row at
	// a time, at the pace of a backoff. Rows that were never tried do not use up their tries.
	brokenAfter = 8
	// leaseBatch bounds the rows that one Lease takes.
	leaseBatch = 128
	// settleFor is how long a result is offered to a store that can't be written.
	settleFor = time.Minute
	// settlePause is the pause between two offers.
	settlePause = 100 * time.Millisecond
)

// lane works the rows of one lane.
type lane struct {
	d *Dispatcher
	w Worker
	// freed is signalled when a try ended.
	freed chan struct{}

	mu       sync.Mutex
	inHand   map[int64]*hand
	failures int // tries in a row that failed
}

// hand is a row in hand.
type hand struct {
	grant Grant
	stop  context.CancelFunc
}

func newLane(d *Dispatcher, w Worker) *lane {
	return &lane{d: d, w: w, freed: make(chan struct{}, 1), inHand: map[int64]*hand{}}
}

// run takes rows and works them until ctx ends, then drains.
func (l *lane) run(ctx context.Context) {
	hard, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var tries, renewing sync.WaitGroup
	renewing.Go(func() { l.renew(hard) })
	l.take(ctx, hard, &tries)
	limit := time.AfterFunc(l.d.cfg.Drain, stop)
	tries.Wait()
	limit.Stop()
	stop()
	renewing.Wait()
}

// take leases rows and starts their tries.
func (l *lane) take(ctx, hard context.Context, tries *sync.WaitGroup) {
	bell, storeFailures := l.d.bell(l.w.Lane), 0
	for ctx.Err() == nil {
		free, probing := l.room()
		if free <= 0 || l.w.Open != nil && !l.w.Open() {
			l.wait(ctx, bell, l.d.cfg.Poll)
			continue
		}
		if probing > 0 && !pause(ctx, nil, probing) {
			return
		}
		got, err := l.d.store.Lease(ctx, LeaseRequest{Lane: l.w.Lane, Max: min(free, leaseBatch),
			For: l.w.Lease, MaxLost: l.w.MaxLost, HoldLost: l.w.HoldLost})
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			storeFailures++
			wait := l.w.Backoff.Bound(storeFailures)
			l.d.cfg.Logger.Error("lease rows", "lane", l.w.Lane, "error", err, "next_try_in", wait)
			pause(ctx, nil, wait)
			continue
		}
		storeFailures = 0
		for _, row := range got.Rows {
			l.start(hard, row, tries)
		}
		if !got.More || len(got.Rows) == 0 {
			wait := l.d.cfg.Poll
			if !got.NextAt.IsZero() {
				wait = min(wait, max(time.Until(got.NextAt), 0))
			}
			l.wait(ctx, bell, wait)
		}
	}
}

// wait waits for a bell, a try that ended, a changed gate, or a time.
func (l *lane) wait(ctx context.Context, bell <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-bell:
	case <-l.freed:
	case <-l.w.Changed:
	case <-t.C:
	}
}

// room returns how many rows may be taken, and the pause before it while every try fails.
func (l *lane) room() (free int, probing time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failures >= brokenAfter {
		return max(1-len(l.inHand), 0), l.w.Backoff.Jitter(l.failures - brokenAfter + 1)
	}
	return l.w.Concurrency - len(l.inHand), 0
}

func (l *lane) start(hard context.Context, row Row, tries *sync.WaitGroup) {
	ctx, stop := context.WithCancel(hard)
	l.mu.Lock()
	l.inHand[row.Seq] = &hand{grant: row.Grant(), stop: stop}
	l.mu.Unlock()
	tries.Go(func() {
		defer stop()
		l.try(ctx, row)
		l.mu.Lock()
		delete(l.inHand, row.Seq)
		l.mu.Unlock()
		select {
		case l.freed <- struct{}{}:
		default:
		}
	})
}

// try runs one attempt and settles it.
func (l *lane) try(ctx context.Context, row Row) {
	begun := time.Now()
	set := l.w.Attempt(ctx, row)
	set.Grant = row.Grant()
	err := l.settle(ctx, set)
	var failed *CommitError
	if errors.As(err, &failed) {
		set = l.w.CommitFailed(row, failed.Err)
		set.Grant = row.Grant()
		err = l.settle(ctx, set)
	}
	if err != nil {
		l.d.cfg.Logger.Warn("settle a row", "lane", l.w.Lane, "row", row.ID(), "error", err)
	}
	l.note(set)
	l.d.cfg.Observe(row, set, time.Since(begun))
}

// note counts failures in a row. What the destination answered for good is no sign of its absence.
func (l *lane) note(set Settlement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if set.State == Pending && !set.NotTried {
		l.failures++
		return
	}
	l.failures = 0
}

// settle offers a result until the store takes it, the lease is lost, or the limit is reached: what
// was done outside must not be forgotten because the store was away for a moment.
func (l *lane) settle(ctx context.Context, set Settlement) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleFor)
	defer cancel()
	for {
		err := l.d.store.Settle(ctx, []Settlement{set})[0]
		if err == nil || !errors.Is(err, once.ErrUnavailable) {
			return err
		}
		if !pause(ctx, nil, settlePause) {
			return err
		}
	}
}

// renew keeps the leases of the rows in hand, and ends the attempts whose lease is lost.
func (l *lane) renew(ctx context.Context) {
	for pause(ctx, nil, l.w.Lease/3) {
		l.mu.Lock()
		hands := make([]*hand, 0, len(l.inHand))
		grants := make([]Grant, 0, len(l.inHand))
		for _, h := range l.inHand {
			hands, grants = append(hands, h), append(grants, h.grant)
		}
		l.mu.Unlock()
		if len(grants) == 0 {
			continue
		}
		for i, err := range l.d.store.Renew(ctx, grants, l.w.Lease) {
			if errors.Is(err, once.ErrLeaseLost) {
				hands[i].stop()
			}
		}
	}
}
