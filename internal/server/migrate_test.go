package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/testserver"
)

// sharing is a configuration of two flows whose tasks share a lift that does something on release.
const sharing = `
sources:
  one: {key: ["body.id"], event: "body.kind", to: {flow: first}}
  two: {key: ["body.id"], event: "body.kind", to: {flow: transport}}
flows:
  first:
    task: "body.task"
    initial: a
    final: [z]
    events:
      go: {from: [a], to: b, acquire: ["lift/1"]}
      halt: {from: [b], to: c, release: all}
      end: {from: [b, c], to: z}
  transport: {task: "body.task", initial: a, final: [z], events: {go: {from: [a], to: z, acquire: ["lift/1"]}}}
resources: {lift: {on_release: [{name: unlock, to: out, path: "/unlock", payload: {task: "${task.id}"}}]}}
destinations: {out: {http: {url: "http://out"}, retry: {base: 1ms, cap: 10ms}}}
`

// withoutFirst is sharing without the flow first.
func withoutFirst(t *testing.T, yaml string) string {
	t.Helper()
	head, rest, _ := strings.Cut(yaml, "  first:\n")
	_, tail, found := strings.Cut(rest, "  transport:")
	if !found {
		t.Fatal("the file has other lines than this test knows")
	}
	return edit(t, head+"  transport:"+tail,
		`  one: {key: ["body.id"], event: "body.kind", to: {flow: first}}`+"\n", "") +
		"migrate: {flows: {first: discard}, sources: {one: discard}}\n"
}

// A lift that the task of a discarded flow owns is given up like any other: nobody gets it before
// its unlocking was acknowledged.
func TestADiscardedFlowGivesUpWhatItsTasksOwnWithTheirEffects(t *testing.T) {
	t.Parallel()
	for _, kinds := range [][]string{{"go"}, {"go", "halt"}} { // owned, and being freed already
		t.Run(strings.Join(kinds, " "), func(t *testing.T) {
			t.Parallel()
			sink := testserver.NewHTTPSink(t)
			sink.Otherwise(testserver.Answer{Status: http.StatusServiceUnavailable})
			yaml, dir := edit(t, sharing, "http://out", sink.URL()), t.TempDir()
			s := serve(t, dir, yaml)
			for _, kind := range kinds {
				s.post(200, "one", `{"id":"`+kind+`","task":"F","kind":"`+kind+`"}`)
				s.awaitCallback("source=one&key="+kind, "done")
			}
			s.post(200, "two", `{"id":"1","task":"T","kind":"go"}`)
			s.awaitCallback("source=two", "parked")
			s.end()

			s = serve(t, dir, withoutFirst(t, yaml))
			testserver.Until(t, patience, "the unlocking is tried", func() bool {
				return len(sink.Requests()) > 0
			})
			if c := s.callback("source=two"); c.State != "parked" {
				t.Errorf("the next one is %s before the unlocking was acknowledged", c.State)
			}
			sink.Otherwise(testserver.Answer{})
			s.awaitTask("T", "z")
			list := s.listEffects("name=unlock&task=F")
			if len(list) != 1 || list[0].State != "done" {
				t.Errorf("the effects are %+v, want one that is done", list)
			}
		})
	}
}

func TestADiscardedDestinationFreesWhatWaitedForIt(t *testing.T) {
	t.Parallel()
	sink := testserver.NewHTTPSink(t)
	sink.Otherwise(testserver.Answer{Status: http.StatusServiceUnavailable})
	yaml, dir := edit(t, sharing, "http://out", sink.URL()), t.TempDir()
	s := serve(t, dir, yaml)
	s.post(200, "one", `{"id":"1","task":"F","kind":"go"}`)
	s.post(200, "one", `{"id":"2","task":"F","kind":"halt"}`)
	s.awaitCallback("source=one&key=2", "done")
	s.post(200, "two", `{"id":"1","task":"T","kind":"go"}`)
	s.awaitCallback("source=two", "parked")
	s.end()
	s = serve(t, dir, edit(t, yaml, "to: out", "to: other", "{out: {http", "{other: {http")+
		"migrate: {destinations: {out: discard}}\n")
	s.awaitTask("T", "z")
}

