package tracing

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/queue"
)

// tracer returns a Tracing and what gives the spans that ended since.
func tracer(t *testing.T) (*Tracing, func() []tracetest.SpanStub) {
	t.Helper()
	kept := tracetest.NewInMemoryExporter()
	tr, err := start(t.Context(), "test", &reporter{SpanExporter: kept, every: reportEvery,
		log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close(context.Background()) })
	return tr, func() []tracetest.SpanStub {
		if err := tr.provider.ForceFlush(context.Background()); err != nil {
			t.Fatal(err)
		}
		defer kept.Reset()
		return kept.GetSpans()
	}
}

func callbackRow(parent string) queue.Row {
	return queue.Row{Identity: once.Identity{1, 2, 3}, Kind: queue.Callback, Source: "rcs",
		Event: "finish", Flow: "transport", Task: "T1", Attempt: 2, TraceParent: parent,
		StartedAt: time.Now()}
}

func attributesOf(s tracetest.SpanStub) map[attribute.Key]string {
	out := map[attribute.Key]string{}
	for _, kv := range s.Attributes {
		out[kv.Key] = kv.Value.String()
	}
	return out
}

func TestARowThatIsNotRecordedGetsNoSpan(t *testing.T) {
	tr, spans := tracer(t)
	row := callbackRow(parentText + "00")
	row.TraceState = "a=1"
	ctx := t.Context()
	got := tr.Try(ctx, row)
	if got.Context != ctx || got.End != nil || got.TraceParent != row.TraceParent ||
		got.TraceState != "a=1" {
		t.Errorf("the try is changed: %+v", got)
	}
	if parent, state := tr.Step(row); parent != row.TraceParent || state != "a=1" {
		t.Errorf("the step is changed: %q %q", parent, state)
	}
	tr.Settled(row, queue.Settlement{State: queue.Done})
	unknown := callbackRow("")
	if parent, _ := tr.Step(unknown); parent != "" {
		t.Errorf("a step without a trace has one: %q", parent)
	}
	tr.Settled(unknown, queue.Settlement{State: queue.Done})
	if list := spans(); len(list) != 0 {
		t.Errorf("%d spans", len(list))
	}
}

func TestARowWithoutATraceHasOneForAllItsTries(t *testing.T) {
	tr, spans := tracer(t)
	row := callbackRow("")
	for range 2 {
		tr.Try(t.Context(), row).End(queue.Settlement{State: queue.Pending}, nil)
		row.Attempt++
	}
	list := spans()
	if len(list) != 2 || list[0].SpanContext.TraceID() != list[1].SpanContext.TraceID() {
		t.Fatalf("%d spans, or not one trace", len(list))
	}
	if list[0].SpanContext.SpanID() == list[1].SpanContext.SpanID() || list[0].Parent.IsValid() {
		t.Error("the spans are not two without a parent")
	}
}

func TestAnAttemptIsAChildOfTheReceiptAndLinkedToIt(t *testing.T) {
	tr, spans := tracer(t)
	row := callbackRow(parentText + "01")
	try := tr.Try(t.Context(), row)
	_, own := trace.SpanFromContext(try.Context).TracerProvider().Tracer("handler").Start(
		try.Context, "own")
	own.End()
	try.End(queue.Settlement{State: queue.Done}, nil)
	list := spans()
	if len(list) != 2 {
		t.Fatalf("%d spans, want the handler's own and the attempt", len(list))
	}
	inner, s := list[0], list[1]
	if s.Parent.SpanID().String() != "00f067aa0ba902b7" || len(s.Links) != 1 ||
		s.Links[0].SpanContext.SpanID() != s.Parent.SpanID() {
		t.Errorf("parent %s, links %v", s.Parent.SpanID(), s.Links)
	}
	if inner.Parent.SpanID() != s.SpanContext.SpanID() {
		t.Errorf("the handler's span has the parent %s", inner.Parent.SpanID())
	}
	if parent, _ := texts(s.SpanContext); parent != try.TraceParent {
		t.Errorf("the try was told %s, the span is %s", try.TraceParent, parent)
	}
	if s.Name != "process rcs" || s.SpanKind != trace.SpanKindConsumer ||
		s.Status.Code != codes.Unset {
		t.Errorf("%s %s %v", s.Name, s.SpanKind, s.Status)
	}
	want := map[attribute.Key]string{
		"once.callback.id": row.ID(), "once.source": "rcs", "once.event": "finish",
		"once.flow": "transport", "once.task.id": "T1", "once.attempt": "2", "once.state": "done",
		"messaging.system": "once", "messaging.operation.type": "process",
		"messaging.operation.name": "process", "messaging.destination.name": "rcs",
		"messaging.message.id": row.ID(),
	}
	got := attributesOf(s)
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s is %q, want %q", key, got[key], value)
		}
		delete(got, key)
	}
	if len(got) > 0 {
		t.Errorf("more attributes: %v", got)
	}
}

