package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/oncekit/once"
)

const (
	// brokenAfter is how many rows have to fail, and none to succeed in between, until a lane is
	// only probed: one row at a time, those that failed before at the pace of a backoff. So rows do
	// not use up their tries. One row that fails again and again is not enough.
	brokenAfter = 8
	// freshPace bounds the wait until a lane that is only probed tries a row that was never tried:
	// rows that fail again and again must not hold up those of other keys behind them. Where a try
	// that fails makes a row dead or held, the pace is that of the backoff.
	freshPace = time.Second
	// leaseBatch bounds the rows that one Lease takes.
	leaseBatch = 128
	// settleFor is how long a result is offered to a store that can't be written.
	settleFor = time.Minute
	// settlePause is the pause between two offers.
	settlePause = 100 * time.Millisecond
	// handsPerTry bounds the rows in hand, those included whose try has ended and whose result is
	// on its way to the store: they hold up no further try.
	handsPerTry = 4
)

// lane works the rows of one lane.
type lane struct {
	d *Dispatcher
	w Worker
	// freed is signalled when a try ended.
	freed chan struct{}

	mu sync.Mutex
	// inHand are tries, not rows: a row whose lease was lost may come back before its first try
	// has ended. Each is there until its result is stored; trying is how many go on.
	inHand  map[*hand]struct{}
	trying  int
	failing map[int64]struct{} // rows that failed since the last success, up to brokenAfter
	probes  int                // tries that failed since then
	costly  bool               // the last of them made a row dead or held
	// retries counts the probes of rows that may have failed before, the next one not before
	// retryAt.
	retries int
	retryAt time.Time
}

// hand is a row in hand.
type hand struct {
	grant Grant
	stop  context.CancelFunc
	// lease stops the attempt when its lease ends by the local clock, counted from before it was
	// asked for: a renewal that fails or hangs must not let it go on.
	lease *time.Timer
}

func newLane(d *Dispatcher, w Worker) *lane {
	return &lane{d: d, w: w, freed: make(chan struct{}, 1), inHand: map[*hand]struct{}{},
		failing: map[int64]struct{}{}}
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
		if free <= 0 {
			l.wait(ctx, bell, l.d.cfg.Poll)
			continue
		}
		if probing > 0 && !pause(ctx, nil, probing) {
			return
		}
		asked := time.Now()
		got, err := l.d.store.Lease(ctx, LeaseRequest{Lane: l.w.Lane, Max: min(free, leaseBatch),
			For: l.w.Lease, MaxLost: l.w.MaxLost, HoldLost: l.w.HoldLost, Block: l.block,
			Fresh: probing > 0 && l.onlyFresh()})
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
			l.start(hard, row, asked.Add(l.w.Lease), tries)
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

// block is one answer for the whole lane.
func (l *lane) block(Row) bool { return l.w.Block }

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

// onlyFresh reports whether a probe has to be of a row that was never tried: those that failed
// before are probed at the pace of the backoff.
func (l *lane) onlyFresh() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Before(l.retryAt) {
		return true
	}
	l.retries++
	l.retryAt = now.Add(l.w.Backoff.Jitter(l.retries))
	return false
}

// room returns how many rows may be taken, and the pause before it while every try fails.
func (l *lane) room() (free int, probing time.Duration) {
	limit := l.w.Concurrency
	if l.w.Limit != nil {
		limit = min(limit, l.w.Limit())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failing) >= brokenAfter {
		pace := l.w.Backoff
		if !l.costly {
			pace.Cap = min(pace.Cap, freshPace)
		}
		return max(min(limit, 1)-len(l.inHand), 0), pace.Jitter(l.probes + 1)
	}
	return max(min(limit-l.trying, handsPerTry*limit-len(l.inHand)), 0), 0
}

