package queue

import "context"

// Tracer follows tries, for example as spans. Safe for concurrent use.
type Tracer interface {
	// Try is told that a try of a row begins. It must not block.
	Try(ctx context.Context, row Row) Trying
}

// Trying is a try that is followed.
type Trying struct {
	// Context is the one that the try gets; derived from that of Tracer.Try.
	Context context.Context
	// TraceParent and TraceState take the place of the row's own for this try, so that what it
	// sends out continues the trace.
	TraceParent, TraceState string
	// End is told what came of the try, and of the error if the store did not take that. Nil:
	// nobody is told.
	End func(Settlement, error)
}

// answerKey is the key under which a context holds who wants to know answers.
type answerKey struct{}

// WithAnswer returns a context for a try. told is called with the code of each answer that the try
// gets from the other side: an HTTP status, or an MQTT 5 reason code. It is called before the try
// ends, by the goroutine that made it.
func WithAnswer(ctx context.Context, told func(code int)) context.Context {
	return context.WithValue(ctx, answerKey{}, told)
}

// Answered tells of an answer that a try got from the other side. Without a WithAnswer above it
// does nothing.
func Answered(ctx context.Context, code int) {
	if told, ok := ctx.Value(answerKey{}).(func(int)); ok {
		told(code)
	}
}

// TraceID is the part of a traceparent by which its spans are found (W3C Trace Context, section
// 3.2.2.3); empty: there is none.
func TraceID(parent string) string {
	const from, to = 3, 35
	if len(parent) < to {
		return ""
	}
	return parent[from:to]
}
