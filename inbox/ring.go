package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/oncekit/once/queue"
)

const (
	// ringWriters bounds the writes to the ring that run at once, over all sources.
	ringWriters = 16

	// maxRingMeta bounds the encoded request of a refused message, in bytes. Over it the headers
	// are left out.
	maxRingMeta = 16 << 10

	// logsPerSecond bounds what an outage or a panicking function writes to the log.
	logsPerSecond = 10
)

// ring keeps refused messages for the operator, best effort: an answer waits for it only shortly,
// and a flood doesn't fill the disk or slow the intake. What is not kept is counted.
type ring struct {
	store   queue.Rejecter // nil: there is no ring
	wait    time.Duration
	timeout time.Duration
	slots   chan struct{}
	drops   DropObserver
	log     *slog.Logger
	logs    *limiter
}

func newRing(store Store, cfg Config, logs *limiter) *ring {
	g := &ring{
		wait: cfg.RejectTimeout, timeout: cfg.AppendTimeout, log: cfg.Logger, logs: logs,
		slots: make(chan struct{}, ringWriters),
	}
	g.store, _ = store.(queue.Rejecter)
	g.drops, _ = cfg.Observer.(DropObserver)
	return g
}

// keep writes what was refused of a message to the ring, in order, and waits for it for a short
// time. The request's end doesn't end the write.
func (g *ring) keep(ctx context.Context, rate *limiter, refused ...queue.Rejected) {
	if g.store == nil {
		return
	}
	now := time.Now()
	kept := make([]queue.Rejected, 0, len(refused))
	for _, rej := range refused {
		if !rate.allow(now) {
			g.dropped(rej.Source)
			continue
		}
		rej.At = now.UTC()
		kept = append(kept, rej)
	}
	if len(kept) == 0 {
		return
	}
	select {
	case g.slots <- struct{}{}:
	default:
		for i := range kept {
			g.dropped(kept[i].Source)
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.timeout)
	done := make(chan struct{})
	go func() {
		defer func() {
			cancel()
			<-g.slots
			close(done)
		}()
		for _, rej := range kept {
			if err := g.write(ctx, rej); err != nil {
				g.dropped(rej.Source)
				if g.logs.allow(time.Now()) {
					g.log.Warn("refused message not kept", "source", rej.Source, "error", err)
				}
			}
		}
	}()
	timer := time.NewTimer(g.wait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

func (g *ring) write(ctx context.Context, rej queue.Rejected) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("store panicked: %v", p)
		}
	}()
	return g.store.Reject(ctx, rej)
}

func (g *ring) dropped(source string) {
	if g.drops != nil {
		g.drops.RejectedDropped(source)
	}
}

// limiter is a token bucket. Safe for concurrent use.
type limiter struct {
	mu     sync.Mutex
	rate   float64 // tokens a second, and how many there are at most
	tokens float64
	last   time.Time
}

func newLimiter(perSecond int) *limiter {
	return &limiter{rate: float64(perSecond), tokens: float64(perSecond)}
}

func (l *limiter) allow(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if past := now.Sub(l.last); past > 0 {
		if !l.last.IsZero() {
			l.tokens = min(l.rate, l.tokens+past.Seconds()*l.rate)
		}
		l.last = now
	}
	if l.tokens < 1 {
		return false
	}
	l.tokens--
	return true
}
