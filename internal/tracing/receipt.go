package tracing

import (
	"context"
	"net"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/queue"
)

var _ inbox.Tracer = (*Tracing)(nil)

// receipt is a message that is followed.
type receipt struct {
	span          trace.Span
	parent, state string
}

// Receipt implements inbox.Tracer. The sampler decides here whether a callback is traced; the
// decision is a part of the trace context that is stored.
func (t *Tracing) Receipt(r *http.Request, source, parent, state string) inbox.Trace {
	ctx := context.Background()
	if sc := remote(parent, state); sc.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, sc)
	}
	method := knownMethod(r.Method)
	_, span := t.tracer.Start(ctx, method+" "+r.URL.Path, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(
			keySource.String(source),
			attribute.String("http.request.method", method),
			attribute.String("http.route", r.URL.Path), // one of those that the source has
			attribute.String("url.path", r.URL.Path),
			attribute.String("url.scheme", scheme(r)),
		))
	out := &receipt{span: span}
	out.parent, out.state = texts(span.SpanContext())
	return out
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// knownMethod returns the method, and _OTHER for one that is none of RFC 9110: what a sender writes
// there must not make names of spans.
func knownMethod(m string) string {
	switch m {
	case http.MethodPost, http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace, http.MethodPatch:
		return m
	}
	return "_OTHER"
}

// Context implements inbox.Trace.
func (r *receipt) Context() (parent, state string) { return r.parent, r.state }

// maxListed bounds the callbacks of one message that its span names.
const maxListed = 16

// End implements inbox.Trace.
func (r *receipt) End(got inbox.Received) {
	if !r.span.IsRecording() {
		return
	}
	r.span.SetAttributes(
		keyOutcome.String(string(got.Outcome)),
		attribute.Int("http.response.status_code", got.Status),
	)
	if got.Peer != "" {
		host, _, err := net.SplitHostPort(got.Peer)
		if err != nil { // from a proxy's header, without a port
			host = got.Peer
		}
		r.span.SetAttributes(attribute.String("client.address", host))
	}
	switch n := len(got.Arrivals); {
	case n == 1:
		a := &got.Arrivals[0]
		r.span.SetAttributes(keyCallback.String(got.ID(0)))
		r.span.SetAttributes(about(a.Event, a.Flow, a.Task)...)
	case n > 1:
		list := make([]string, min(n, maxListed))
		for i := range list {
			list[i] = got.ID(i)
		}
		r.span.SetAttributes(attribute.Int("messaging.batch.message_count", n),
			keyCallbacks.StringSlice(list))
	case got.Known != "":
		r.span.SetAttributes(keyCallback.String(got.Known))
	}
	if got.Outcome == queue.Unavailable || got.Status >= http.StatusInternalServerError {
		r.span.SetStatus(codes.Error, string(got.Outcome))
		r.span.SetAttributes(attribute.String("error.type", string(got.Outcome)))
	}
	r.span.End()
}
