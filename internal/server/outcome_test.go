package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/testserver"
)

func TestAConflictIsKeptBesideTheFirstAndWorkedOnceAPersonAcceptsIt(t *testing.T) {
	t.Parallel()
	sink := testserver.NewHTTPSink(t)
	s := serve(t, t.TempDir(), `
sources:
  pay: {key: ["body.id"], to: {http: "`+sink.URL()+`"}}
`)
	first := s.post(200, "pay", `{"id":"1","amount":100}`)
	if a := s.post(200, "pay", `{"id":"1","amount":200}`); a.body != first.body {
		t.Errorf("a conflict was answered %s, the first %s", a.body, first.body)
	}
	s.post(200, "pay", `{"amount":100, "id":"1"}`) // the same in other words
	c := s.awaitCallback("key=1", "done")
	testserver.Until(t, patience, "the repeat is counted", func() bool { // up to a second later
		c = s.callback("key=1")
		return c.Duplicates == 1 && c.Conflicts == 1
	})
	var outcomes []string
	conflict := int64(-1)
	for _, r := range c.Receipts {
		outcomes = append(outcomes, r.Outcome)
		if r.Outcome == "conflict" {
			conflict = r.N
			if r.Body != `{"id":"1","amount":200}` {
				t.Errorf("the conflict's body is %v", r.Body)
			}
		}
	}
	slices.Sort(outcomes)
	if want := []string{"accepted", "conflict", "duplicate"}; !slices.Equal(outcomes, want) {
		t.Fatalf("receipts %v, want %v", outcomes, want)
	}
	if conflict != 1 {
		t.Fatalf("the conflict is arrival %d, want 1", conflict)
	}
	s.change(200, "/api/v1/callbacks/"+c.ID+"/accept", `,"receipt":1`)
	got := sink.Await(t, 2, patience)
	if string(got[0].Body) != `{"id":"1","amount":100}` ||
		string(got[1].Body) != `{"id":"1","amount":200}` {
		t.Errorf("the service got %s, then %s", got[0].Body, got[1].Body)
	}
	if got[0].Header.Get("Idempotency-Key") == got[1].Header.Get("Idempotency-Key") {
		t.Error("the revision went out under the key of the first")
	}
	testserver.Until(t, patience, "both are done", func() bool {
		list := s.callbacks("key=1")
		return len(list) == 2 && list[0].State == "done" && list[1].State == "done"
	})
	s.change(409, "/api/v1/callbacks/"+c.ID+"/accept", `,"receipt":1`) // once is enough
	if n := len(sink.Requests()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

func TestAConflictReplacesADeadFirstWhereTheFileSaysSo(t *testing.T) {
	t.Parallel()
	sink := testserver.NewHTTPSink(t)
	sink.Script(testserver.Answer{Status: 400})
	s := serve(t, t.TempDir(), `
sources:
  pay: {key: ["body.id"], on_conflict: replace_dead, to: {http: "`+sink.URL()+`"}}
`)
	s.post(200, "pay", `{"id":"1","amount":"wrong"}`)
	s.awaitCallback("key=1", "dead")
	s.post(200, "pay", `{"id":"1","amount":100}`)
	got := sink.Await(t, 2, patience)
	if string(got[1].Body) != `{"id":"1","amount":100}` {
		t.Errorf("the service got %s", got[1].Body)
	}
}

func TestARepeatRevivesWhatDiedForAWhileAndNotWhatIsWrong(t *testing.T) {
	t.Parallel()
	sink := testserver.NewHTTPSink(t)
	s := serve(t, t.TempDir(), `
sources:
  pay: {key: ["body.id"], to: {http: "`+sink.URL()+`", retry: {base: 1ms, attempts: 1}}}
`)
	sink.Script(testserver.Answer{Status: 503})
	s.post(200, "pay", payment("away", ""))
	s.awaitCallback("key=away", "dead")
	sink.Script(testserver.Answer{Status: 400})
	s.post(200, "pay", payment("wrong", ""))
	wrong := s.awaitCallback("key=wrong", "dead")
	s.post(200, "pay", payment("wrong", ""))
	s.post(200, "pay", payment("away", ""))
	s.awaitCallback("key=away", "done")
	if c := s.callback("key=wrong"); c.State != "dead" || c.Attempt != 1 {
		t.Errorf("a repeat made what is wrong %s with %d attempts", c.State, c.Attempt)
	}
	// A person can do both.
	s.change(200, "/api/v1/callbacks/"+wrong.ID+"/retry", "")
	done := s.awaitCallback("key=wrong", "done")
	s.change(409, "/api/v1/callbacks/"+done.ID+"/retry", "")
	s.change(409, "/api/v1/callbacks/"+done.ID+"/discard", "")
	s.change(404, "/api/v1/callbacks/nothing/retry", "")
	if n := len(sink.Requests()); n != 4 {
		t.Errorf("%d requests, want 4", n)
	}
}

func TestADiscardedCallbackIsNotWorkedAndItsKeyStaysKnown(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), flowOf("go: {from: [a], to: b}", "end: {from: [b], to: z}"))
	s.post(200, "rcs", `{"id":"1","task":"T","kind":"end"}`)
	c := s.awaitCallback("key=1", "parked")
	s.change(200, "/api/v1/callbacks/"+c.ID+"/discard", "")
	s.post(200, "rcs", `{"id":"2","task":"T","kind":"go"}`)
	s.awaitTask("T", "b")
	s.post(200, "rcs", `{"id":"1","task":"T","kind":"end"}`)
	if c := s.callback("key=1"); c.State != "discarded" {
		t.Errorf("a repeat made it %s", c.State)
	}
	if got, _ := s.task("T"); got.State != "b" {
		t.Errorf("the task is %s", got.State)
	}
}

