package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/queue"
)

func TestKey_TheFirstCompleteAlternativeCounts(t *testing.T) {
	src := strings.Replace(minimalSource, `["body.id"]`,
		`[["body.?a", "body.n"], ["header['x-tenant']", "body.b"]]`, 1)
	key := mustParse(t, src+minimalFlow+minimalDestinations, Env{}).Sources[0].Key
	tests := map[string]struct {
		body string
		want once.Key
		err  error
	}{
		"first":               {`{"a":"x","n":3,"b":"y"}`, mustKey(t, "x", int64(3)), nil},
		"number keeps type":   {`{"a":"x","n":"3"}`, mustKey(t, "x", "3"), nil},
		"second":              {`{"n":3,"b":"y"}`, mustKey(t, "t1", "y").Alternative(2), nil},
		"empty is incomplete": {`{"a":"","n":3,"b":"y"}`, mustKey(t, "t1", "y").Alternative(2), nil},
		"null is incomplete":  {`{"a":null,"n":3,"b":"y"}`, mustKey(t, "t1", "y").Alternative(2), nil},
		"none":                {`{"a":"x"}`, nil, once.ErrKeyIncomplete},
		"an object is no key": {`{"a":{},"n":3,"b":"y"}`, nil, once.ErrKeyInvalid},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := key(message(t, tt.body))
			if !slices.Equal(got, tt.want) || !errors.Is(err, tt.err) {
				t.Errorf("got %v, %v; want %v, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestKey_EqualValuesOfTwoAlternativesAreTwoKeys(t *testing.T) {
	src := strings.Replace(minimalSource, `["body.id"]`, `[["body.?reqCode"], ["body.?taskCode"]]`, 1)
	key := mustParse(t, src+minimalFlow+minimalDestinations, Env{}).Sources[0].Key
	first, err := key(message(t, `{"reqCode":"7"}`))
	second, err2 := key(message(t, `{"taskCode":"7"}`))
	if err != nil || err2 != nil || slices.Equal(first, second) {
		t.Errorf("keys %v and %v, %v, %v", first, second, err, err2)
	}
}

func TestKey_AnErrorNamesTheField(t *testing.T) {
	key := mustParse(t, minimal, Env{}).Sources[0].Key
	for body, want := range map[string]string{
		`{}`: "body.id", `{"id":{}}`: "body.id is an object", `{"id":""}`: "body.id is empty",
		`[]`: "body.id",
	} {
		if _, err := key(message(t, body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

func TestScope_SeparatesKeys(t *testing.T) {
	src := strings.Replace(minimalSource, "    event",
		"    scope: \"header['x-tenant']\"\n    event", 1)
	key := mustParse(t, src+minimalFlow+minimalDestinations, Env{}).Sources[0].Key
	m := message(t, `{"id":"1"}`)
	if got, err := key(m); err != nil || !slices.Equal(got, mustKey(t, "t1", "1")) {
		t.Errorf("got %v, %v", got, err)
	}
	m.Header.Del("X-Tenant")
	if got, err := key(m); !errors.Is(err, once.ErrKeyIncomplete) {
		t.Errorf("without a tenant: %v, %v", got, err)
	}
}

func mustKey(t *testing.T, values ...any) once.Key {
	t.Helper()
	k, err := once.KeyOf(values...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestRoute_AFlowsEventsGoToTheirTask(t *testing.T) {
	s := mustParse(t, minimal, Env{}).Sources[0]
	tests := map[string]struct {
		body, event string
		want        inbox.Route
		err         string
	}{
		"known": {`{"task":"T1"}`, "go", inbox.Route{
			Lane: "flow", OrderKey: "task/f/T1", Flow: "f", Task: "T1"}, ""},
		"number": {`{"task":7}`, "go", inbox.Route{
			Lane: "flow", OrderKey: "task/f/7", Flow: "f", Task: "7"}, ""},
		"unknown event": {`{"task":"T1"}`, "jump", inbox.Route{
			Lane: "flow", Flow: "f", Task: "T1", Unrouted: true}, ""},
		"unknown event without task": {`{}`, "jump", inbox.Route{
			Lane: "flow", Flow: "f", Unrouted: true}, ""},
		"no task":    {`{}`, "go", inbox.Route{}, "task: body.task"},
		"empty task": {`{"task":""}`, "go", inbox.Route{}, "is empty"},
		"null task":  {`{"task":null}`, "go", inbox.Route{}, "task"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := s.Route(message(t, tt.body), tt.event)
			if got != tt.want || (err != nil) != (tt.err != "") {
				t.Fatalf("got %+v, %v; want %+v", got, err, tt.want)
			}
			if err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, want %q", err, tt.err)
			}
		})
	}
}

func TestRoute_AHandlerTakesItsEventsInOrder(t *testing.T) {
	src := strings.Replace(minimalSource, "{flow: f}",
		`{http: "http://127.0.0.1:1/x", probe: 5s, on_unknown: hold, on_dead: continue}`, 1)
	src += "    order_by: \"body.?agg\"\n    events: [made, paid]\n"
	c := mustParse(t, src, Env{})
	s, h := c.Sources[0], c.SourceSettings[0].Handler
	if h.Lane != "source/rcs" || h.HTTP.URL != "http://127.0.0.1:1/x" || h.Probe != 5*time.Second ||
		!h.Policy.HoldUnknown || h.Policy.Block ||
		!slices.Equal(h.Events, []string{"made", "paid"}) {
		t.Errorf("handler: %+v", h)
	}
	for _, tt := range []struct {
		body, event string
		want        inbox.Route
	}{
		{`{"agg":"A"}`, "paid", inbox.Route{Lane: "source/rcs", OrderKey: "A"}},
		{`{}`, "paid", inbox.Route{Lane: "source/rcs"}},
		{`{"agg":"A"}`, "else", inbox.Route{Lane: "source/rcs", Unrouted: true}},
	} {
		if got, err := s.Route(message(t, tt.body), tt.event); got != tt.want || err != nil {
			t.Errorf("%s %s: %+v, %v", tt.body, tt.event, got, err)
		}
	}
}

func TestFingerprint_IgnoresWhatMayDiffer(t *testing.T) {
	src := strings.Replace(minimalSource, "    event", "    ignore: [body.at]\n    event", 1)
	c := mustParse(t, src+minimalFlow+minimalDestinations, Env{})
	digest := func(body string) once.Fingerprint {
		f, err := c.Sources[0].Fingerprint(message(t, body))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first := digest(`{"id":1,"at":"01Z"}`)
	if digest(`{"at":"02Z", "id":1.0}`) != first {
		t.Error("an ignored member counts")
	}
	if digest(`{"id":2,"at":"01Z"}`) == first {
		t.Error("another content has the same fingerprint")
	}
	src = strings.Replace(minimalSource, "    event", "    fingerprint: raw\n    event", 1)
	c = mustParse(t, src+minimalFlow+minimalDestinations, Env{})
	if digest(`{"id":1}`) == digest(`{"id": 1}`) {
		t.Error("raw doesn't compare every byte")
	}
}

func TestReply_IsMadeOfTheMessage(t *testing.T) {
	src := strings.Replace(minimalSource, "    event", `    reply:
      accepted:
        status: 202
        headers: {X-Id: "${body.id}"}
        body:
          {code: "0", id: "${body.id}", big: 123456789012345678901234567890, none: "${body.?none}"}
      invalid: {status: 400, body: "wrong: ${error}, ${body.id}"}
      unavailable: {body: {msg: "${body.?msg.orValue(0)}", n: 1, in: ["${body.id}", x]}}
    event`, 1)
	s := mustParse(t, src+minimalFlow+minimalDestinations, Env{}).Sources[0]
	accepted := s.Replies[queue.Accepted]
	body, kind, err := accepted.Body(message(t, `{"id":7}`))
	want := `{"code":"0","id":7,"big":123456789012345678901234567890}` // in the order of the file
	if string(body) != want || kind != "application/json" || err != nil || accepted.Status != 202 {
		t.Errorf("accepted: %s %s %v, want %s", body, kind, err, want)
	}
	if h, err := accepted.Header["X-Id"](message(t, `{"id":7}`)); h != "7" || err != nil {
		t.Errorf("header: %q %v", h, err)
	}
	body, kind, err = s.Replies[queue.Invalid].Body(&inbox.Message{Error: "no JSON"})
	if string(body) != "wrong: no JSON, " || kind != "text/plain; charset=utf-8" || err != nil {
		t.Errorf("invalid: %q %s %v", body, kind, err)
	}
	body, _, err = s.Replies[queue.Unavailable].Body(message(t, `[]`))
	if string(body) != `{"msg":"","n":1,"in":["","x"]}` || err != nil {
		t.Errorf("for a body that is no object: %s %v", body, err)
	}
	if _, ok := s.Replies[queue.Duplicate]; ok {
		t.Error("a duplicate has a reply of its own, so it isn't answered like accepted")
	}
}

func TestBearer_TokensComeFromOutside(t *testing.T) {
	src := strings.Replace(minimalSource, "    event",
		"    auth: {bearer: [\"${env:NEW}\", \"${env:OLD}\"]}\n    event", 1)
	c := mustParse(t, src+minimalFlow+minimalDestinations,
		vars(map[string]string{"NEW": "n-token", "OLD": "o-token"}))
	v := c.Sources[0].Verifier
	for token, want := range map[string]bool{"n-token": true, "o-token": true, "x": false} {
		m := message(t, `{}`)
		m.Header.Set("Authorization", "Bearer "+token)
		if err := v.Verify(t.Context(), m); (err == nil) != want {
			t.Errorf("%s: %v", token, err)
		}
	}
}
