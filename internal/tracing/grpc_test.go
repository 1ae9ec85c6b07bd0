package tracing

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/queue"
)

// collecting is a collector that speaks gRPC.
type collecting struct {
	collector.UnimplementedTraceServiceServer
	names chan string
}

func (c *collecting) Export(_ context.Context, r *collector.ExportTraceServiceRequest,
) (*collector.ExportTraceServiceResponse, error) {
	for _, rs := range r.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				c.names <- s.GetName()
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func TestSpansAreSentOverGRPCWhereThatIsAskedFor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, server := &collecting{names: make(chan string, 16)}, grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(l) }() // ends with Stop
	t.Cleanup(server.Stop)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+l.Addr().String())
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	tr, err := FromEnv(t.Context(), "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/in/rcs", nil)
	tr.Receipt(r, "rcs", "", "").End(inbox.Received{Outcome: queue.Accepted, Status: 200})
	tr.Close(t.Context())
	select {
	case name := <-c.names:
		if name != "POST /in/rcs" {
			t.Errorf("the span is %s", name)
		}
	default:
		t.Error("nothing was sent by the end of Close")
	}
	tr.Close(t.Context()) // a second time does nothing
}

func TestAVariableThatTheSDKCantReadIsLoggedAndSpansAreMade(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"OTEL_RESOURCE_ATTRIBUTES", "site=north,nonsense", "nonsense"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := testserver.NewCollector(t)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", got.URL())
			t.Setenv("OTEL_TRACES_SAMPLER", "traceidratio")
			t.Setenv("OTEL_TRACES_SAMPLER_ARG", "1")
			t.Setenv(c.name, c.value)
			var log testserver.Text
			tr, err := FromEnv(t.Context(), "test", slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodPost, "/in/rcs", nil)
			tr.Receipt(r, "rcs", "", "").End(inbox.Received{Status: 200})
			tr.Close(t.Context())
			if n := len(got.Spans()); n != 1 {
				t.Errorf("%d spans, want 1", n)
			}
			if !strings.Contains(log.String(), "level=WARN") ||
				!strings.Contains(log.String(), c.want) {
				t.Errorf("the log is %q", log.String())
			}
		})
	}
}

func TestASamplerThatPicksNothingLeavesTheTraceUnrecorded(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	tr, spans := tracer(t)
	r := httptest.NewRequest(http.MethodPost, "/in/rcs", nil)
	got := tr.Receipt(r, "rcs", parentText+"01", "")
	parent, _ := got.Context()
	if parent[3:35] != parentText[3:35] || sampled(parent) {
		t.Errorf("stored is %s", parent)
	}
	got.End(inbox.Received{Outcome: queue.Accepted, Status: 200})
	row := callbackRow(parent)
	tr.Settled(row, queue.Settlement{State: queue.Done})
	if try := tr.Try(t.Context(), row); try.End != nil || try.TraceParent != parent {
		t.Errorf("the try is %+v", try)
	}
	if list := spans(); len(list) != 0 {
		t.Errorf("%d spans", len(list))
	}
}
