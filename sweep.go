package once

import (
	"context"
	"log/slog"
	"time"
)

const (
	// sweepStep is how many records are removed at once, so that claims never wait long behind it.
	sweepStep = 256
	// sweepPause is the time between two steps while there is something left, so that claims come
	// first: up to some 5,000 records a second go, more than most stores are given.
	sweepPause = 50 * time.Millisecond
)

// RunSweeper removes what is past its retention, in small steps, until the context ends: a step
// follows another after a short pause while there is something left, and otherwise comes after the
// given time, at least that pause. Errors are logged and tried again.
func RunSweeper(ctx context.Context, s Sweeper, every time.Duration, log *slog.Logger) {
	for {
		n, err := s.Sweep(ctx, sweepStep)
		if err != nil && ctx.Err() == nil && log != nil {
			log.Warn("records could not be swept", "error", err)
		}
		pause := max(every, sweepPause)
		if err == nil && n > 0 { // also where a store took fewer at once than it might
			pause = sweepPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}
