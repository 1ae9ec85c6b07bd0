package tracing

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/oncekit/once/internal/testserver"
)

// failing is an exporter that fails as long as err is set.
type failing struct{ err error }

func (f *failing) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return f.err }
func (f *failing) Shutdown(context.Context) error                             { return nil }

func TestAnExporterThatFailsIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log testserver.Text
		out := &failing{err: errors.New("connection refused")}
		r := &reporter{SpanExporter: out, log: slog.New(slog.NewTextHandler(&log, nil)),
			every: reportEvery}
		lines := func() int { return strings.Count(log.String(), "traces can't be sent") }
		spans := make([]sdktrace.ReadOnlySpan, 3)
		send := func(n int) {
			for range n {
				if err := r.ExportSpans(t.Context(), spans); err != nil {
					t.Errorf("the failure is passed on: %v", err)
				}
			}
		}
		send(100)
		if n := lines(); n != 1 {
			t.Errorf("%d lines after 100 failures, want 1:\n%s", n, &log)
		}
		time.Sleep(reportEvery)
		send(100)
		if n := lines(); n != 2 || !strings.Contains(log.String(), "lost=303") {
			t.Errorf("%d lines after a minute, want 2 and 303 lost:\n%s", n, &log)
		}
		out.err = nil
		send(2)
		if n := strings.Count(log.String(), "traces are sent again"); n != 1 {
			t.Errorf("%d lines that it works again, want 1:\n%s", n, &log)
		}
		out.err = errors.New("once more")
		send(1)
		if n := lines(); n != 3 {
			t.Errorf("%d lines after it failed anew, want 3:\n%s", n, &log)
		}
		for range 100 {
			r.Handle(errors.New("something"))
		}
		if n := strings.Count(log.String(), "msg=tracing"); n != 1 {
			t.Errorf("%d lines of other errors, want 1", n)
		}
	})
}
