package tracing

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// The standard variables that are read here. The SDK and the exporters read further ones
// themselves: OTEL_EXPORTER_OTLP_HEADERS, _CERTIFICATE, _TIMEOUT, _COMPRESSION, OTEL_SERVICE_NAME,
// OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_BSP_*, OTEL_SPAN_*.
const (
	envDisabled       = "OTEL_SDK_DISABLED"
	envExporter       = "OTEL_TRACES_EXPORTER"
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	envTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
)

// The protocols of OTLP, as the variables name them.
const (
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

// settings are what the variables say.
type settings struct {
	// on is true if spans are to be sent.
	on bool
	// grpc is true for OTLP over gRPC, else it is HTTP.
	grpc bool
}

// readEnv says whether the environment asks for traces, and how they are sent. Nothing is sent
// unless an exporter or an endpoint is named: a program that is started somewhere must not begin to
// speak to port 4318. A variable that can't be used is an error that says which and what it may be.
func readEnv(getenv func(string) string) (s settings, err error) {
	get := func(names ...string) (name, value string) {
		for _, name = range names {
			if value = strings.TrimSpace(getenv(name)); value != "" {
				return name, value
			}
		}
		return name, ""
	}
	if _, v := get(envDisabled); strings.EqualFold(v, "true") {
		return settings{}, nil
	}
	at, endpoint := get(envTracesEndpoint, envEndpoint)
	switch _, v := get(envExporter); v {
	case "none":
		return settings{}, nil
	case "otlp":
	case "":
		if endpoint == "" {
			return settings{}, nil
		}
	default:
		return settings{}, fmt.Errorf("%s is %q: once knows otlp and none", envExporter, v)
	}
	s.on = true
	switch name, v := get(envTracesProtocol, envProtocol); v {
	case "", protocolHTTP:
	case protocolGRPC:
		s.grpc = true
	default:
		return settings{}, fmt.Errorf("%s is %q: once knows %s and %s", name, v, protocolHTTP,
			protocolGRPC)
	}
	if err := checkSDK(getenv); err != nil {
		return settings{}, err
	}
	if endpoint == "" {
		return s, nil
	}
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" ||
		u.Scheme != "http" && u.Scheme != "https" { // its text stays out: it may hold a password
		return settings{}, fmt.Errorf("%s is no URL like http://localhost:4318", at)
	}
	return s, nil
}

// checkSDK refuses what the SDK would pass over, or panic at: with a sampler that it doesn't know
// it traces everything.
func checkSDK(getenv func(string) string) error {
	const sampler, argument = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
	switch v := strings.TrimSpace(getenv(sampler)); v {
	case "", "always_on", "always_off", "parentbased_always_on", "parentbased_always_off":
	case "traceidratio", "parentbased_traceidratio":
		arg := strings.TrimSpace(getenv(argument))
		if f, err := strconv.ParseFloat(arg, 64); arg != "" && (err != nil || !(f >= 0 && f <= 1)) {
			return fmt.Errorf("%s is %q: it takes a number from 0 to 1", argument, arg)
		}
	default:
		return fmt.Errorf("%s is %q: the SDK knows always_on, always_off, traceidratio, and "+
			"parentbased_ with each of them", sampler, v)
	}
	const most = 10_000_000 // milliseconds, spans: above it is a slip
	for _, name := range []string{"OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT",
		"OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"} {
		v := strings.TrimSpace(getenv(name))
		if n, err := strconv.Atoi(v); v != "" && (err != nil || n < 1 || n > most) {
			return fmt.Errorf("%s is %q: it takes a whole number from 1 to %d", name, v, most)
		}
	}
	return nil
}