// start begins a try whose lease ends at until by the local clock.
func (l *lane) start(hard context.Context, row Row, until time.Time, tries *sync.WaitGroup) {
	ctx, stop := context.WithCancel(hard)
	h := &hand{grant: row.Grant(), stop: stop, lease: time.AfterFunc(time.Until(until), stop)}
	l.mu.Lock()
	l.inHand[h] = struct{}{}
	l.trying++
	l.mu.Unlock()
	tries.Go(func() {
		defer stop()
		defer h.lease.Stop()
		l.try(ctx, row)
		l.free(func() { delete(l.inHand, h) })
	})
}

// free makes room for a further try.
func (l *lane) free(change func()) {
	l.mu.Lock()
	change()
	l.mu.Unlock()
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// try runs one attempt and settles it.
func (l *lane) try(ctx context.Context, row Row) {
	begun := time.Now()
	var ended func(Settlement, error)
	if t := l.d.cfg.Tracer; t != nil {
		followed := t.Try(ctx, row)
		ctx, ended = followed.Context, followed.End
		row.TraceParent, row.TraceState = followed.TraceParent, followed.TraceState
	}
	set := l.attempt(ctx, row)
	set.Grant = row.Grant()
	l.free(func() { l.trying-- })
	err := l.settle(ctx, set)
	var failed *CommitError
	if errors.As(err, &failed) {
		set = l.w.CommitFailed(row, failed.Err)
		set.Grant = row.Grant()
		err = l.settle(ctx, set)
	}
	if err != nil {
		l.d.cfg.Logger.Warn("the result of an attempt was not stored", "lane", l.w.Lane,
			row.Kind.String(), row.ID(), "error", err)
	}
	if ended != nil {
		ended(set, err)
	}
	l.note(row, set)
	l.d.cfg.Observe(row, set, time.Since(begun))
}

// attempt calls the worker. A panic ends the try, not the process: nobody knows how far it came.
func (l *lane) attempt(ctx context.Context, row Row) (set Settlement) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		l.d.cfg.Logger.Error("an attempt panicked", "lane", l.w.Lane, row.Kind.String(), row.ID(),
			"panic", PanicText(p), "stack", string(debug.Stack()))
		err := fmt.Errorf("attempt panicked: %v", p)
		if l.w.HoldLost {
			set = Settlement{State: Held, Block: l.w.Block, Error: err.Error()}
		} else {
			set = l.w.CommitFailed(row, err)
		}
		set.Public = "the attempt panicked"
	}()
	return l.w.Attempt(ctx, row)
}

// note counts the rows that fail at their first try. What a destination answered for good is no
// sign of its absence, nor is what failed before and fails again.
func (l *lane) note(row Row, set Settlement) {
	failed := set.NotTried || set.State == Pending || set.State == Held ||
		set.State == Dead && set.DeadCause == CauseTransient
	fresh := row.Attempt <= 1 || set.NotTried
	l.mu.Lock()
	defer l.mu.Unlock()
	l.costly = failed && !set.NotTried && set.State != Pending
	switch {
	case !failed:
		if len(l.failing) >= brokenAfter {
			l.d.cfg.Logger.Info("a lane works again", "lane", l.w.Lane)
		}
		clear(l.failing)
		l.probes, l.retries, l.retryAt = 0, 0, time.Time{}
	case len(l.failing) < brokenAfter:
		if !fresh {
			return
		}
		if l.failing[row.Seq] = struct{}{}; len(l.failing) == brokenAfter {
			l.d.cfg.Logger.Warn("every try of a lane fails: it is probed, one row at a time",
				"lane", l.w.Lane, "error", set.Public)
		}
	default:
		l.probes++
	}
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
		for h := range l.inHand {
			hands, grants = append(hands, h), append(grants, h.grant)
		}
		l.mu.Unlock()
		if len(grants) == 0 {
			continue
		}
		until := time.Now().Add(l.w.Lease)
		for i, err := range l.d.store.Renew(ctx, grants, l.w.Lease) {
			switch {
			case err == nil:
				hands[i].lease.Reset(time.Until(until))
			case errors.Is(err, once.ErrLeaseLost):
				hands[i].stop()
			}
		}
	}
}
