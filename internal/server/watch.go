package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/tracing"
	"github.com/oncekit/once/queue"
)

// settled counts a callback that was decided inside the store's transaction.
func (s *Server) settled(row queue.Row, set queue.Settlement) {
	if t := s.opts.Tracing; t != nil {
		t.Settled(row, set)
	}
	s.observe(row, set, 0)
}

// observe counts a try, and logs it: what needs a person as a warning, the rest for who follows a
// callback.
func (s *Server) observe(row queue.Row, set queue.Settlement, d time.Duration) {
	s.metrics.Attempt(row, set, d)
	level, msg := slog.LevelDebug, "attempt ended"
	switch {
	case set.NotTried:
		msg = "attempt not begun"
	case set.State == queue.Dead:
		level, msg = slog.LevelWarn, "dead letter: it needs a person"
	case set.State == queue.Held:
		level, msg = slog.LevelWarn, "held: nobody can know whether it happened; a person decides"
	case set.State == queue.Expired:
		level, msg = slog.LevelWarn, "expired: it was not sent in time"
	}
	ctx := context.Background()
	if !s.log.Enabled(ctx, level) {
		return
	}
	s.log.LogAttrs(ctx, level, msg, attemptFields(&row, &set, d)...)
}

// attemptFields are the fields of a line about a try. Their names are those of docs/operating.md.
func attemptFields(row *queue.Row, set *queue.Settlement, d time.Duration) []slog.Attr {
	const most = 14
	out := make([]slog.Attr, 0, most)
	add := func(name, value string) {
		if value != "" {
			out = append(out, slog.String(name, value))
		}
	}
	if row.Kind == queue.Effect {
		cause := "cause"
		if row.CausedByCallback() {
			cause = "callback"
		}
		add("effect", row.ID())
		add("name", row.Event)
		add("destination", row.Source)
		add(cause, row.Cause)
	} else {
		add("callback", row.ID())
		add("source", row.Source)
		add("event", row.Event)
	}
	add("flow", row.Flow)
	add("task", row.Task)
	out = append(out, slog.Int("attempt", row.Attempt))
	add("state", string(set.State))
	add("dead_cause", string(set.DeadCause))
	add("error", set.Public)
	if d > 0 {
		out = append(out, slog.Duration("took", d))
	}
	if set.RetryIn > 0 {
		out = append(out, slog.Duration("next_try_in", set.RetryIn))
	}
	if n := len(set.Effects); n > 0 {
		out = append(out, slog.Int("effects", n))
	}
	add("trace_id", queue.TraceID(row.TraceParent))
	return out
}

// tracer follows the tries of workers; nil: nobody does.
func (s *Server) tracer() queue.Tracer {
	if s.opts.Tracing == nil {
		return nil // not an interface that holds nil
	}
	return s.opts.Tracing
}

// describe tells the spans of a destination who is on the other side.
func (s *Server) describe(c *config.DestinationConfig) {
	t := s.opts.Tracing
	switch {
	case t == nil:
	case c.HTTP != nil:
		t.Destination(c.Name, tracing.HTTP, c.HTTP.URL)
	case c.MQTT != nil:
		t.Destination(c.Name, tracing.MQTT, c.MQTT.URL)
	}
}

// flushLimit bounds how long the end of the process waits for spans to be sent, beside the drain.
const flushLimit = 5 * time.Second

// flush sends the spans that are left, in what remains of the time to drain.
func (s *Server) flush(until time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(),
		max(min(time.Until(until), flushLimit), 0))
	defer cancel()
	s.opts.Tracing.Close(ctx)
}
