package server_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/testserver"
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
			want := "migrate: moved 1 task of flow transport from state b to c"
			if !strings.Contains(s.log.String(), want) {
				s.t.Errorf("the log lacks %q", want)
			}
			s.post(200, "rcs", `{"id":"3","task":"T","kind":"end"}`)
			s.awaitTask("T", "z")
		},
	}, {
		name:  "an event is gone",
		edits: []string{"end: {", "stop: {"},
		says: []string{"no event end any more", "1 unfinished callback",
			"events: {end: discard}", "(or a new name in place of discard)"},
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

func TestAFlowThatIsDiscardedStaysDiscardedAndFreesWhatItsTasksOwn(t *testing.T) {
	t.Parallel()
	const two = `
sources:
  one: {key: ["body.id"], event: "body.kind", to: {flow: first}}
  two: {key: ["body.id"], event: "body.kind", to: {flow: transport}}
flows:
  first: {task: "body.task", initial: a, final: [z], events: {go: {from: [a], to: b, acquire: ["lift/1"]}, end: {from: [b], to: z}}}
  transport: {task: "body.task", initial: a, final: [z], events: {go: {from: [a], to: z, acquire: ["lift/1"]}}}
`
	dir := t.TempDir()
	s := serve(t, dir, two)
	s.post(200, "one", `{"id":"1","task":"F","kind":"go"}`)
	s.awaitCallback("source=one&key=1", "done")
	s.post(200, "one", `{"id":"2","task":"E","kind":"end"}`)
	s.awaitCallback("source=one&key=2", "parked")
	s.post(200, "two", `{"id":"1","task":"T","kind":"go"}`)
	s.awaitCallback("source=two", "parked")
	s.end()
	lines := strings.Split(two, "\n")
	without := strings.Join(append(append([]string{lines[1]}, lines[3:5]...), lines[6:]...), "\n")
	msg := refusal(t, dir, without)
	for _, want := range []string{"the flow first is gone", "1 task ", "flows: {first: discard}"} {
		if !strings.Contains(msg, want) {
			t.Errorf("the refusal lacks %q:\n%s", want, msg)
		}
	}
	s = serve(t, dir, without+"migrate: {flows: {first: discard}, sources: {one: discard}}\n")
	s.awaitTask("T", "z") // it got the lift
	s.awaitCallback("source=one&key=2", "discarded")
	if n := s.metric(`once_tasks{flow="first",state="b"}`); n != "0" {
		t.Errorf("%s tasks of the flow are counted", n)
	}
	s.end()
	serve(t, dir, without) // from here on without `migrate`
}

func TestCallbacksOfASourceThatHasAnotherTargetGoThere(t *testing.T) {
	t.Parallel()
	old, other := testserver.NewHTTPSink(t), testserver.NewHTTPSink(t)
	old.Otherwise(testserver.Answer{Status: 503})
	dir := t.TempDir()
	source := func(to string) string {
		return `
sources:
  pay: {key: ["body.id"], event: "body.kind", order_by: "body.account", to: ` + to + `}
  rest: {key: ["body.id"], to: {http: "` + other.URL() + `"}}
`
	}
	first := source(`{http: "` + old.URL() + `", retry: {base: 10ms, cap: 20ms}}`)
	s := serve(t, dir, first)
	for i, kind := range []string{"paid", "paid", "paid", "wrong"} {
		s.post(200, "pay", `{"id":"`+strconv.Itoa(i)+`","account":"A","kind":"`+kind+`"}`)
	}
	s.end()

	msg := refusal(t, dir, edit(t, first, "  pay: {", "  payments: {"))
	for _, want := range []string{
		"the source pay is gone", "4 callbacks of it, 4 of them unfinished",
		"sources: {pay: discard}", "sources: {pay: payments}", "counts as new"} {
		if !strings.Contains(msg, want) {
			t.Errorf("the refusal lacks %q:\n%s", want, msg)
		}
	}
	var mu sync.Mutex
	var worked []string
	s = serve(t, dir, source("{handler: h}"), handles(inbox.WorkFunc(
		func(_ context.Context, c inbox.Callback) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			worked = append(worked, c.Key[0])
			if c.Event == "wrong" {
				return nil, inbox.Permanent(errors.New("wrong"))
			}
			return nil, nil
		})))
	dead := s.awaitCallback("source=pay&key=3", "dead")
	mu.Lock()
	if got := strings.Join(worked, " "); got != "0 1 2 3" {
		t.Errorf("worked %s, want 0 1 2 3 in order", got)
	}
	mu.Unlock()
	s.end()

	// What is dead gets its place when a person wants it tried again.
	old.Otherwise(testserver.Answer{})
	before := len(old.Requests())
	s = serve(t, dir, first)
	s.change(200, "/api/v1/callbacks/"+dead.ID+"/retry", "")
	s.awaitCallback("source=pay&key=3", "done")
	if n := len(old.Requests()) - before; n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}
