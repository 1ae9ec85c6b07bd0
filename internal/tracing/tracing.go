package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of what makes the spans.
const scope = "github.com/oncekit/once"

// Tracing makes spans and sends them out. Its methods are safe for concurrent use, but for
// Destination and Service, which are called before.
type Tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	report   *reporter
	peers    peers
	close    sync.Once
}

// FromEnv returns what the standard variables of OpenTelemetry ask for; nil: they ask for nothing,
// or OTEL_SDK_DISABLED is true. It connects to nothing. The error says which variable can't be
// used.
//
// It tells OpenTelemetry, for the whole process, that what goes wrong inside of it is written to
// log.
func FromEnv(ctx context.Context, version string, log *slog.Logger) (*Tracing, error) {
	set, err := readEnv(os.Getenv)
	if err != nil || !set.on {
		return nil, err
	}
	report := &reporter{log: log, every: reportEvery}
	otel.SetErrorHandler(report)
	otel.SetLogger(logr.New(report)) // the SDK tells of wrong variables there
	if set.grpc {
		report.SpanExporter, err = otlptracegrpc.New(ctx)
	} else {
		report.SpanExporter, err = otlptracehttp.New(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("make exporter of traces: %w", err)
	}
	return start(ctx, version, report)
}

// start makes a Tracing that sends to an exporter.
func start(ctx context.Context, version string, report *reporter) (t *Tracing, err error) {
	defer func() { // the SDK panics at some numbers
		if p := recover(); p != nil {
			t, err = nil, fmt.Errorf("make spans as OTEL_BSP_* and OTEL_SPAN_* say: %v", p)
		}
	}()
	res, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "once"),
			attribute.String("service.version", version)),
		resource.WithFromEnv(), // the last one counts
	)
	if err != nil { // a part of it can't be read: the rest counts
		report.tell("tracing: read the resource", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(res),
		sdktrace.WithIDGenerator(ids{}), sdktrace.WithBatcher(report))
	return &Tracing{
		provider: provider, report: report,
		tracer: provider.Tracer(scope, trace.WithInstrumentationVersion(version)),
		peers:  peers{destinations: map[string]peer{}, services: map[string]peer{}},
	}, nil
}

// Close sends what is left, until ctx ends, and frees what is held. Whatever is not sent by then is
// lost, and logged. It is safe to call it twice, and on nil.
func (t *Tracing) Close(ctx context.Context) {
	if t == nil {
		return
	}
	t.close.Do(func() {
		begun := time.Now()
		if err := t.provider.Shutdown(ctx); err != nil {
			t.report.log.Warn("the last spans were not sent", "error", err,
				"after", time.Since(begun).Round(time.Millisecond))
		}
	})
}