func TestADecisionsEffectsAreChildrenOfItsSpan(t *testing.T) {
	tr, spans := tracer(t)
	row := callbackRow(parentText + "01")
	parent, _ := tr.Step(row)
	tr.Settled(row, queue.Settlement{State: queue.Dead, DeadCause: queue.CauseIllegal,
		Error: "secret", Public: "finish is not legal"})
	tr.Destination("wms", HTTP, "http://wms.example:9000/secret")
	effect := queue.Row{Identity: once.Identity{9}, Kind: queue.Effect, Source: "wms", Attempt: 1,
		Event: "tell", Cause: row.ID(), TraceParent: parent, Meta: []byte(`{"method":"PUT"}`)}
	try := tr.Try(t.Context(), effect)
	queue.Answered(try.Context, 503)
	try.End(queue.Settlement{State: queue.Pending, Public: "destination answered 503"}, nil)
	list := spans()
	if len(list) != 2 {
		t.Fatalf("%d spans, want 2", len(list))
	}
	step, send := list[0], list[1]
	if send.Parent.SpanID() != step.SpanContext.SpanID() ||
		step.Parent.SpanID().String() != "00f067aa0ba902b7" {
		t.Errorf("parents %s and %s", send.Parent.SpanID(), step.Parent.SpanID())
	}
	if step.Status.Code != codes.Error || step.Status.Description != "finish is not legal" {
		t.Errorf("status of the step %v", step.Status)
	}
	if !step.StartTime.Equal(row.StartedAt) || step.EndTime.Before(step.StartTime) {
		t.Errorf("the step was from %v to %v, begun %v", step.StartTime, step.EndTime,
			row.StartedAt)
	}
	if send.Name != "send wms" || send.SpanKind != trace.SpanKindClient ||
		send.Status.Code != codes.Error || send.Status.Description != "destination answered 503" {
		t.Errorf("%s %s %v", send.Name, send.SpanKind, send.Status)
	}
	want := map[attribute.Key]string{
		"once.effect.id": effect.ID(), "once.effect.name": "tell", "once.destination": "wms",
		"once.callback.id": row.ID(), "once.attempt": "1", "once.state": "pending",
		"http.request.method": "PUT", "http.response.status_code": "503",
		"server.address": "wms.example", "server.port": "9000", "error.type": "503",
	}
	got := attributesOf(send)
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s is %q, want %q", key, got[key], value)
		}
		delete(got, key)
	}
	if len(got) > 0 {
		t.Errorf("more attributes: %v", got)
	}
}

func TestATryThatWasNotBegunHasNoSpanUnlessItWasAnswered(t *testing.T) {
	tr, spans := tracer(t)
	row := callbackRow(parentText + "01")
	tr.Try(t.Context(), row).End(queue.Settlement{State: queue.Pending, NotTried: true}, nil)
	if list := spans(); len(list) != 0 {
		t.Errorf("%d spans of a try that was not begun", len(list))
	}
	refused := tr.Try(t.Context(), row)
	queue.Answered(refused.Context, 401)
	refused.End(queue.Settlement{State: queue.Pending, NotTried: true}, nil)
	list := spans()
	if len(list) != 1 || attributesOf(list[0])["http.response.status_code"] != "401" {
		t.Errorf("spans %v of a try that was refused", list)
	}
}

func TestAResultThatWasNotStoredIsAnError(t *testing.T) {
	tr, spans := tracer(t)
	tr.Try(t.Context(), callbackRow(parentText+"01")).End(queue.Settlement{State: queue.Done},
		errors.New("store: secret"))
	list := spans()
	if len(list) != 1 || list[0].Status.Code != codes.Error ||
		list[0].Status.Description != "the result was not stored" {
		t.Errorf("%+v", list)
	}
}