// flowOf is a configuration of one flow, transport, with the states a, b and z and some events.
func flowOf(events ...string) string {
	return `
sources:
  rcs: {key: ["body.id"], event: "body.kind", to: {flow: transport}}
flows:
  transport:
    task: "body.task"
    initial: a
    final: [z]
    events:
      ` + strings.Join(events, "\n      ") + "\n"
}

func TestI18_AnUnknownEventIsKeptAnsweredAsAcceptedAndWorkedWhenTheFileKnowsIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, dir, flowOf("go: {from: [a], to: z}"))
	s.post(200, "rcs?note=%zz", `{"id":"1","task":"T","kind":"hop"}`) // a query that can't be read
	c := s.awaitCallback("key=1", "unrouted")
	s.change(409, "/api/v1/callbacks/"+c.ID+"/retry", "") // the file still doesn't know it
	if c := s.callback("key=1"); c.State != "unrouted" {
		t.Errorf("it became %s", c.State)
	}
	if _, found := s.task("T"); found {
		t.Error("an unknown event made a task")
	}
	s.end()
	s = serve(t, dir, flowOf("go: {from: [a], to: z}", "hop: {from: [a], to: z}"))
	if c := s.callback("key=1"); c.State != "unrouted" {
		t.Errorf("the new file alone made it %s", c.State)
	}
	s.change(200, "/api/v1/callbacks/"+c.ID+"/retry", "")
	s.awaitCallback("key=1", "done")
	s.awaitTask("T", "z")
	if n := s.metric(`once_callbacks{source="rcs",state="unrouted"}`); n != "0" {
		t.Errorf("%s are counted as unrouted", n)
	}
}

func TestI19_ASenderWithoutTheTokenIsUnauthorizedAndNothingOfItIsACallback(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), `
sources:
  rcs: {key: ["body.id"], auth: {bearer: a-long-secret-token}, event: "body.kind", to: {flow: transport}}
flows:
  transport: {task: "body.task", initial: a, final: [z], events: {go: {from: [a], to: z}}}
`)
	const body = `{"id":"1","task":"T","kind":"go"}`
	for _, auth := range [][]string{nil, {"Authorization", "Bearer wrong"},
		{"Authorization", "Basic a-long-secret-token"}, {"Authorization", "a-long-secret-token"}} {
		a := s.post(401, "rcs", body, auth...)
		if strings.Contains(a.body, "a-long") || a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%v was answered %v %s", auth, a.header, a.body)
		}
	}
	if n := len(s.callbacks("")); n != 0 {
		t.Errorf("%d callbacks", n)
	}
	if n := s.metric(`once_receipts_total{outcome="unauthorized",source="rcs"}`); n != "4" {
		t.Errorf("%s were counted, want 4", n)
	}
	s.post(200, "rcs", body, "Authorization", "Bearer a-long-secret-token")
	s.awaitTask("T", "z")
}

