package cli_test

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncekit/once/internal/testserver"
)

// senderParent is the example of W3C Trace Context, section 3.2.3: the sender's span.
const (
	senderTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	senderSpan   = "00f067aa0ba902b7"
	senderParent = "00-" + senderTrace + "-" + senderSpan + "-01"
)

// traced is a plant whose callbacks go to a flow with an effect to each kind of destination, and to
// a service.
const traced = `
log: {level: debug, format: json}
sources:
  rcs:
    key: ["body.reqCode", "body.taskCode"]
    event: "body.callbackMethod"
    to: {flow: transport}
  pay: {key: ["body.id"], to: {http: "SINK/pay", retry: {base: 5ms, cap: 10ms}}}
flows:
  transport:
    task: "body.taskCode"
    initial: created
    final: [done]
    events:
      finish:
        from: [created]
        to: done
        effects:
          - {name: tell, to: wms, path: /events, payload: {task: "${task.id}"}}
          - {name: shout, to: plant, topic: "task/${task.id}", payload: {task: "${task.id}"}}
          - {name: print, to: console, payload: {task: "${task.id}"}}
destinations:
  wms: {http: {url: "SINK"}, retry: {base: 100ms, cap: 300ms}}
  plant: {mqtt: {url: "BROKER", no_subscriber: done}}
  console: {log: {}}
`

// trace makes the program send its traces to an endpoint. The variables are those of the whole test
// process, so such a test can't run beside others.
func trace(t *testing.T, endpoint string) {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=plant-7")
	t.Setenv("OTEL_SERVICE_NAME", "once-north")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
}

