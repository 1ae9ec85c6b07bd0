package once

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// waiting holds the repeats that wait in this process, by identity. An entry exists while somebody
// waits. The zero value works.
type waiting struct {
	n  atomic.Int64 // repeats that wait
	mu sync.Mutex
	at map[Identity]*line
}

type line struct {
	n       int
	changed chan struct{}
}

// join enters the line of an identity; the channel is closed when its attempt ended here.
func (w *waiting) join(id Identity) *line {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at == nil {
		w.at = map[Identity]*line{}
	}
	l := w.at[id]
	if l == nil {
		l = &line{changed: make(chan struct{})}
		w.at[id] = l
	}
	l.n++
	return l
}

func (w *waiting) leave(id Identity, l *line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.n--; l.n == 0 && w.at[id] == l {
		delete(w.at, id)
	}
}

// notify wakes who waits for an identity.
func (w *waiting) notify(id Identity) {
	if w.n.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.at[id]; l != nil {
		close(l.changed)
		delete(w.at, id)
	}
}

// waitAndClaim claims over and over while an attempt is in flight, for as long as the guard is told
// to wait. It holds no connection while it waits.
func (g *Guard) waitAndClaim(parent context.Context, c Claim, busy *InFlightError) (*Work, error) {
	if g.waiting.n.Add(1) > int64(g.cfg.MaxWaiting) {
		g.waiting.n.Add(-1)
		return nil, busy
	}
	defer g.waiting.n.Add(-1)
	ctx, cancel := context.WithTimeoutCause(parent, g.cfg.Wait, errWaitOver)
	defer cancel()
	early := false // the store's Wait returned before the attempt had ended
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		line := g.waiting.join(c.Identity) // before the look, so that no end is missed
		w, err := g.claim(ctx, parent, c)
		if !errors.As(err, &busy) {
			g.waiting.leave(c.Identity, line)
			switch {
			case err == nil || claimEvent(err) != EventUnavailable:
				return w, err
			case isOver(ctx):
				return nil, endOfWait(ctx, busy) // what was cut off is no fault of the store
			}
			// What the store said last is that somebody works it, whatever its fault is now.
			return nil, fmt.Errorf("%w, and then: %w", busy, err)
		}
		early = g.pause(ctx, c.Identity, line, min(pause, busy.Rest+time.Millisecond), early)
		g.waiting.leave(c.Identity, line)
		if isOver(ctx) {
			return nil, endOfWait(ctx, busy)
		}
	}
}

// isOver reports whether a context has ended, or is about to: a store may look at the deadline, as
// a lazyContext does, before the context's own timer has fired.
func isOver(ctx context.Context) bool {
	if d, ok := ctx.Deadline(); ok && !time.Now().Before(d) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

var errWaitOver = errors.New("wait is over")

// endOfWait tells the end of the wait from the end of the caller's own context.
func endOfWait(ctx context.Context, busy *InFlightError) error {
	if errors.Is(context.Cause(ctx), errWaitOver) {
		return busy
	}
	return context.Cause(ctx)
}

// pause waits until the record may have changed. It asks the store's Wait unless that was early the
// last time, or can't be had: then a timer bounds how often the store is asked. It reports whether
// Wait answered: if the record is in flight still, that was early.
func (g *Guard) pause(
	ctx context.Context, id Identity, l *line, limit time.Duration, early bool,
) bool {
	if g.waiter != nil && !early && g.waiter.Wait(ctx, id) == nil {
		return true
	}
	if early {
		limit = min(limit, firstPause)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-l.changed:
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