func TestAReceiptGoesOnWithTheSendersTrace(t *testing.T) {
	tr, spans := tracer(t)
	r := httptest.NewRequest(http.MethodPost, "/in/rcs?token=secret", nil)
	got := tr.Receipt(r, "rcs", parentText+"01", "a=1")
	parent, state := got.Context()
	if state != "a=1" || parent[3:35] != parentText[3:35] || parent == parentText+"01" {
		t.Errorf("stored is %q %q", parent, state)
	}
	id := once.Identity{5}
	got.End(inbox.Received{Outcome: queue.Accepted, Status: 200, Peer: "192.0.2.1:1234",
		Arrivals: []queue.Arrival{{Identity: id, Event: "e", Task: "T", Flow: "f"}}})
	list := spans()
	if len(list) != 1 || list[0].Parent.SpanID().String() != "00f067aa0ba902b7" ||
		list[0].Name != "POST /in/rcs" || list[0].SpanKind != trace.SpanKindServer {
		t.Fatalf("%+v", list)
	}
	want := map[attribute.Key]string{
		"once.callback.id": id.ID(), "once.source": "rcs", "once.event": "e", "once.flow": "f",
		"once.task.id": "T", "once.outcome": "accepted", "http.request.method": "POST",
		"http.route": "/in/rcs", "url.path": "/in/rcs", "url.scheme": "http",
		"http.response.status_code": "200", "client.address": "192.0.2.1",
	}
	attributes := attributesOf(list[0])
	for key, value := range want {
		if attributes[key] != value {
			t.Errorf("%s is %q, want %q", key, attributes[key], value)
		}
		delete(attributes, key)
	}
	if len(attributes) > 0 {
		t.Errorf("more attributes: %v", attributes)
	}
}

func TestAReceiptTellsWhatFailedAndWhichCallbacksItHas(t *testing.T) {
	tr, spans := tracer(t)
	ask := func(got inbox.Received) tracetest.SpanStub {
		t.Helper()
		r := httptest.NewRequest("BREW", "/in/rcs", nil)
		tr.Receipt(r, "rcs", "", "").End(got)
		list := spans()
		if len(list) != 1 || list[0].Name != "_OTHER /in/rcs" {
			t.Fatalf("spans %v", list)
		}
		return list[0]
	}
	away := ask(inbox.Received{Outcome: queue.Unavailable, Status: 503})
	if away.Status.Code != codes.Error || attributesOf(away)["error.type"] != "unavailable" {
		t.Errorf("unavailable: %v %v", away.Status, attributesOf(away))
	}
	wrong := ask(inbox.Received{Outcome: queue.Invalid, Status: 400})
	if wrong.Status.Code != codes.Unset { // the sender's fault is no error of a server's span
		t.Errorf("invalid: %v", wrong.Status)
	}
	known := ask(inbox.Received{Outcome: queue.Duplicate, Status: 200, Known: "abc"})
	if got := attributesOf(known)["once.callback.id"]; got != "abc" {
		t.Errorf("a known one has the id %q", got)
	}
	many := inbox.Received{Outcome: queue.Accepted, Status: 200,
		Receipts: []queue.Receipt{{}, {Identity: once.Identity{77}}}} // new after a while
	for i := range 20 {
		many.Arrivals = append(many.Arrivals, queue.Arrival{Identity: once.Identity{byte(i + 1)}})
	}
	got := attributesOf(ask(many))
	list := got["once.callback.ids"]
	if got["messaging.batch.message_count"] != "20" || got["once.callback.id"] != "" {
		t.Errorf("20 callbacks: %v", got)
	}
	for id, want := range map[once.Identity]bool{{1}: true, {77}: true, {2}: false, {16}: true,
		{17}: false} {
		if strings.Contains(list, id.ID()) != want {
			t.Errorf("the list has %s: %v, want %v", id.ID(), !want, want)
		}
	}
}

func TestAReceiptOfATraceThatIsNotRecordedIsNotEither(t *testing.T) {
	tr, spans := tracer(t)
	r := httptest.NewRequest(http.MethodPost, "/in/rcs", nil)
	got := tr.Receipt(r, "rcs", parentText+"00", "")
	if parent, _ := got.Context(); sampled(parent) || parent[3:35] != parentText[3:35] {
		t.Errorf("stored is %q", parent)
	}
	got.End(inbox.Received{Outcome: queue.Accepted, Status: 200})
	if list := spans(); len(list) != 0 {
		t.Errorf("%d spans", len(list))
	}
}

func TestANumberAtWhichTheSDKPanicsIsAnError(t *testing.T) {
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-4")
	tr, err := start(t.Context(), "test", &reporter{SpanExporter: nowhere{}, every: reportEvery,
		log: slog.New(slog.DiscardHandler)})
	if tr != nil || err == nil || !strings.Contains(err.Error(), "OTEL_BSP_") {
		t.Errorf("got %v, %v", tr, err)
	}
}
