package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/server"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/tracing"
)

// logged lets a server write JSON under level debug.
func logged(log *testserver.Text) func(*server.Options) {
	return func(o *server.Options) {
		o.Logger = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
}

// lines are the lines of a JSON log that have a value in a field.
func lines(t *testing.T, log *testserver.Text, field, value string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(log.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if fmt.Sprint(m[field]) == value {
			out = append(out, m)
		}
	}
	return out
}

func TestACallbackIsFollowedThroughTheLogByItsID(t *testing.T) {
	t.Parallel()
	sink := testserver.NewHTTPSink(t)
	sink.Script(testserver.Answer{Status: http.StatusServiceUnavailable})
	var log testserver.Text
	s := serve(t, t.TempDir(), edit(t, watched, "SINK", sink.URL()), logged(&log),
		handles(inbox.WorkFunc(func(context.Context, inbox.Callback) (any, error) {
			return nil, nil
		})))
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	s.post(200, "rcs", `{"reqCode":"R1","taskCode":"T1","callbackMethod":"finish"}`,
		"Traceparent", parent)
	s.awaitEffects("state=done", 1)
	id := s.callback("task=T1").ID
	testserver.Until(t, patience, "the effect's last try is logged", func() bool {
		return len(lines(t, &log, "callback", id)) == 4
	})
	s.post(200, "rcs", `{"reqCode":"R1","taskCode":"T1","callbackMethod":"finish"}`)
	effect := s.listEffects("")[0].ID
	want := []map[string]any{
		{"level": "DEBUG", "msg": "received", "source": "rcs", "outcome": "accepted",
			"status": 200.0, "event": "finish", "flow": "transport", "task": "T1"},
		{"level": "DEBUG", "msg": "attempt ended", "source": "rcs", "event": "finish",
			"flow": "transport", "task": "T1", "attempt": 1.0, "state": "done", "effects": 1.0},
		{"level": "DEBUG", "msg": "attempt ended", "effect": effect, "name": "tell",
			"destination": "wms", "flow": "transport", "task": "T1", "attempt": 1.0,
			"state": "pending", "error": "destination answered 503 Service Unavailable"},
		{"level": "DEBUG", "msg": "attempt ended", "effect": effect, "name": "tell",
			"destination": "wms", "flow": "transport", "task": "T1", "attempt": 2.0,
			"state": "done"},
		{"level": "DEBUG", "msg": "received", "source": "rcs", "outcome": "duplicate",
			"status": 200.0},
	}
	var got []map[string]any
	testserver.Until(t, patience, "all of its lines are there", func() bool {
		got = lines(t, &log, "callback", id)
		return len(got) >= len(want)
	})
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d:\n%v", len(got), len(want), got)
	}
	if got[0]["msg"] != "received" { // a callback may be worked before its sender was answered
		got[0], got[1] = got[1], got[0]
	}
	free := []string{"time", "peer", "took", "next_try_in"} // differ each time
	for i, line := range got {
		delete(line, "callback")
		if i < len(want)-1 {
			if line["trace_id"] != "4bf92f3577b34da6a3ce929d0e0e4736" {
				t.Errorf("line %d is of the trace %v", i, line["trace_id"])
			}
			delete(line, "trace_id")
		}
		for _, name := range free {
			delete(line, name)
		}
		if a, b := fmt.Sprint(line), fmt.Sprint(want[i]); a != b {
			t.Errorf("line %d:\n%s\nwant\n%s", i, a, b)
		}
	}
}

