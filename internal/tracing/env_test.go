package tracing

import (
	"strings"
	"testing"
)

func TestTracesAreAskedForByVariablesAlone(t *testing.T) {
	for _, c := range []struct {
		env  string
		want settings
	}{
		{"", settings{}},
		{"OTEL_SERVICE_NAME=plant OTEL_TRACES_SAMPLER=always_on", settings{}},
		{"OTEL_TRACES_EXPORTER=otlp", settings{on: true}},
		{"OTEL_TRACES_EXPORTER=none OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", settings{}},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", settings{on: true}},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=https://c", settings{on: true}},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4318/v1/traces", settings{on: true}},
		{"OTEL_SDK_DISABLED=true OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", settings{}},
		{"OTEL_SDK_DISABLED=TRUE OTEL_TRACES_EXPORTER=otlp", settings{}},
		{"OTEL_SDK_DISABLED=false OTEL_TRACES_EXPORTER=otlp", settings{on: true}},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", settings{on: true}},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
			settings{on: true, grpc: true}},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=grpc " +
			"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf", settings{on: true}},
		{"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", settings{}},
	} {
		if got, err := readEnv(environment(c.env)); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.env, got, err, c.want)
		}
	}
}

func TestAVariableThatCantBeUsedIsNamed(t *testing.T) {
	for _, c := range []struct{ env, want string }{
		{"OTEL_TRACES_EXPORTER=zipkin", `OTEL_TRACES_EXPORTER is "zipkin"`},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=http/json",
			`OTEL_EXPORTER_OTLP_PROTOCOL is "http/json": once knows http/protobuf and grpc`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318", "OTEL_EXPORTER_OTLP_ENDPOINT is no URL"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=ftp://c", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is no"},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_TRACES_SAMPLER=foo", `OTEL_TRACES_SAMPLER is "foo"`},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=7",
			`OTEL_TRACES_SAMPLER_ARG is "7"`},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_BSP_MAX_QUEUE_SIZE=-4", "OTEL_BSP_MAX_QUEUE_SIZE"},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_BSP_MAX_QUEUE_SIZE=99999999999999",
			"OTEL_BSP_MAX_QUEUE_SIZE"},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_BSP_MAX_EXPORT_BATCH_SIZE=-1",
			"OTEL_BSP_MAX_EXPORT_BATCH_SIZE"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://user:secret@%zz", "OTEL_EXPORTER_OTLP_ENDPOINT is no"},
	} {
		got, err := readEnv(environment(c.env))
		if err == nil || !strings.Contains(err.Error(), c.want) || got.on {
			t.Errorf("%s: %+v, %v, want %s", c.env, got, err, c.want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: a secret is in %v", c.env, err)
		}
	}
}

// environment reads NAME=VALUE, with blanks between.
func environment(text string) func(string) string {
	vars := map[string]string{}
	for _, field := range strings.Fields(text) {
		name, value, _ := strings.Cut(field, "=")
		vars[name] = value
	}
	return func(name string) string { return vars[name] }
}
