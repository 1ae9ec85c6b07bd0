package inbox

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/oncekit/once/queue"
)

// followed is what is known of a message that is followed.
type followed struct {
	trace  Trace // nil: by no tracer
	status int   // of the answer
	// shown is as much of the reason of a refusal as a log may show; empty: all of it.
	shown string
}

// follow lets the tracer follow the message, if there is one.
func (in *intake) follow(r *http.Request) {
	if t := in.rc.cfg.Tracer; t != nil {
		parent, state := traceContext(r.Header)
		in.trace = t.Receipt(r, in.src.Name, parent, state)
	}
}

// traceContext returns what is stored with the callbacks of the message: the context of its
// receipt, or the sender's own.
func (in *intake) traceContext(r *http.Request) (parent, state string) {
	if in.trace != nil {
		return in.trace.Context()
	}
	return traceContext(r.Header)
}

// told tells the tracer, and under level debug the log, what came of the message.
func (in *intake) told(v verdict) {
	debug := in.rc.log.Enabled(context.Background(), slog.LevelDebug)
	if in.trace == nil && !debug {
		return
	}
	got := Received{Outcome: v.outcome, Status: in.status, Peer: in.msg.Peer,
		Arrivals: in.arrivals, Receipts: in.receipts}
	if len(got.Arrivals) == 0 && v.outcome == queue.Duplicate {
		got.Known = in.msg.ID()
	}
	if in.trace != nil {
		in.trace.End(got)
	}
	if debug {
		in.log(&got)
	}
}

// log writes a line for each callback of a message, so that a callback can be followed from here on
// by its id. A message that has none gets one, too.
func (in *intake) log(got *Received) {
	log := func(outcome queue.Outcome, more ...slog.Attr) {
		in.rc.log.LogAttrs(context.Background(), slog.LevelDebug, "received", append([]slog.Attr{
			slog.String("source", in.src.Name), slog.String("outcome", string(outcome)),
			slog.Int("status", got.Status), slog.String("peer", in.msg.Peer),
		}, more...)...)
	}
	if len(got.Arrivals) == 0 {
		if got.Known != "" {
			log(got.Outcome, slog.String("callback", got.Known))
		} else {
			log(got.Outcome)
		}
		return
	}
	for i := range got.Arrivals {
		a, outcome := &got.Arrivals[i], got.Outcome
		if i < len(got.Receipts) {
			outcome = got.Receipts[i].Outcome
		}
		more := []slog.Attr{slog.String("callback", got.ID(i))}
		for _, f := range []slog.Attr{
			slog.String("event", a.Event), slog.String("flow", a.Flow),
			slog.String("task", a.Task), slog.String("trace_id", queue.TraceID(a.TraceParent)),
		} {
			if f.Value.String() != "" {
				more = append(more, f)
			}
		}
		log(outcome, more...)
	}
}