// watched is a configuration with every way that a message can go.
const watched = `
sources:
  rcs:
    key: ["body.reqCode", "body.taskCode"]
    event: "body.callbackMethod"
    to: {flow: transport}
  safe: {key: ["body.id"], auth: {bearer: TOKEN-MARK}, to: {handler: h}}
  pay: {key: ["body.id"], to: {handler: h, retry: {attempts: 1, base: 1ms, cap: 1ms}}}
  many: {key: ["item.id"], each: "body.list", to: {handler: h}}
  sms: {key: ["body.id"], content: form, auth: {hmac: {header: X-Sig, algorithm: sha256,
        secret: SECRET-MARK-SECRET-MARK}}, to: {handler: h}}
  out: {key: ["body.id"], to: {http: "SINK/out", retry: {attempts: 1, base: 1ms, cap: 1ms}}}
flows:
  transport:
    task: "body.taskCode"
    initial: created
    final: [done]
    events:
      start:  {from: [created], to: running, set: {note: "${body.note}"}}
      finish:
        from: [created, running]
        to: done
        effects:
          - {name: tell, to: wms, path: "/${body.?path.orValue('e')}", payload: "${body}"}
      count:
        from: [running]
        newer: "body.seq"
        effects: [{name: tell, to: wms, payload: "${body}"}]
destinations:
  wms: {http: {url: "SINK", bearer: BEARER-MARK}, on_dead: continue,
        retry: {base: 1ms, cap: 5ms, attempts: 3}}
`

func TestNoPayloadKeyOrSecretIsInLogsOrSpans(t *testing.T) {
	collector, sink := testserver.NewCollector(t), testserver.NewHTTPSink(t)
	broker := testserver.Mosquitto(t)
	heard := subscribe(t, broker.Addr())
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL())
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=OTLP-MARK")
	var log testserver.Text
	var spans *tracing.Tracing
	s := serve(t, t.TempDir(), edit(t, edit(t, watched, markedBroker(broker.URL())...),
		"SINK", sink.URL()), logged(&log), handles(inbox.WorkFunc(marked)),
		func(o *server.Options) {
			var err error
			if spans, err = tracing.FromEnv(t.Context(), "test", o.Logger); err != nil {
				t.Fatal(err)
			}
			o.Tracing = spans
		})
	sendMarked(t, s, sink)
	dead := s.callbacks("state=dead")
	shown := ""
	for _, c := range dead {
		shown += c.Error
	}
	// What the log does not show is there for the person who looks at the row.
	if !strings.Contains(shown, "MARK") {
		t.Error("no error of a dead letter has a mark: the test sends none")
	}
	s.end()
	if n := len(collector.Spans()); n < 20 {
		t.Errorf("%d spans, want one of each way", n)
	}
	if list := heard.messages(); len(list) == 0 || !isTry(collector, list[0].trace) {
		t.Errorf("messages %v, want one that continues the trace of its try", list)
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "MARK") {
			t.Errorf("a mark is in the log: %s", line)
		}
	}
	for _, b := range collector.Raw() {
		if i := bytes.Index(b, []byte("MARK")); i >= 0 {
			t.Errorf("a mark is in the spans: %q", b[max(i-80, 0):min(i+20, len(b))])
		}
	}
}

// isTry reports whether a traceparent is that of a try of an effect to the broker.
func isTry(c *testserver.Collector, parent string) bool {
	return slices.ContainsFunc(c.Spans(), func(s testserver.Span) bool {
		return s.Name == "send plant" && s.Kind == "PRODUCER" &&
			parent == "00-"+s.Trace+"-"+s.ID+"-01"
	})
}

// markedBroker are edits that add a broker, and effects to it: one with a topic that can't be.
func markedBroker(url string) []string {
	return []string{
		"\n      count:", `
          - {name: shout, to: plant, topic: "t/${body.note}", payload: "${body}"}
          - {name: bad, to: plant, topic: "t/${body.topic}", payload: "${body}"}
      count:`,
		"destinations:", `destinations:
  plant:
    mqtt: {url: ` + url + `, no_subscriber: done, username: USER-MARK, password: PASSWORD-MARK}
    on_dead: continue`,
	}
}

// marked is a handler that fails in every way with what it was given.
func marked(_ context.Context, c inbox.Callback) (any, error) {
	var m struct{ Do, Note string }
	if err := c.Decode(&m); err != nil {
		return nil, err
	}
	switch m.Do {
	case "panic":
		panic(m.Note)
	case "fail":
		return nil, errors.New(m.Note)
	case "permanent":
		return nil, inbox.Permanent(fmt.Errorf("it is %s", m.Note))
	case "unknown":
		return nil, inbox.Unknown(errors.New(m.Note))
	}
	return nil, nil
}

