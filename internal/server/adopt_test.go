package server_test

import (
	"strings"
	"testing"
)

// adopted is a configuration of one flow whose events, destination and key a test changes.
const adopted = `
sources:
  rcs: {key: ["body.id"], event: "body.kind", to: {flow: transport}}
flows:
  transport:
    task: "body.task"
    initial: a
    final: [z]
    events:
      go: {from: [a], to: b, effects: [{name: tell, to: wms, path: "/x"}]}
      end: {from: [b], to: z}
destinations:
  wms: {http: {url: "http://127.0.0.1:1"}}
`

func TestAFileThatForgetsWhatTheStoreHasIsRefusedUntilItSaysWhatHappens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		edits    []string
		says     []string // in the refusal
		migrate  string
		accepted func(*service)
	}{{
		name:  "a state is gone",
		edits: []string{"to: b,", "to: c,", "from: [b]", "from: [c]"},
		says: []string{"no state b any more", "1 task is in it",
			"flows: {transport: {states: {b: "},
		migrate: "flows: {transport: {states: {b: c}}}",
		accepted: func(s *service) {
			s.post(200, "rcs", `{"id":"3","task":"T","kind":"end"}`)
			s.awaitTask("T", "z")
		},
	}, {
		name:  "an event is gone",
		edits: []string{"end: {", "stop: {"},
		says: []string{"no event end any more", "1 unfinished callback",
			"events: {end: discard}"},
		migrate: "flows: {transport: {events: {end: discard}}}",
		accepted: func(s *service) {
			if c := s.callback("key=2"); c.State != "discarded" ||
				!strings.Contains(c.Error, "migrate") {
				s.t.Errorf("its callback is %s: %s", c.State, c.Error)
			}
		},
	}, {
		name:    "an event has another name",
		edits:   []string{"end: {", "stop: {"},
		says:    []string{"no event end any more"},
		migrate: "flows: {transport: {events: {end: stop}}}",
		accepted: func(s *service) {
			s.post(200, "rcs", `{"id":"3","task":"P","kind":"go"}`)
			s.awaitTask("P", "z") // by what was parked as end
		},
	}, {
		name:    "a destination is gone",
		edits:   []string{"to: wms", "to: mes", "wms: {", "mes: {"},
		says:    []string{"the destination wms is gone", "1 unfinished effect", "{wms: discard}"},
		migrate: "destinations: {wms: discard}",
		accepted: func(s *service) {
			if n := len(s.listEffects("state=discarded&destination=wms")); n != 1 {
				s.t.Errorf("%d effects are discarded, want 1", n)
			}
		},
	}, {
		name:    "the key is another one",
		edits:   []string{`["body.id"]`, `["body.id", "body.task"]`},
		says:    []string{"another key", "2 callbacks", "sources: {rcs: {key: changed}}"},
		migrate: "sources: {rcs: {key: changed}}",
		accepted: func(s *service) {
			s.post(200, "rcs", `{"id":"1","task":"T","kind":"go"}`)
			s.awaitCallback("key=1&state=stale", "stale") // new to the store, stale to the flow
		},
	}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := serve(t, dir, adopted)
			s.post(200, "rcs", `{"id":"1","task":"T","kind":"go"}`)
			s.post(200, "rcs", `{"id":"2","task":"P","kind":"end"}`)
			s.awaitTask("T", "b")
			s.awaitCallback("key=2", "parked")
			s.end()

			changed := edit(t, adopted, c.edits...)
			msg := refusal(t, dir, changed)
			for _, want := range append(c.says, "once.yaml") {
				if !strings.Contains(msg, want) {
					t.Errorf("the refusal lacks %q:\n%s", want, msg)
				}
			}
			refusal(t, dir, changed)     // a refusal changes nothing
			serve(t, dir, adopted).end() // the old file still fits
			s = serve(t, dir, changed+"migrate: {"+c.migrate+"}\n")
			c.accepted(s)
			s.end()
			serve(t, dir, changed) // from here on without `migrate`
		})
	}
}
