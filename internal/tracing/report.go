package tracing

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// reportEvery is how often an exporter that fails, and what else goes wrong inside of
// OpenTelemetry, is logged at most.
const reportEvery = time.Minute

// reporter is an exporter whose failures are logged, at a limited rate, and trouble nobody. It is
// OpenTelemetry's error handler and the sink of its log as well.
type reporter struct {
	sdktrace.SpanExporter
	log   *slog.Logger
	every time.Duration

	mu      sync.Mutex
	lost    int // spans since the last line
	failing bool
	said    time.Time
	other   time.Time // of the last line about something else
}

var (
	_ sdktrace.SpanExporter = (*reporter)(nil)
	_ logr.LogSink          = (*reporter)(nil)
)

// ExportSpans implements sdktrace.SpanExporter.
func (r *reporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil && r.failing:
		r.log.Info("traces are sent again", "lost", r.lost)
		r.failing, r.lost, r.said = false, 0, time.Time{}
	case err != nil:
		r.failing = true
		r.lost += len(spans)
		if now := time.Now(); r.said.IsZero() || now.Sub(r.said) >= r.every {
			r.log.Warn("traces can't be sent; everything else goes on", "error", err,
				"lost", r.lost)
			r.said = now
		}
	}
	return nil
}

// Handle implements otel.ErrorHandler.
func (r *reporter) Handle(err error) { r.tell("tracing", err) }

// tell logs what goes wrong beside sending.
func (r *reporter) tell(what string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.other.IsZero() || now.Sub(r.other) >= r.every {
		r.log.Warn(what, "error", err)
		r.other = now
	}
}

// Init implements logr.LogSink.
func (r *reporter) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink: of what the SDK says of itself only errors are of interest, and
// the rest holds its configuration.
func (r *reporter) Enabled(int) bool { return false }

// Info implements logr.LogSink.
func (r *reporter) Info(int, string, ...any) {}

// Error implements logr.LogSink. The values stay out: they may be secrets.
func (r *reporter) Error(err error, msg string, _ ...any) { r.tell("tracing: "+msg, err) }

// WithValues implements logr.LogSink.
func (r *reporter) WithValues(...any) logr.LogSink { return r }

// WithName implements logr.LogSink.
func (r *reporter) WithName(string) logr.LogSink { return r }
