package tracing

import (
	"fmt"
	"net/url"
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
	if endpoint == "" {
		return s, nil
	}
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" ||
		u.Scheme != "http" && u.Scheme != "https" { // its text stays out: it may hold a password
		return settings{}, fmt.Errorf("%s is no URL like http://localhost:4318", at)
	}
	return s, nil
}
