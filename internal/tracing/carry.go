package tracing

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// carried is a trace context as the texts that are stored and sent: a carrier for OpenTelemetry's
// propagator of W3C Trace Context.
type carried struct{ parent, state string }

const (
	headerParent = "traceparent"
	headerState  = "tracestate"
)

// Get implements propagation.TextMapCarrier.
func (c *carried) Get(key string) string {
	switch key {
	case headerParent:
		return c.parent
	case headerState:
		return c.state
	}
	return ""
}

// Set implements propagation.TextMapCarrier.
func (c *carried) Set(key, value string) {
	switch key {
	case headerParent:
		c.parent = value
	case headerState:
		c.state = value
	}
}

// Keys implements propagation.TextMapCarrier.
func (c *carried) Keys() []string { return []string{headerParent, headerState} }

// remote reads a stored trace context; it is not valid if there is none.
func remote(parent, state string) trace.SpanContext {
	if parent == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), &carried{parent, state})
	return trace.SpanContextFromContext(ctx)
}

// texts writes a trace context as it is stored and sent.
func texts(sc trace.SpanContext) (parent, state string) {
	var c carried
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), sc), &c)
	return c.parent, c.state
}

// Where the flags stand in a traceparent of version 00, and its length (W3C Trace Context, section
// 3.2.2).
const (
	flagsEnd     = 55
	lastFlagsHex = flagsEnd - 1
)

// sampled reports whether a stored traceparent says that its trace is recorded. It costs nothing:
// most rows say no where a sampler picks few.
func sampled(parent string) bool {
	if len(parent) < flagsEnd {
		return false
	}
	c := parent[lastFlagsHex]
	if c >= 'a' { // a is 10
		c--
	}
	return c&1 == 1 // the codes of 1, 3, 5, 7 and 9 are odd
}
