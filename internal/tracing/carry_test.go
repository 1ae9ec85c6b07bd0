package tracing

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// parentText is the example of W3C Trace Context, section 3.2.3.
const parentText = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"

func TestTheFlagOfAStoredTraceSaysWhetherItIsRecorded(t *testing.T) {
	for flags, want := range map[string]bool{
		"00": false, "01": true, "02": false, "03": true, "09": true, "0a": false, "0b": true,
		"0c": false, "0d": true, "0e": false, "0f": true, "ff": true, "fe": false,
	} {
		if got := sampled(parentText + flags); got != want {
			t.Errorf("%s: %v, want %v", flags, got, want)
		}
	}
	for _, none := range []string{"", "00-", parentText} {
		if sampled(none) {
			t.Errorf("%q is recorded", none)
		}
	}
}

func TestATraceContextIsReadAndWrittenAsItWas(t *testing.T) {
	const state = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
	sc := remote(parentText+"01", state)
	if !sc.IsValid() || !sc.IsRemote() || !sc.IsSampled() {
		t.Fatalf("read %+v", sc)
	}
	if sc.TraceID().String() != "4bf92f3577b34da6a3ce929d0e0e4736" ||
		sc.SpanID().String() != "00f067aa0ba902b7" {
		t.Errorf("ids %s and %s", sc.TraceID(), sc.SpanID())
	}
	if parent, kept := texts(sc); parent != parentText+"01" || kept != state {
		t.Errorf("written %q %q", parent, kept)
	}
	if remote("", "").IsValid() || remote("nonsense", state).IsValid() {
		t.Error("nothing is a trace context")
	}
}

func TestTheSpanOfADecisionIsTheSameWithinOneTryAlone(t *testing.T) {
	row := queue.Row{Attempt: 1, StartedAt: time.Unix(100, 0)}
	row.Identity = once.Identity{1, 2, 3}
	first := stepSpan(&row)
	if !first.IsValid() || stepSpan(&row) != first {
		t.Fatal("it is not the same")
	}
	second, other, again := row, row, row
	second.Attempt = 2
	other.Identity[31] = 9
	again.StartedAt = time.Unix(101, 0) // tries were counted anew
	for _, r := range []queue.Row{second, other, again} {
		if stepSpan(&r) == first {
			t.Errorf("attempt %d of %v at %v has the same span", r.Attempt, r.Identity, r.StartedAt)
		}
	}
}

func TestIdsAreRandomUnlessTheyAreChosen(t *testing.T) {
	seen := map[trace.SpanID]bool{}
	for range 1000 {
		traceID, spanID := ids{}.NewIDs(context.Background())
		if !traceID.IsValid() || !spanID.IsValid() || seen[spanID] {
			t.Fatal("an id is zero, or comes twice")
		}
		seen[spanID] = true
	}
	want := chosen{trace: trace.TraceID{7}, span: trace.SpanID{8}}
	traceID, spanID := ids{}.NewIDs(choose(context.Background(), want))
	if traceID != want.trace || spanID != want.span {
		t.Errorf("%s %s", traceID, spanID)
	}
	if got := (ids{}).NewSpanID(choose(context.Background(), want), traceID); got != want.span {
		t.Errorf("%s", got)
	}
}
