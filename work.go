package once

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrSettled: the attempt was settled before. Nothing was changed.
var ErrSettled = errors.New("attempt is settled already")

// Work is one attempt in this process's hands. Do the work under [Work.Context], then call exactly
// one of Complete, Release and Lose: until then the lease is renewed, up to the guard's MaxWork.
// Its methods are safe for concurrent use.
type Work struct {
	g     *Guard
	grant Grant
	ctx   lazyContext

	mu sync.Mutex // also of ctx's end
	// ends is when the context ends: the lease minus a margin, by this machine's monotonic clock,
	// counted from before the claim or renewal was sent. limit is the end of MaxWork.
	ends, limit time.Time
	// next fires at the renewals after the first one; last at ends, from the first one on, so that
	// one that hangs doesn't let the work run on. Both are nil before it.
	next, last *time.Timer
	settled    bool // a final step was asked for
	over       bool // and made: the lease is let go

	call lazyContext // of the final step

	// The place among those that wait for their first renewal, which guards it.
	due           time.Time
	before, after *Work
	listed        bool
}

func (g *Guard) newWork(parent context.Context, grant Grant, start time.Time) *Work {
	w := &Work{g: g, grant: grant}
	w.ctx.parent, w.ctx.grant = parent, &w.grant
	w.ends = start.Add(g.cfg.Lease - g.cfg.Margin)
	w.limit = start.Add(g.cfg.MaxWork)
	kind := EventGranted
	if grant.Takeover {
		kind = EventTakeover
	}
	g.observe(kind, start)
	if g.renewer != nil {
		// Where MaxWork is the shorter one, it is the call that finds its end.
		g.renewals.add(w, earlier(start.Add(g.cfg.Lease/renewPart), w.limit))
		return w
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = time.AfterFunc(time.Until(earlier(w.ends, w.limit)), w.expire)
	return w
}

// Context is the work's context: a child of the one given to Begin. It ends when the lease is lost,
// or could not be renewed and is about to end, after MaxWork, and when the work is settled;
// context.Cause tells which.
func (w *Work) Context() context.Context { return &w.ctx }

// Grant is what this attempt holds.
func (w *Work) Grant() Grant { return w.grant }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// renew lets the lease last longer. It runs alone, in a goroutine of its own.
func (w *Work) renew() {
	w.mu.Lock()
	if w.over {
		w.mu.Unlock()
		return
	}
	end := earlier(w.ends, w.limit)
	if w.last == nil {
		w.last = time.AfterFunc(time.Until(end), w.expire)
	}
	w.mu.Unlock()

	cfg := &w.g.cfg
	start := time.Now()
	if !start.Before(end) {
		return
	}
	ctx := context.WithoutCancel(&w.ctx)
	call, cancel := context.WithDeadline(ctx, earlier(end, start.Add(cfg.StoreTimeout)))
	err := w.g.renewer.Renew(call, w.grant, cfg.Lease)
	cancel()

	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over:
		return
	case errors.Is(err, ErrLeaseLost):
		w.ctx.end(ErrLeaseLost)
		return
	case err != nil:
		cfg.Logger.Warn("a lease could not be renewed", "record", w.record(), "error", err)
		w.renewIn(cfg.Lease / (4 * renewPart))
		return
	}
	w.ends = start.Add(cfg.Lease - cfg.Margin)
	w.last.Reset(time.Until(earlier(w.ends, w.limit)))
	w.renewIn(time.Until(start.Add(cfg.Lease / renewPart)))
}

func (w *Work) renewIn(wait time.Duration) {
	if w.next == nil {
		w.next = time.AfterFunc(wait, w.renew)
		return
	}
	w.next.Reset(wait)
}

// stop ends the renewals.
func (w *Work) stop() {
	w.g.renewals.remove(w)
	if w.next != nil {
		w.next.Stop()
	}
}

