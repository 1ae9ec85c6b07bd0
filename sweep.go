package once

import (
	"context"
	"log/slog"
	"time"
)

// sweepStep is how many records are removed at once, so that claims never wait long behind it.
const sweepStep = 256

// RunSweeper removes what is past its retention, in small steps, until the context ends: a step
// follows another while there is something left, and otherwise comes after the given time. Errors
// are logged and tried again.
func RunSweeper(ctx context.Context, s Sweeper, every time.Duration, log *slog.Logger) {
	for {
		n, err := s.Sweep(ctx, sweepStep)
		if err != nil && ctx.Err() == nil && log != nil {
			log.Warn("records could not be swept", "error", err)
		}
		pause := every
		if err == nil && n == sweepStep {
			pause = every / 100 // intake comes first
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}