func TestBadInputIsAnsweredInvalidKeptInTheRingAndCounted(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), example(t, "robots.yaml",
		`{mqtt: {url: "mqtt://127.0.0.1:1883", qos: 1}`, `{log: {}`,
		`{http: {url: "http://127.0.0.1:9000/events", timeout: 5s}`, `{log: {}`))
	cases := []struct {
		name, body, contentType string
		status                  int
		reason                  string // has to be in the reply
	}{
		{"empty", "", "", 400, "empty"},
		{"cut off", `{"reqCode":"R1","taskCode":"T`, "", 400, ""},
		{"not JSON", "hello", "", 400, ""},
		{"doubled name", `{"reqCode":"1","reqCode":"2","taskCode":"T","callbackMethod":"x"}`, "",
			400, "reqCode"},
		{"NUL", event("a?b", "T", "x", ""), "", 400, ""},
		{"invalid UTF-8", event("a!b", "T", "x", ""), "", 400, "UTF-8"},
		{"nested too deep", strings.Repeat("[", 100_000), "", 400, ""},
		{"too large", `{"reqCode":"` + strings.Repeat("x", 1<<20) + `"}`, "", 413, ""},
		{"content type", event("R", "T", "startFE", ""), "application/x-www-form-urlencoded", 400,
			"content type"},
		{"no key part", `{"reqCode":"R","callbackMethod":"startFE"}`, "", 400, "taskCode"},
		{"null key part", `{"reqCode":null,"taskCode":"T","callbackMethod":"startFE"}`, "", 400, "reqCode"},
		{"empty key part", event("", "T", "startFE", ""), "", 400, "reqCode"},
		{"object as key part", `{"reqCode":{},"taskCode":"T","callbackMethod":"startFE"}`, "", 400,
			"reqCode"},
		{"BOM and a nested NUL", "\ufeff{\"reqCode\":\"R\",\"taskCode\":\"T\"," +
			"\"callbackMethod\":\"startFE\",\"data\":{\"x\":[\"\x00\"]}}", "", 400, ""},
	}
	bytes := strings.NewReplacer("?", "\x00", "!", "\xff") // no text can hold
	for _, c := range cases {
		contentType := c.contentType
		if contentType == "" {
			contentType = "application/json"
		}
		a, err := s.send(http.MethodPost, s.url+"/in/rcs", bytes.Replace(c.body),
			"Content-Type", contentType)
		if err != nil || a.status != c.status || !strings.Contains(a.body, c.reason) ||
			!strings.HasPrefix(a.body, `{"code":"1","message":"`) {
			t.Errorf("%s: %v, status %d, want %d with %q: %s", c.name, err, a.status, c.status,
				c.reason, a.body)
		}
	}
	if a, err := s.send(http.MethodGet, s.url+"/in/rcs", ""); err != nil || a.status != 405 ||
		a.header.Get("Allow") != "POST" {
		t.Errorf("GET: %v, status %d %v, want 405", err, a.status, a.header)
	}
	if a, err := s.send(http.MethodPost, s.url+"/in/nobody", "{}"); err != nil || a.status != 404 {
		t.Errorf("unknown source: %v, status %d, want 404", err, a.status)
	}
	if n := len(s.callbacks("")); n != 0 {
		t.Errorf("%d callbacks, want none", n)
	}
	var ring struct {
		Items []struct{ Outcome, Reason string }
	}
	testserver.Until(t, patience, "all of them are in the ring", func() bool {
		s.get("/api/v1/rejected?source=rcs", &ring)
		return len(ring.Items) == len(cases)+1
	})
	for _, r := range ring.Items {
		if r.Outcome != "invalid" || r.Reason == "" {
			t.Errorf("in the ring: %+v", r)
		}
	}
	if n := s.metric(`once_receipts_total{outcome="invalid",source="rcs"}`); n != "15" {
		t.Errorf("%s were counted, want 15", n)
	}
}

func TestExactNumbersInKeysAndABOMAreAccepted(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), flowOf("go: {from: [a], to: z}"))
	for _, id := range []string{"9007199254740993", "9007199254740992", `"9007199254740992"`,
		"123456789012345678901234567890"} {
		s.post(200, "rcs", `{"id":`+id+`,"task":"T`+strings.Trim(id, `"`)+`","kind":"go"}`)
	}
	s.post(200, "rcs", "\ufeff"+`{"id":"bom","task":"T","kind":"go"}`)
	s.awaitTask("T", "z")
	if n := len(s.callbacks("")); n != 5 {
		t.Errorf("%d callbacks, want 5", n)
	}
	if n := len(s.callbacks("key=9007199254740993")); n != 1 {
		t.Errorf("%d callbacks have the key 9007199254740993, want 1", n)
	}
}

func TestAResourceWhoseUnlockExpiredIsFreeWhenAPersonSaysThatItHappened(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), flowOf(`start: {from: [a], to: b, acquire: ["roadway/7"]}`,
		`end: {from: [b], to: z, release: all}`)+`
resources: {roadway: {on_release: [{name: unlock, to: plant, expires: 50ms}]}}
destinations: {plant: {http: {url: "http://127.0.0.1:1"}, retry: {base: 10ms, cap: 20ms}}}
`)
	s.post(200, "rcs", `{"id":"1","task":"A","kind":"start"}`)
	s.post(200, "rcs", `{"id":"2","task":"A","kind":"end"}`)
	unlock := s.awaitEffects("state=expired", 1)[0]
	s.post(200, "rcs", `{"id":"3","task":"B","kind":"start"}`)
	s.awaitCallback("key=3", "parked")
	if owner, _ := s.resource("7"); owner != "A" {
		t.Errorf("the roadway is %q's, want A's", owner)
	}
	s.change(200, "/api/v1/effects/"+unlock.ID+"/done", "")
	s.awaitTask("B", "b")
}
