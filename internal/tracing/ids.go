package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"

	"github.com/oncekit/once/queue"
)

// chosen are ids that a span is to have; a zero one is made.
type chosen struct {
	trace trace.TraceID
	span  trace.SpanID
}

type chosenKey struct{}

// choose returns a context in which the next span gets its ids.
func choose(ctx context.Context, c chosen) context.Context {
	return context.WithValue(ctx, chosenKey{}, c)
}

// ids makes the ids of spans: random ones, but for those that were chosen. It implements
// sdktrace.IDGenerator and is safe for concurrent use.
type ids struct{}

// NewIDs implements sdktrace.IDGenerator.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	c, _ := ctx.Value(chosenKey{}).(chosen)
	for !c.trace.IsValid() {
		binary.LittleEndian.PutUint64(c.trace[:8], rand.Uint64())
		binary.LittleEndian.PutUint64(c.trace[8:], rand.Uint64())
	}
	return c.trace, spanID(c)
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	c, _ := ctx.Value(chosenKey{}).(chosen)
	return spanID(c)
}

func spanID(c chosen) trace.SpanID {
	for !c.span.IsValid() {
		binary.LittleEndian.PutUint64(c.span[:], rand.Uint64())
	}
	return c.span
}

// ownTrace is the trace of a row that was stored without one: all its tries are found under it.
func ownTrace(row *queue.Row) (t trace.TraceID) {
	copy(t[:], row.Identity[:])
	return t
}

// stepSpan is the id of the span of a decision. It is the same whenever it is asked for during one
// try of a row, and another in the next one, also where tries are counted anew.
func stepSpan(row *queue.Row) trace.SpanID {
	b := make([]byte, 0, 64)
	b = append(b, row.Identity[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(row.Attempt))
	b = binary.BigEndian.AppendUint64(b, uint64(row.StartedAt.UnixMicro()))
	sum := sha256.Sum256(b)
	var s trace.SpanID
	copy(s[:], sum[:])
	if !s.IsValid() { // all zero
		s[0] = 1
	}
	return s
}
