package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
)

// several is a file whose source takes a list apart, and whose flow reads the elements.
const several = `sources:
  rcs:
    each: "body.?data.orValue(body.tasks)"
    key: ["body.reqCode", "item.no"]
    event: "string(item.state)"
    ignore: [item.at]
    to: {flow: f}
flows:
  f:
    task: "item.no"
    initial: a
    final: [z]
    events:
      "1": {from: [a], to: b, set: {place: "${item.?place}"}}
      "3": {from: [b], to: z, effects: [{name: tell, to: log, when: "item.no != 0",
            payload: {no: "${item.no}", of: "${body.reqCode}"}}]}
destinations: {log: {log: {}}}
`

func TestEach_FindsAListOrOneObject(t *testing.T) {
	s := mustParse(t, several, Env{}).Sources[0]
	if s.MaxElements != 1000 || s.RefuseBad {
		t.Errorf("at most %d, refuse %v; want 1000 and the good ones kept", s.MaxElements,
			s.RefuseBad)
	}
	one := map[string]any{"no": int64(1)}
	for body, want := range map[string][]any{
		`{"data":[{"no":1},{"no":1}]}`: {one, one},
		`{"tasks":{"no":1}}`:           {one},
		`{"data":[]}`:                  {},
		`{"data":[1,"x",null]}`:        {int64(1), "x", nil},
	} {
		if got, err := s.Each(message(t, body)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v; want %v", body, got, err, want)
		}
	}
	for body, want := range map[string]string{
		`{}`:              "each: body.tasks: no such field",
		`{"data":null}`:   "each: body.?data.orValue(body.tasks) is missing",
		`{"data":"text"}`: "each: body.?data.orValue(body.tasks) is a text, no list or object",
		`{"data":7}`:      "each: body.?data.orValue(body.tasks) is a number, no list or object",
	} {
		if got, err := s.Each(message(t, body)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, %v; want %s", body, got, err, want)
		}
	}
}

func TestEach_AnElementIsACallbackOfItsOwn(t *testing.T) {
	s := mustParse(t, several, Env{}).Sources[0]
	m := message(t, `{"reqCode":"M1","data":[{"no":7,"state":1},{"no":"7","state":"3"}]}`)
	items, err := s.Each(m)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		key   once.Key
		event string
		route inbox.Route
	}{
		{mustKey(t, "M1", int64(7)), "1",
			inbox.Route{Lane: "flow", OrderKey: "task/f/7", Flow: "f", Task: "7"}},
		{mustKey(t, "M1", "7"), "3",
			inbox.Route{Lane: "flow", OrderKey: "task/f/7", Flow: "f", Task: "7"}},
	} {
		m.Item = items[i]
		key, err := s.Key(m)
		if err != nil || !slices.Equal(key, want.key) {
			t.Errorf("element %d: key %v, %v; want %v", i, key, err, want.key)
		}
		event, err := s.Event(m)
		if err != nil || event != want.event {
			t.Errorf("element %d: event %q, %v; want %q", i, event, err, want.event)
		}
		if got, err := s.Route(m, event); err != nil || got != want.route {
			t.Errorf("element %d: %+v, %v; want %+v", i, got, err, want.route)
		}
	}
	m.Item = map[string]any{"state": int64(1)}
	if _, err := s.Key(m); err == nil || err.Error() != "item.no: no such field" {
		t.Errorf("an element without a number: %v", err)
	}
}