// A task that a migration moves into another state is moved as by a person.
func TestARenamedStateMovesItsTasksWhole(t *testing.T) {
	t.Parallel()
	const before = `
sources:
  rcs: {key: ["body.id"], event: "body.kind", to: {flow: transport}}
flows:
  transport:
    task: "body.task"
    initial: a
    final: [z]
    events:
      go: {from: [a], to: b, acquire: ["lift/1"]}
      on: {from: [b], to: c}
      late: {from: [c], to: d}
      end: {from: [b, c, d], to: z}
resources: {lift: {on_release: [{name: unlock, to: out}]}}
destinations: {out: {log: {}}}
`
	dir := t.TempDir()
	s := serve(t, dir, before)
	for id, kind := range map[string]string{"1": "go", "2": "late"} {
		s.post(200, "rcs", `{"id":"`+id+`","task":"T","kind":"`+kind+`"}`)
	}
	s.post(200, "rcs", `{"id":"3","task":"U","kind":"go"}`)
	s.awaitTask("T", "b")
	s.awaitCallback("key=2", "parked")
	s.awaitCallback("key=3", "parked")
	s.end()

	// What was parked for c is legal now.
	after := edit(t, before, "to: b,", "to: m,", "on: {from: [b]", "on: {from: [m]",
		"from: [b, c, d]", "from: [m, c, d]", "late: {from: [c]", "late: {from: [m, c]")
	s = serve(t, dir, after+"migrate: {flows: {transport: {states: {b: m}}}}\n")
	moved := s.awaitTask("T", "d")
	if n := len(moved.History); n < 2 || moved.History[n-2].To != "m" ||
		moved.History[n-2].Actor != "migrate" {
		t.Errorf("the history does not show the move: %+v", moved.History)
	}
	s.end()

	// A final state: what the task owns is freed, and the next one gets it.
	final := edit(t, after, "late: {from: [m, c], to: d}", "late: {from: [m, c], to: z}",
		"[m, c, d]", "[m, c]")
	s = serve(t, dir, final+"migrate: {flows: {transport: {states: {d: z}}}}\n")
	s.awaitTask("T", "z")
	s.awaitTask("U", "m")
	if n := strings.Count(s.effects.String(), "unlock"); n != 1 {
		t.Errorf("the lift was unlocked %d times, want once", n)
	}
}

func TestPendingCallbacksOfAFlowGoToTheNewTargetOfTheirSource(t *testing.T) {
	t.Parallel()
	const before = `
sources:
  rcs: {key: ["body.id"], event: "body.kind", to: TARGET}
  other: {key: ["body.id"], event: "body.kind", to: {flow: transport}}
flows:
  transport: {task: "body.task", initial: a, final: [z], on_dead: block, events: {go: {from: [a], to: b}, end: {from: [b], to: z}, odd: {from: [a], to: z, set: {x: "${body.missing}"}}}}
  second: {task: "body.task", initial: a, final: [z], events: {go: {from: [a], to: z}}}
`
	for _, c := range []struct{ name, target string }{
		{"a service", `{http: "URL"}`}, {"another flow", "{flow: second}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sink, dir := testserver.NewHTTPSink(t), t.TempDir()
			s := serve(t, dir, edit(t, before, "TARGET", "{flow: transport}"))
			for _, source := range []string{"rcs", "other"} {
				s.post(200, source, `{"id":"1","task":"`+source+`","kind":"odd"}`)
				s.awaitCallback("key=1&source="+source, "dead")
				s.post(200, source, `{"id":"2","task":"`+source+`","kind":"go"}`)
				s.awaitCallback("key=2&source="+source, "pending") // behind the dead one
			}
			s.end()
			s = serve(t, dir, edit(t, before, "TARGET",
				strings.Replace(c.target, "URL", sink.URL(), 1)))
			s.awaitCallback("key=2&source=rcs", "done")
			if c := s.callback("key=2&source=other"); c.State != "pending" {
				t.Errorf("that of the source whose target is the same is %s", c.State)
			}
		})
	}
}

func TestSourcesThatShareAHandlerShareNothingElse(t *testing.T) {
	t.Parallel()
	const limits = `
sources:
  one: {key: ["body.id"], order_by: "body.account", to: {handler: h, concurrency: 1}}
  two: {key: ["body.id"], order_by: "body.account", to: {handler: h, concurrency: 3, on_dead: continue}}
`
	var running, most [3]atomic.Int64
	gate := make(chan struct{})
	s := serve(t, t.TempDir(), limits, handles(inbox.WorkFunc(
		func(ctx context.Context, c inbox.Callback) (any, error) {
			if c.Key[0] == "dead" {
				return nil, inbox.Permanent(errors.New("never"))
			}
			i := map[string]int{"one": 1, "two": 2}[c.Source]
			now := running[i].Add(1)
			defer running[i].Add(-1)
			for m := most[i].Load(); now > m && !most[i].CompareAndSwap(m, now); {
				m = most[i].Load()
			}
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return nil, ctx.Err()
		})))
	for _, source := range []string{"one", "two"} {
		s.post(200, source, payment("dead", "A"))
		s.awaitCallback("key=dead&source="+source, "dead")
	}
	s.post(200, "two", payment("next", "A")) // not behind the dead one of the other source
	for _, source := range []string{"one", "two"} {
		for _, id := range []string{"1", "2", "3", "4", "5"} {
			s.post(200, source, payment(id, id))
		}
	}
	testserver.Until(t, patience, "both are at their limits", func() bool {
		return running[1].Load() == 1 && running[2].Load() == 3
	})
	close(gate)
	s.awaitCallback("key=next&source=two", "done")
	testserver.Until(t, patience, "all are done", func() bool {
		return len(s.callbacks("state=done")) == 11
	})
	if one, two := most[1].Load(), most[2].Load(); one != 1 || two != 3 {
		t.Errorf("at once ran %d and %d, want 1 and 3", one, two)
	}
}
