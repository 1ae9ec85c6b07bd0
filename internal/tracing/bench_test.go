package tracing

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/queue"
)

// nowhere is an exporter whose cost is not ours.
type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (nowhere) Shutdown(context.Context) error                             { return nil }

// What a callback with one decision costs while it is traced, and while it is not.
func BenchmarkCallback(b *testing.B) {
	for name, parent := range map[string]string{
		"traced": parentText + "01", "not sampled": parentText + "00",
	} {
		b.Run(name, func(b *testing.B) {
			tr, err := start(b.Context(), "test", &reporter{SpanExporter: nowhere{},
				every: reportEvery, log: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			defer tr.Close(context.Background())
			r := httptest.NewRequest(http.MethodPost, "/in/rcs", nil)
			got := inbox.Received{Outcome: queue.Accepted, Status: 200, Peer: "127.0.0.1:4711",
				Arrivals: []queue.Arrival{{Event: "finish", Flow: "transport", Task: "T1"}}}
			row := callbackRow("")
			set := queue.Settlement{State: queue.Done}
			b.ReportAllocs()
			for b.Loop() {
				receipt := tr.Receipt(r, "rcs", parent, "")
				row.TraceParent, row.TraceState = receipt.Context()
				receipt.End(got)
				tr.Step(row)
				tr.Settled(row, set)
			}
		})
	}
}