// sendMarked sends marked values on every way, and waits until all of them have ended.
func sendMarked(t *testing.T, s *service, sink *testserver.HTTPSink) {
	t.Helper()
	echo := func(status int) testserver.Answer {
		return testserver.Answer{Status: status, Body: `{"error":"BODY-MARK can't be read"}`,
			Header: http.Header{"X-Note": {"HEADER-MARK"}}}
	}
	sink.Otherwise(echo(http.StatusServiceUnavailable))
	flow := func(req, task, event, more string) string {
		return fmt.Sprintf(`{"reqCode":"KEY-MARK-%s","taskCode":%q,"callbackMethod":%q,`+
			`"note":"NOTE-MARK"%s}`, req, task, event, more)
	}
	header := []string{"X-Secret", "HEADER-MARK", "Cookie", "COOKIE-MARK"}
	s.post(200, "rcs", flow("1", "T1", "start", ""), header...)
	s.post(200, "rcs", flow("1", "T1", "start", ""), header...)                  // duplicate
	s.post(200, "rcs", flow("1", "T1", "start", `,"x":"OTHER-MARK"`), header...) // conflict
	s.post(200, "rcs", flow("2", "T1", "unheard", ""), header...)
	s.post(200, "rcs", flow("3", "T1", "count", `,"seq":"SEQ-MARK"`), header...)
	s.post(200, "rcs", flow("4", "T1", "count", `,"seq":3`), header...) // no order: dead
	s.post(200, "rcs", flow("5", "T1", "count", ""), header...)         // no field: dead
	s.post(200, "rcs", flow("6", "T2", "count", ""), header...)         // early: parked
	s.post(200, "rcs", flow("7", "T1", "finish", `,"topic":"TOPIC-MARK"`), header...)
	s.post(200, "rcs", flow("8", "T1", "start", ""), header...) // stale
	s.post(200, "rcs", flow("9", "T3", "finish", `,"path":"../PATH-MARK","topic":"MARK/#"`), header...)
	for i, bad := range []string{`{"NAME-MARK":1,"NAME-MARK":2}`, `{"note":"BAD-MARK`,
		`{"reqCode":{"MARK":1},"taskCode":"T"}`, `["LIST-MARK"]`, `BARE-MARK`} {
		if a := s.post(400, "rcs", bad, header...); a.status != 400 {
			t.Errorf("refusal %d", i)
		}
	}
	s.post(401, "safe", `{"id":"KEY-MARK"}`, "Authorization", "Bearer WRONG-MARK")
	s.post(200, "safe", `{"id":"KEY-MARK"}`, "Authorization", "Bearer TOKEN-MARK")
	for i, do := range []string{"panic", "fail", "permanent", "unknown", "done"} {
		s.post(200, "pay", fmt.Sprintf(`{"id":"KEY-MARK-%d","do":%q,"note":"NOTE-MARK"}`, i, do))
	}
	s.post(200, "out", `{"id":"KEY-MARK","note":"NOTE-MARK"}`)
	s.post(200, "many", `{"list":[{"id":"KEY-MARK-1"},{"note":"NO-KEY-MARK"},{"id":{"MARK":1}},`+
		`{"id":"KEY-MARK-2"}]}`)
	s.post(400, "many", `{"list":[{"note":"NO-KEY-MARK"},"TEXT-MARK"]}`)
	s.post(401, "sms", `id=KEY-MARK&note=%ZZMARK`, "X-Sig", "SIGNATURE-MARK")
	if a, err := s.send(http.MethodPost, s.url+"/in/PATH-MARK?q=QUERY-MARK", `{}`); err != nil ||
		a.status != 404 {
		t.Errorf("a path that nobody has: %v, status %d", err, a.status)
	}
	ended := func(state string) bool {
		return slices.Contains([]string{"done", "dead", "stale", "parked", "unrouted", "held"},
			state)
	}
	waiting := ""
	defer func() {
		if t.Failed() {
			t.Logf("waiting: %s", waiting)
		}
	}()
	testserver.Until(t, patience, "everything has ended", func() bool {
		for _, c := range s.callbacks("") {
			if !ended(c.State) {
				waiting = fmt.Sprintf("%+v", c)
				return false
			}
		}
		for _, e := range s.listEffects("") {
			if !ended(e.State) {
				waiting = fmt.Sprintf("%+v", e)
				return false
			}
		}
		return true
	})
}