func TestEach_TheElementAloneIsCompared(t *testing.T) {
	s := mustParse(t, several, Env{}).Sources[0]
	digest := func(body, item string) once.Fingerprint {
		m := message(t, body)
		m.Item = message(t, item).Body
		f, err := s.Fingerprint(m)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first := digest(`{"reqCode":"1","data":[1]}`, `{"no":1,"at":"01Z"}`)
	if digest(`{"reqCode":"2","data":[1,2]}`, `{"at":"02Z","no":1}`) != first {
		t.Error("the company of an element, or what is ignored in it, counts")
	}
	if digest(`{"reqCode":"1","data":[1]}`, `{"no":2,"at":"01Z"}`) == first {
		t.Error("another element has the same fingerprint")
	}
}

func TestEach_WhatIsGivenIsTaken(t *testing.T) {
	text := strings.Replace(several, `"body.?data.orValue(body.tasks)"`,
		`{items: "body.data", bad: refuse, max: 5}`, 1)
	c := mustParse(t, text, Env{})
	if s := c.Sources[0]; s.MaxElements != 5 || !s.RefuseBad {
		t.Errorf("at most %d, refuse %v", s.MaxElements, s.RefuseBad)
	}
	out := printed(t, c)
	if !strings.Contains(out, "    each:\n      items: \"body.data\"\n      bad: refuse\n"+
		"      max: 5\n") {
		t.Errorf("printed\n%s", out)
	}
	if again := printed(t, mustParse(t, out, Env{})); again != out {
		t.Errorf("printed\n%s\nloads as\n%s", out, again)
	}
}

func TestProbes_MatchTextsAndConditions(t *testing.T) {
	text := strings.Replace(minimal, "    event", `    probes:
      - text: test
        reply: {status: 202, headers: {X-A: "${header['x-tenant']}"}, body: {z: 1, a: 2}}
      - {when: "body.kind == 'ping'", reply: {body: "${body.id}"}}
      - {when: "body.?live.orValue(true) == false"}
    event`, 1)
	c := mustParse(t, text, Env{})
	probes := c.Sources[0].Probes
	if len(probes) != 3 || string(probes[0].Text) != "test" || probes[0].When != nil {
		t.Fatalf("probes: %+v", probes)
	}
	none := &inbox.Message{Header: message(t, `{}`).Header}
	body, kind, err := probes[0].Reply.Body(none)
	if string(body) != `{"z":1,"a":2}` || kind != "application/json" || err != nil ||
		probes[0].Reply.Status != 202 {
		t.Errorf("the reply to the text: %d %s %s %v", probes[0].Reply.Status, body, kind, err)
	}
	if h, err := probes[0].Reply.Header["X-A"](none); h != "t1" || err != nil {
		t.Errorf("its header: %s %v", h, err)
	}
	for body, want := range map[string][2]bool{
		`{"kind":"ping","id":5}`:       {true, false},
		`{"kind":"go"}`:                {false, false},
		`{}`:                           {false, false},
		`{"kind":"ping","live":false}`: {true, true},
		`[]`:                           {false, false},
	} {
		for i := range 2 {
			got, err := probes[i+1].When(message(t, body))
			if err != nil || got != want[i] {
				t.Errorf("%s, condition %d: %v, %v; want %v", body, i, got, err, want[i])
			}
		}
	}
	got, _, err := probes[1].Reply.Body(message(t, `{"id":5}`))
	if string(got) != "5" || err != nil {
		t.Errorf("the reply to the condition: %s, %v", got, err)
	}
	out := printed(t, c)
	if again := printed(t, mustParse(t, out, Env{})); again != out {
		t.Errorf("printed\n%s\nloads as\n%s", out, again)
	}
}

func TestRepeats_AreDuplicatesOrNewAfterATime(t *testing.T) {
	for line, want := range map[string]time.Duration{
		"": 0, "    repeats: duplicate\n": 0, "    repeats: {new_after: 10m}\n": 10 * time.Minute,
	} {
		text := strings.Replace(minimal, "    event", line+"    event", 1)
		if got := mustParse(t, text, Env{}).Sources[0].NewAfter; got != want {
			t.Errorf("%s: new after %s, want %s", line, got, want)
		}
	}
}

func TestContent_FormsAreOfTexts(t *testing.T) {
	text := strings.Replace(minimal, "    event", "    content: form\n    event", 1)
	if c := mustParse(t, text, Env{}); !c.Sources[0].Form {
		t.Error("it isn't a form")
	}
	if c := mustParse(t, minimal, Env{}); c.Sources[0].Form {
		t.Error("JSON is a form")
	}
}

func TestComparePlans_WhatFindsTheElementsMakesTheKey(t *testing.T) {
	old := mustParse(t, several, Env{}).Plan()
	use := InUse{Identities: map[string]int64{"rcs": 2}}
	const items = "body.?data.orValue(body.tasks)"
	for _, tt := range []struct{ each, want string }{
		{`"body.data"`, "has another each than"},
		{`"` + items + `"` + "\n    content: form", "has another content than"},
		{`"` + items + `"` + "\n    repeats: {new_after: 1h}", ""},
		{`{items: "` + items + `", bad: refuse, max: 9}`, ""},
	} {
		text := strings.Replace(several, `"`+items+`"`, tt.each, 1)
		c := mustParse(t, text, Env{})
		got := ComparePlans(old, c.Plan(), use, c.Migrate)
		if (tt.want == "") != (len(got) == 0) ||
			tt.want != "" && !strings.Contains(got[0].Msg, tt.want) {
			t.Errorf("%s: %v, want %q", tt.each, got, tt.want)
		}
	}
}
