package inbox

import (
	"log/slog"
	"math"
	"time"

	"github.com/oncekit/once/queue"
)

// gated is the part of a Handler that leaves the other side alone while that refuses us, and not
// the callback: all others would fare the same.
type gated struct {
	gate queue.Gate
	// other names who refuses us, for the log.
	other string
	// probe is how long after a refusal one callback is tried.
	probe  time.Duration
	logger *slog.Logger
}

// try lets a try through, or says why not. Its error is a refusal if it is marked so.
func (g *gated) try(f func() error) error {
	probe, err := g.gate.Begin()
	if err != nil {
		return mark(refused, pausedWait, err)
	}
	v, reason := queue.Unsaid, error(nil)
	defer func() { g.end(probe, v, reason) }() // also if f panics
	if err = f(); err == nil {
		v = queue.Admitted
		return nil
	}
	switch failureOf(err).kind {
	case refused:
		v, reason = queue.Refused, err
	case permanent, stale: // it got past the login
		v = queue.Admitted
	}
	return err
}

// end takes what a try said of the other side, and logs that a pause began or ended.
func (g *gated) end(probe bool, v queue.Verdict, reason error) {
	text := ""
	if reason != nil {
		text = reason.Error()
	}
	switch began, ended := g.gate.End(probe, v, text, g.probe); {
	case began:
		g.logger.Error(g.other+" paused", "error", queue.Public(reason), "probe_every", g.probe)
	case ended:
		g.logger.Info(g.other + " resumed")
	}
}

// Paused returns why the other side is left alone; false: it isn't.
func (g *gated) Paused() (queue.PauseStatus, bool) { return g.gate.Paused() }

func (g *gated) limit() int { return g.gate.Limit(math.MaxInt) } // but for Concurrency

func (g *gated) changed() <-chan struct{} { return g.gate.Changed() }