// postTraced sends a callback as the sender whose span is senderSpan.
func (p *process) postTraced(source, body string) {
	p.t.Helper()
	req, err := http.NewRequest(http.MethodPost, p.url+"/in/"+source, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", senderParent)
	req.Header.Set("Tracestate", "rojo=00f067aa0ba902b7")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusOK {
		p.t.Fatalf("post %s: status %d", body, res.StatusCode)
	}
}

// named returns the spans of a name, and waits until there is one that fits.
func named(t *testing.T, c *testserver.Collector, name string, fits func(testserver.Span) bool,
) []testserver.Span {
	t.Helper()
	var got []testserver.Span
	testserver.Until(t, patience, "the span "+name+" has come", func() bool {
		got = slices.DeleteFunc(c.Spans(), func(s testserver.Span) bool { return s.Name != name })
		return slices.ContainsFunc(got, fits)
	})
	return got
}

func whatever(testserver.Span) bool { return true }

func done(s testserver.Span) bool { return s.Attributes["once.state"] == "done" }

func TestACallbackIsOneTraceAlsoOverARestart(t *testing.T) {
	collector, sink := testserver.NewCollector(t), testserver.NewHTTPSink(t)
	broker := testserver.Mosquitto(t)
	trace(t, collector.URL())
	sink.Otherwise(testserver.Answer{Status: http.StatusServiceUnavailable})
	dir := t.TempDir()
	write(t, dir, "once.yaml", strings.NewReplacer("SINK", sink.URL(), "BROKER", broker.URL()).
		Replace(traced))
	p := serve(t, dir, "--config", "once.yaml")
	p.postTraced("rcs", `{"reqCode":"R1","taskCode":"T1","callbackMethod":"finish"}`)
	receipt := named(t, collector, "POST /in/rcs", whatever)[0]
	attempt := named(t, collector, "process rcs", whatever)[0]
	failed := named(t, collector, "send wms", whatever)[0]
	named(t, collector, "send plant", done)
	named(t, collector, "send console", done)
	p.kill()
	sink.Otherwise(testserver.Answer{})
	p = serve(t, dir, "--config", "once.yaml")
	sends := named(t, collector, "send wms", done)
	p.signal(syscall.SIGTERM)
	if status := p.status(); status != 0 {
		t.Errorf("status %d", status)
	}

	id := checkTrace(t, collector, receipt, attempt)
	if receipt.Parent != senderSpan || receipt.Kind != "SERVER" || receipt.Status != "UNSET" ||
		receipt.Attributes["once.outcome"] != "accepted" {
		t.Errorf("receipt %+v", receipt)
	}
	if attempt.Parent != receipt.ID || attempt.Kind != "CONSUMER" ||
		!slices.Equal(attempt.Links, []string{receipt.ID}) ||
		attempt.Attributes["once.state"] != "done" || attempt.Attributes["once.task.id"] != "T1" {
		t.Errorf("attempt %+v", attempt)
	}
	if failed.Status != "ERROR" ||
		failed.Message != "destination answered 503 Service Unavailable" ||
		failed.Attributes["http.response.status_code"] != "503" {
		t.Errorf("a try that failed %+v", failed)
	}
	last := sends[slices.IndexFunc(sends, done)]
	if last.Attributes["http.response.status_code"] != "200" || last.Kind != "CLIENT" {
		t.Errorf("the last try %+v", last)
	}
	for _, s := range collector.Spans() {
		if strings.HasPrefix(s.Name, "send ") &&
			(s.Parent != attempt.ID || s.Attributes["once.callback.id"] != id) {
			t.Errorf("a try that is no child of the attempt: %+v", s)
		}
	}
	checkRequests(t, collector, sink)
}

// checkTrace checks what all spans of one callback share, and returns its id.
func checkTrace(t *testing.T, c *testserver.Collector, receipt, attempt testserver.Span) string {
	t.Helper()
	ids := map[string]bool{}
	for _, s := range c.Spans() {
		if s.Trace != senderTrace || s.State != "rojo=00f067aa0ba902b7" {
			t.Errorf("%s is of the trace %s, state %q", s.Name, s.Trace, s.State)
		}
		if s.Resource["service.name"] != "once-north" ||
			s.Resource["deployment.environment.name"] != "test" {
			t.Errorf("resource %v", s.Resource)
		}
		if s.End < s.Start || ids[s.ID] {
			t.Errorf("%s ends before it begins, or its id comes twice", s.Name)
		}
		ids[s.ID] = true
	}
	for _, h := range c.Headers() {
		if h.Get("X-Tenant") != "plant-7" {
			t.Errorf("a request of the exporter without the configured header: %v", h)
		}
	}
	id := receipt.Attributes["once.callback.id"]
	if id == "" || attempt.Attributes["once.callback.id"] != id {
		t.Errorf("the receipt is of the callback %q, the attempt of %q", id,
			attempt.Attributes["once.callback.id"])
	}
	return id
}

// checkRequests wants each request to continue the trace from the span of its own try.
func checkRequests(t *testing.T, c *testserver.Collector, sink *testserver.HTTPSink) {
	t.Helper()
	tries := map[string]bool{}
	for _, s := range c.Spans() {
		tries["00-"+s.Trace+"-"+s.ID+"-01"] = strings.HasPrefix(s.Name, "send wms")
	}
	requests := sink.Requests()
	if len(requests) < 2 {
		t.Errorf("%d requests, want one before the restart and one after it", len(requests))
	}
	unknown := 0
	for _, r := range requests {
		if r.Header.Get("Tracestate") != "rojo=00f067aa0ba902b7" {
			t.Errorf("the tracestate of a request is %q", r.Header.Get("Tracestate"))
		}
		if !tries[r.Header.Get("Traceparent")] {
			unknown++
		}
	}
	if unknown > 1 { // the span of the try in whose midst the process was killed is lost
		t.Errorf("%d of %d requests have a traceparent that is no try's", unknown, len(requests))
	}
}

func TestAnAttemptOfAServiceIsItsParent(t *testing.T) {
	collector, sink := testserver.NewCollector(t), testserver.NewHTTPSink(t)
	trace(t, collector.URL())
	sink.Script(testserver.Answer{Status: http.StatusBadGateway})
	dir := t.TempDir()
	write(t, dir, "once.yaml", strings.NewReplacer("SINK", sink.URL(), "BROKER",
		"mqtt://127.0.0.1:9").Replace(traced))
	p := serve(t, dir, "--config", "once.yaml")
	p.postTraced("pay", `{"id":"P1"}`)
	spans := named(t, collector, "process pay", done)
	requests := sink.Requests()
	if len(spans) != 2 || len(requests) != 2 {
		t.Fatalf("%d attempts and %d requests, want 2 of each", len(spans), len(requests))
	}
	receipt := named(t, collector, "POST /in/pay", whatever)[0]
	for i, s := range spans {
		if s.Parent != receipt.ID || s.Attributes["once.attempt"] != fmt.Sprint(i+1) {
			t.Errorf("attempt %+v", s)
		}
		if got := requests[i].Header.Get("Traceparent"); got != "00-"+s.Trace+"-"+s.ID+"-01" {
			t.Errorf("request %d continues %s, the attempt is %s", i, got, s.ID)
		}
	}
	if spans[0].Attributes["error.type"] != "502" || spans[0].Status != "ERROR" {
		t.Errorf("the first attempt %+v", spans[0])
	}
}

// worked sends callbacks, waits until their effects have gone out, and ends the server in order.
func worked(t *testing.T, p *process, sink *testserver.HTTPSink) (took time.Duration) {
	t.Helper()
	const n = 20
	for i := range n {
		p.postTraced("rcs",
			fmt.Sprintf(`{"reqCode":"R%d","taskCode":"T%[1]d","callbackMethod":"finish"}`, i))
	}
	sink.Await(t, n, patience)
	begun := time.Now()
	p.signal(syscall.SIGTERM)
	if status := p.status(); status != 0 {
		t.Errorf("status %d", status)
	}
	return time.Since(begun)
}

func TestAnExporterThatHangsOrIsAwayDisturbsNothing(t *testing.T) {
	hanging := testserver.NewCollector(t)
	hanging.Hang()
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port on which nobody answers any more
	if err != nil {
		t.Fatal(err)
	}
	away := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, endpoint := range map[string]string{"hangs": hanging.URL(), "is away": away} {
		t.Run(name, func(t *testing.T) {
			sink := testserver.NewHTTPSink(t)
			trace(t, endpoint)
			t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
			t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "500")
			dir := t.TempDir()
			write(t, dir, "once.yaml", strings.NewReplacer("SINK", sink.URL(), "BROKER",
				"mqtt://127.0.0.1:9").Replace(traced))
			p := serve(t, dir, "--config", "once.yaml")
			if took := worked(t, p, sink); took > 20*time.Second {
				t.Errorf("the end took %v", took)
			}
			if n := strings.Count(p.err.String(), "traces can't be sent"); n != 1 {
				t.Errorf("%d lines that traces can't be sent, want 1", n)
			}
		})
	}
}

func TestAWrongVariableOfTracingIsSaidAndWorkGoesOn(t *testing.T) {
	sink := testserver.NewHTTPSink(t)
	trace(t, "collector:4318")
	dir := t.TempDir()
	write(t, dir, "once.yaml", strings.NewReplacer("SINK", sink.URL(), "BROKER",
		"mqtt://127.0.0.1:9").Replace(traced))
	p := serve(t, dir, "--config", "once.yaml")
	worked(t, p, sink)
	if !strings.Contains(p.err.String(), "OTEL_EXPORTER_OTLP_ENDPOINT is no URL") {
		t.Error("the log does not name the variable")
	}
	for _, r := range sink.Requests() {
		if got := r.Header.Get("Traceparent"); got != senderParent {
			t.Errorf("without tracing a request has the traceparent %q, want the sender's", got)
		}
	}
}
