package server_test

import (
	"strings"
	"testing"

	"github.com/oncekit/once/internal/testserver"
)

// gone is a configuration whose source has another name, and another target, in the next file.
const gone = `
sources:
  SOURCE: {key: ["body.id"], event: "body.kind", to: TARGET}
flows:
  transport: {task: "body.task", initial: a, final: [z], events: {go: {from: [a], to: z}}}
`

func TestASourceThatIsGoneIsRefusedUntilTheFileSaysWhatBecomesOfItsCallbacks(t *testing.T) {
	t.Parallel()
	away := testserver.NewHTTPSink(t)
	away.Otherwise(testserver.Answer{Status: 503})
	old := edit(t, gone, "SOURCE", "old", "TARGET", `{http: "`+away.URL()+`"}`)
	renamed := edit(t, gone, "SOURCE", "new", "TARGET", "{flow: transport}")
	for _, c := range []struct {
		to, logs, state, task string
	}{
		{"new", "migrate: moved 2 callbacks from source old to new", "done", "z"},
		{"discard", "migrate: discarded 2 unfinished callbacks of source old", "discarded", ""},
	} {
		t.Run(c.to, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := serve(t, dir, old)
			s.post(200, "old", `{"id":"1","task":"T","kind":"go"}`)
			s.post(200, "old", `{"id":"2","task":"U","kind":"go"}`)
			s.end()

			msg := refusal(t, dir, renamed)
			for _, want := range []string{"once.yaml: the source old is gone",
				"2 callbacks of it, 2 of them unfinished", "sources: {old: discard}",
				"sources: {old: NEW}"} {
				if !strings.Contains(msg, want) {
					t.Errorf("the refusal lacks %q:\n%s", want, msg)
				}
			}
			migrated := renamed + "migrate: {sources: {old: " + c.to + "}}\n"
			s = serve(t, dir, migrated)
			s.awaitCallback("key=1", c.state)
			s.awaitCallback("key=2", c.state)
			if task, _ := s.task("T"); task.State != c.task {
				t.Errorf("the task is %q, want %q", task.State, c.task)
			}
			if !strings.Contains(s.log.String(), c.logs) {
				t.Errorf("the log lacks %q", c.logs)
			}
			// Another scope: a repeat is new to the store, and stale to the flow that has seen it.
			s.post(200, "new", `{"id":"1","task":"T","kind":"go"}`)
			if n := len(s.callbacks("key=1")); n != 2 {
				t.Errorf("%d callbacks have the key, want the old one and the repeat", n)
			}
			s.end()
			serve(t, dir, migrated).end() // a section that was left in does no harm
			serve(t, dir, renamed)
		})
	}
}

func TestAnEventThatHasAnotherNameIsKnownByTheSourceThatItsCallbackGoesTo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := edit(t, gone, "SOURCE", "old", "TARGET", "{flow: transport}", "from: [a], to: z",
		"from: [b], to: z}, begin: {from: [a], to: b")
	s := serve(t, dir, first)
	s.post(200, "old", `{"id":"1","task":"T","kind":"go"}`)
	s.awaitCallback("key=1", "parked")
	s.end()
	next := edit(t, first, "  old:", "  new:", "go:", "move:")
	s = serve(t, dir, next+
		"migrate: {sources: {old: new}, flows: {transport: {events: {go: move}}}}\n")
	s.post(200, "new", `{"id":"2","task":"T","kind":"begin"}`)
	s.awaitTask("T", "z")
}

func TestAMigrationOfWhatThereIsNotIsToldAtTheStart(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), edit(t, gone, "SOURCE", "rcs", "TARGET", "{flow: transport}")+
		"migrate: {sources: {rsc: discard}, flows: {transport: {states: {y: z}}}}\n")
	for _, want := range []string{"there is no source rsc in the store",
		"there is no state y of flow transport in the store"} {
		if !strings.Contains(s.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, s.log)
		}
	}
}

func TestACallbackThatAServiceSendsAwayWaitsNoLongerThanTheFileSays(t *testing.T) {
	t.Parallel()
	service := testserver.NewHTTPSink(t)
	service.Script(testserver.Answer{Status: 401}, testserver.Answer{Status: 503,
		Header: map[string][]string{"Retry-After": {"3600"}}})
	s := serve(t, t.TempDir(), `
sources:
  pay:
    key: ["body.id"]
    to: {http: "`+service.URL()+`", probe: 10ms, retry: {base: 10ms, cap: 20ms}}
`)
	s.post(200, "pay", `{"id":"1"}`)
	s.awaitCallback("key=1", "done")
	if n := len(service.Requests()); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}
