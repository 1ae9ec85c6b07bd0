package testserver

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// maxOTLP bounds one request to a Collector, in bytes.
const maxOTLP = 16 << 20

// Span is a span as a Collector has received it. Ids are in hex, as in a traceparent.
type Span struct {
	Trace, ID, Parent string
	Name, Kind        string // the kind without its prefix: SERVER
	Status, Message   string // UNSET, OK or ERROR, and its description
	State             string // the tracestate
	Attributes        map[string]string
	Resource          map[string]string
	Links             []string // ids of spans
	Start, End        uint64   // nanoseconds since 1970
}

// Collector takes traces over OTLP/HTTP, as protobuf.
type Collector struct {
	server *httptest.Server
	ending chan struct{}

	mu      sync.Mutex
	spans   []Span
	raw     [][]byte
	headers []http.Header
	hang    bool
}

// NewCollector starts a collector. It ends with the test.
func NewCollector(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{ending: make(chan struct{})}
	c.server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(func() {
		close(c.ending)
		c.server.CloseClientConnections()
		c.server.Close()
	})
	return c
}

// URL is where the collector listens, as OTEL_EXPORTER_OTLP_ENDPOINT wants it.
func (c *Collector) URL() string { return c.server.URL }

// Hang makes the collector take requests and never answer them.
func (c *Collector) Hang() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hang = true
}

// Spans are the spans received so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Raw are the bodies of the requests so far, and Headers their headers.
func (c *Collector) Raw() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.raw)
}

// Headers are the headers of the requests so far.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.headers)
}

func (c *Collector) serve(w http.ResponseWriter, r *http.Request) {
	body, err := readOTLP(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var got collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &got); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	hang := c.hang
	c.raw = append(c.raw, body)
	c.headers = append(c.headers, r.Header.Clone())
	if !hang {
		c.spans = append(c.spans, spansOf(&got)...)
	}
	c.mu.Unlock()
	if hang {
		select {
		case <-c.ending:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	b, err := proto.Marshal(&collector.ExportTraceServiceResponse{})
	if err == nil {
		_, _ = w.Write(b) // an exporter that has gone needs no answer
	}
}

func readOTLP(r *http.Request) ([]byte, error) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" {
		return nil, fmt.Errorf("%s %s is no export of traces", r.Method, r.URL.Path)
	}
	in := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = z
	}
	return io.ReadAll(io.LimitReader(in, maxOTLP))
}

func spansOf(got *collector.ExportTraceServiceRequest) []Span {
	var out []Span
	for _, rs := range got.GetResourceSpans() {
		resource := attributesOf(rs.GetResource().GetAttributes())
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				out = append(out, spanOf(s, resource))
			}
		}
	}
	return out
}

func spanOf(s *tracepb.Span, resource map[string]string) Span {
	out := Span{
		Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
		Parent: hex.EncodeToString(s.GetParentSpanId()), Name: s.GetName(),
		Kind:    strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_"),
		Status:  strings.TrimPrefix(s.GetStatus().GetCode().String(), "STATUS_CODE_"),
		Message: s.GetStatus().GetMessage(), State: s.GetTraceState(), Resource: resource,
		Attributes: attributesOf(s.GetAttributes()),
		Start:      s.GetStartTimeUnixNano(), End: s.GetEndTimeUnixNano(),
	}
	for _, l := range s.GetLinks() {
		out.Links = append(out.Links, hex.EncodeToString(l.GetSpanId()))
	}
	return out
}

func attributesOf(list []*common.KeyValue) map[string]string {
	out := make(map[string]string, len(list))
	for _, kv := range list {
		out[kv.GetKey()] = textOfValue(kv.GetValue())
	}
	return out
}

func textOfValue(v *common.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *common.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *common.AnyValue_ArrayValue:
		var list []string
		for _, e := range v.ArrayValue.GetValues() {
			list = append(list, textOfValue(e))
		}
		return strings.Join(list, ",")
	}
	return fmt.Sprint(v)
}