// expire ends the work's context at the end of the lease or of MaxWork.
func (w *Work) expire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || time.Now().Before(earlier(w.ends, w.limit)) { // a renewal came in between
		return
	}
	w.stop()
	if time.Now().Before(w.limit) {
		w.ctx.end(fmt.Errorf("lease is about to end: %w", ErrLeaseLost))
		return
	}
	w.ctx.end(fmt.Errorf("work took %s: %w", w.g.cfg.MaxWork, context.DeadlineExceeded))
}

// Complete ends the attempt with an outcome of kind Kept or Tombstone. It detaches itself from the
// context and tries until the guard's CompleteTimeout. If the store has no room for the data, a
// tombstone without data is stored, and [ErrTooLarge] returned. With any other error the outcome is
// not stored: the caller has the true answer and says so to whoever asked, and the record is
// unknown, never free.
func (w *Work) Complete(o Outcome) error {
	if o.Kind == Unknown {
		return errors.New("complete: an unknown outcome is told by Lose")
	}
	kind := EventCompleted
	if o.Kind == Tombstone {
		kind = EventTombstone
	}
	return w.settle(kind, func(ctx context.Context) error {
		return w.g.store.Complete(ctx, w.grant, o)
	})
}

// Release ends an attempt that is known to have had no effect: the next one who asks runs it.
func (w *Work) Release() error {
	return w.settle(EventReleased, func(ctx context.Context) error {
		return w.g.store.Release(ctx, w.grant)
	})
}

// Lose ends an attempt of which nobody can know whether it had its effect. What follows is what
// the guard's OnUnknown says.
func (w *Work) Lose() error {
	return w.settle(EventLost, func(ctx context.Context) error {
		return w.g.store.Complete(ctx, w.grant, Outcome{Kind: Unknown})
	})
}

// settle makes one final step, while the lease is still renewed, and then lets go of it.
func (w *Work) settle(kind EventKind, step func(context.Context) error) error {
	w.mu.Lock()
	if w.settled {
		w.mu.Unlock()
		return ErrSettled
	}
	w.settled = true
	w.mu.Unlock()

	g := w.g
	start := time.Now()
	defer w.letGo() // also if the store panics
	err := w.persist(start, step)
	switch {
	case errors.Is(err, ErrTooLarge):
		kind = EventTombstone
	case errors.Is(err, ErrLeaseLost):
		kind = EventLeaseLost
	case err != nil:
		kind = EventNotStored
		g.cfg.Logger.Error("an outcome could not be stored; its record is unknown",
			"record", w.record(), "error", err)
	}
	g.observe(kind, start)
	g.waiting.notify(w.grant.Identity)
	return err
}

// record is the record's id, as an operator's tools show it.
func (w *Work) record() string { return hex.EncodeToString(w.grant.Identity[:]) }

// letGo ends the renewals.
func (w *Work) letGo() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.stop()
	if w.last != nil {
		w.last.Stop()
	}
	w.ctx.end(ErrSettled)
}

// persist tries a final step until its deadline.
func (w *Work) persist(start time.Time, step func(context.Context) error) error {
	cfg := &w.g.cfg
	w.call.parent, w.call.detached = &w.ctx, true
	w.call.deadline = start.Add(min(cfg.StoreTimeout, cfg.CompleteTimeout))
	err := step(&w.call) // nearly always enough
	w.call.stop()
	if err == nil || isAnswer(err) && !errors.Is(err, ErrTooLarge) {
		return err
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(&w.ctx),
		start.Add(cfg.CompleteTimeout))
	defer cancel()
	if !errors.Is(err, ErrTooLarge) {
		err = retry(ctx, cfg.StoreTimeout, step)
	}
	if errors.Is(err, ErrTooLarge) {
		tombstone := func(ctx context.Context) error {
			return w.g.store.Complete(ctx, w.grant, Outcome{Kind: Tombstone})
		}
		if e := retry(ctx, cfg.StoreTimeout, tombstone); e != nil {
			return e
		}
	}
	return err
}
