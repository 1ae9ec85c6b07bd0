package tracing

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncekit/once/queue"
)

var _ queue.Tracer = (*Tracing)(nil)

// Try implements queue.Tracer: it begins the span of an attempt of a handler, or of a try of an
// effect. A row that was stored without a trace, which is one that came while tracing was off, or
// an effect of an alarm or of a person, gets a trace of its own.
func (t *Tracing) Try(ctx context.Context, row queue.Row) queue.Trying {
	if row.TraceParent != "" && !sampled(row.TraceParent) {
		return queue.Trying{Context: ctx, TraceParent: row.TraceParent, TraceState: row.TraceState}
	}
	ctx, span := t.start(ctx, &row, trace.SpanID{}, time.Time{})
	out := queue.Trying{Context: ctx}
	out.TraceParent, out.TraceState = texts(span.SpanContext())
	if !span.IsRecording() {
		return out
	}
	answer := 0
	answered := false
	out.Context = queue.WithAnswer(ctx, func(code int) { answer, answered = code, true })
	out.End = func(set queue.Settlement, err error) {
		if set.NotTried && !answered {
			return // nothing was sent: a span that is never ended is never shown
		}
		if answered {
			span.SetAttributes(t.peers.answer(&row, answer))
		}
		end(span, &set, err, answer, time.Time{})
	}
	return out
}

// Step returns the trace context of the attempt of a callback that is decided inside the store's
// transaction, for the effects that it causes. Settled makes the span.
func (t *Tracing) Step(row queue.Row) (parent, state string) {
	if !sampled(row.TraceParent) {
		return row.TraceParent, row.TraceState
	}
	return texts(remote(row.TraceParent, row.TraceState).WithSpanID(stepSpan(&row)))
}

// Settled makes the span of an attempt that was decided inside the store's transaction and is
// durable now. It fits queue.StepRequest.Settled.
func (t *Tracing) Settled(row queue.Row, set queue.Settlement) {
	if !sampled(row.TraceParent) {
		return
	}
	_, span := t.start(context.Background(), &row, stepSpan(&row), row.StartedAt)
	if span.IsRecording() {
		// The store's clock may be ahead of the machine's.
		end(span, &set, nil, 0, later(row.StartedAt, time.Now()))
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// start begins the span of a try. A zero id is made, a zero time is now.
func (t *Tracing) start(ctx context.Context, row *queue.Row, id trace.SpanID, at time.Time,
) (context.Context, trace.Span) {
	ids := chosen{span: id}
	parent := remote(row.TraceParent, row.TraceState)
	opts := make([]trace.SpanStartOption, 0, 4)
	opts = append(opts, trace.WithAttributes(ofRow(row)...))
	if parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	} else {
		ids.trace = ownTrace(row)
	}
	name, kind := "process "+row.Source, trace.SpanKindConsumer
	if row.Kind == queue.Effect {
		name, kind = "send "+row.Source, t.peers.kind(row.Source)
	} else if parent.IsValid() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: parent}))
	}
	if !at.IsZero() {
		opts = append(opts, trace.WithTimestamp(at))
	}
	opts = append(opts, trace.WithSpanKind(kind))
	own := ctx
	if ids != (chosen{}) {
		own = choose(ctx, ids)
	}
	_, span := t.tracer.Start(own, name, opts...)
	if span.IsRecording() {
		span.SetAttributes(t.peers.of(row)...)
	}
	// Not the context that Start returned: a handler's own spans get ids of their own.
	return trace.ContextWithSpan(ctx, span), span
}

// end says what came of a try. An answer of 0 is none.
func end(span trace.Span, set *queue.Settlement, err error, answer int, at time.Time) {
	span.SetAttributes(keyState.String(string(set.State)))
	if set.DeadCause != "" {
		span.SetAttributes(keyDeadCause.String(string(set.DeadCause)))
	}
	if failed(set) || err != nil {
		reason := set.Public
		if err != nil {
			reason = "the result was not stored"
		}
		span.SetStatus(codes.Error, reason)
		span.SetAttributes(attribute.String("error.type", errorType(set, answer)))
	}
	if at.IsZero() {
		span.End()
	} else {
		span.End(trace.WithTimestamp(at))
	}
}

// failed reports whether a try is shown as an error: it has to be made again, or a person has to
// decide. What waits, is stale or is not declared is none.
func failed(set *queue.Settlement) bool {
	switch set.State {
	case queue.Pending, queue.Dead, queue.Held, queue.Expired:
		return true
	}
	return false
}

// errorType is a name for a failure of which there are few, as the convention for error.type wants
// it.
func errorType(set *queue.Settlement, answer int) string {
	if answer != 0 {
		return strconv.Itoa(answer)
	}
	return cmp.Or(string(set.DeadCause), string(set.State))
}
