package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/server"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// withElements lets the messages of a source carry callbacks in body.data, each with id, kind and
// task.
func withElements(name string) func(*server.Options) {
	field := func(m *inbox.Message, name string) (string, error) {
		item, ok := m.Item.(map[string]any)
		if !ok {
			return "", errors.New("the element is no object")
		}
		v, _ := item[name].(string)
		return v, nil
	}
	return func(o *server.Options) {
		i := slices.IndexFunc(o.Config.Sources, func(s *inbox.Source) bool {
			return s.Name == name
		})
		src := o.Config.Sources[i]
		src.Each = func(m *inbox.Message) ([]any, error) {
			list, ok := m.Body.(map[string]any)["data"].([]any)
			if !ok {
				return nil, errors.New("data is no list")
			}
			return list, nil
		}
		src.Key = func(m *inbox.Message) (once.Key, error) {
			id, err := field(m, "id")
			if err != nil {
				return nil, err
			}
			return once.KeyOf(id)
		}
		src.Event = func(m *inbox.Message) (string, error) { return field(m, "kind") }
		src.Fingerprint = func(m *inbox.Message) (once.Fingerprint, error) {
			return value.Digest(m.Item, nil)
		}
		route := src.Route
		src.Route = func(m *inbox.Message, event string) (inbox.Route, error) {
			task, err := field(m, "task")
			if err != nil {
				return inbox.Route{}, err
			}
			trial := *m
			trial.Body = map[string]any{"task": task}
			return route(&trial, event)
		}
	}
}

// elements is a configuration in which a flow, a service and a handler work elements.
const elements = `
sources:
  robots: {key: ["body.id"], event: "body.kind", to: {flow: transport}}
  pay: {key: ["body.id"], to: {http: "SERVICE", retry: {base: 10ms, cap: 20ms}}}
  bank: {key: ["body.id"], to: {handler: book, retry: {base: 10ms, cap: 20ms}}}
destinations:
  out: {log: {}}
flows:
  transport:
    task: "body.task"
    initial: a
    final: [z]
    events:
      begin: {from: [a], to: b, set: {sent: "${body.at}", seen: "${body.data[0].note}"}}
      end: {from: [b], to: z, set: {last: "${body.data[0].note}"}}
`

func TestElementsOfOneMessageAreWorkedAloneAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	dir, sink := t.TempDir(), testserver.NewHTTPSink(t)
	yaml := edit(t, elements, "SERVICE", sink.URL())
	sink.Otherwise(testserver.Answer{Status: 503})
	fails := true
	var seen []inbox.Callback
	book := inbox.CommitFunc(func(_ context.Context, _ queue.Tx, c inbox.Callback) error {
		if fails {
			return errors.New("the bank is closed")
		}
		seen = append(seen, c)
		return nil
	})
	options := []func(*server.Options){
		withElements("robots"), withElements("pay"), withElements("bank"),
		func(o *server.Options) { o.Handlers = map[string]inbox.Handler{"book": book} },
	}
	s := serve(t, dir, yaml, options...)
	s.post(200, "robots", `{"at":"08:00","data":[{"id":"1","kind":"begin","task":"T","note":"x"},`+
		`{"id":"2","kind":"end","task":"U","note":"early"},{"kind":"begin"},`+
		`{"id":"3","kind":"begin","task":"U","note":"y"},{"id":"4","kind":"what","task":"U"}]}`)
	s.awaitTask("T", "b")
	s.awaitTask("U", "z")
	if u, _ := s.task("U"); u.Fields["seen"] != "y" || u.Fields["last"] != "early" ||
		u.Fields["sent"] != "08:00" {
		t.Errorf("the flow saw %v", u.Fields)
	}
	if c := s.awaitCallback("key=4", "unrouted"); c.Element.Index != 4 || c.Element.Of != 5 ||
		!strings.Contains(fmt.Sprint(c.Body), `"data":[{"id":"4"`) {
		t.Errorf("the API shows %+v of %v", c.Element, c.Body)
	}
	for _, source := range []string{"pay", "bank"} {
		s.post(200, source, `{"n":9007199254740993,"data":[{"id":"`+source+`1"},{"id":"`+source+`2"}]}`)
	}
	sink.Await(t, 4, patience) // tried more than once
	s.end()

	fails = false
	sink.Otherwise(testserver.Answer{Status: 200})
	s = serve(t, dir, yaml, options...)
	for _, key := range []string{"pay1", "pay2", "bank1", "bank2"} {
		s.awaitCallback("key="+key, "done")
	}
	s.end()
	bodies := map[string]int{}
	for _, r := range sink.Requests() {
		bodies[r.Header.Get("Once-Item")+" "+string(r.Body)]++
	}
	for i := range 2 {
		want := fmt.Sprintf(`%d {"data":[{"id":"pay%d"}],"n":9007199254740993}`, i, i+1)
		if bodies[want] == 0 {
			t.Errorf("the service did not get %s, but %v", want, bodies)
		}
	}
	if len(bodies) != 2 || len(seen) != 2 {
		t.Errorf("%d bodies, %d callbacks", len(bodies), len(seen))
	}
	for _, c := range seen {
		if want := fmt.Sprintf(`{"id":"bank%d"}`, c.ItemIndex+1); string(c.Item) != want {
			t.Errorf("the handler saw %s, want %s", c.Item, want)
		}
	}
}

func TestAPersonTriesAnElementAgainAndAcceptsAnotherContentOfIt(t *testing.T) {
	t.Parallel()
	dir, sink := t.TempDir(), testserver.NewHTTPSink(t)
	yaml := edit(t, elements, "SERVICE", sink.URL())
	s := serve(t, dir, yaml, withElements("robots"), withElements("pay"), withElements("bank"),
		func(o *server.Options) {
			o.Handlers = map[string]inbox.Handler{"book": inbox.WorkFunc(
				func(context.Context, inbox.Callback) (any, error) { return nil, nil })}
		})
	s.post(200, "robots", `{"at":"08:00","data":[{"id":"1","kind":"go","task":"T","note":"x"},`+
		`{"id":"2","kind":"go","task":"U","note":"u"}]}`)
	s.awaitCallback("key=1", "unrouted")
	s.post(200, "robots", `{"at":"09:00","data":[{"id":"1","kind":"begin","task":"T","note":"z"},`+
		`{"id":"2","kind":"go","task":"U","note":"u"}]}`)
	c := s.callback("key=1")
	if c.Conflicts != 1 || len(c.Receipts) != 2 {
		t.Fatalf("callback %+v", c)
	}
	s.change(200, "/api/v1/callbacks/"+c.ID+"/accept", `,"receipt":1`)
	if task := s.awaitTask("T", "b"); task.Fields["seen"] != "z" || task.Fields["sent"] != "09:00" {
		t.Errorf("the flow saw %v", task.Fields)
	}
	s.end()
	renamed := edit(t, yaml, "begin:", "go:")
	s = serve(t, dir, renamed+"migrate: {flows: {transport: {events: {begin: go}}}}\n",
		withElements("robots"), withElements("pay"), withElements("bank"),
		func(o *server.Options) {
			o.Handlers = map[string]inbox.Handler{"book": inbox.WorkFunc(
				func(context.Context, inbox.Callback) (any, error) { return nil, nil })}
		})
	c = s.callback("key=2")
	s.change(200, "/api/v1/callbacks/"+c.ID+"/retry", "")
	if task := s.awaitTask("U", "b"); task.Fields["seen"] != "u" || task.Fields["sent"] != "08:00" {
		t.Errorf("the flow saw %v", task.Fields)
	}
}

func TestARepeatThatIsNewIsWorkedAgain(t *testing.T) {
	t.Parallel()
	sink := testserver.NewHTTPSink(t)
	s := serve(t, t.TempDir(), `
sources:
  kuka: {key: ["body.id"], to: {http: "`+sink.URL()+`"}}
`, func(o *server.Options) { o.Config.Sources[0].NewAfter = time.Microsecond })
	s.post(200, "kuka", `{"id":"1"}`)
	s.awaitCallback("key=1", "done")
	s.post(200, "kuka", `{"id":"1"}`)
	if n := len(s.callbacks("key=1")); n != 2 {
		t.Errorf("%d callbacks", n)
	}
	got := sink.Await(t, 2, patience)
	if a, b := got[0].Header.Get("Idempotency-Key"), got[1].Header.Get("Idempotency-Key"); a == b {
		t.Errorf("both are handed over as %s", a)
	}
}

func TestEncodedBodiesAndFormsAreWorkedByAFlow(t *testing.T) {
	t.Parallel()
	s := serve(t, t.TempDir(), edit(t, elements, "SERVICE", "http://127.0.0.1:1",
		`"${body.data[0].note}"`, `"${body.note}"`, "  bank: {", "  #bank: {"),
		func(o *server.Options) { o.Config.Sources[0].Form = true })
	a, err := s.send("POST", s.url+"/in/robots", "id=1&kind=begin&task=T&note=%C3%A9+x&at=8",
		"Content-Type", "application/x-www-form-urlencoded")
	if err != nil || a.status != 200 {
		t.Fatalf("answer %+v, %v", a, err)
	}
	if task := s.awaitTask("T", "b"); task.Fields["seen"] != "é x" || task.Fields["sent"] != "8" {
		t.Errorf("the flow saw %v", task.Fields)
	}
}

// The elements of the robots' own messages are handed over alone, in the form of their sender.
func TestAServiceGetsOneElementOfARobotsMessage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ preset, path, body, want string }{
		{"hik-rcs-v4", "/api/robot/reporter/task",
			`{"reqCode":"q","robotTaskCode":"T1","extra":"[{\"method\":\"start\",\"n\":1e400},{\"method\":\"end\"}]"}`,
			`0 {"extra":"[{\"method\":\"start\",\"n\":1e400}]","reqCode":"q","robotTaskCode":"T1"}` + "\n" +
				`1 {"extra":"[{\"method\":\"end\"}]","reqCode":"q","robotTaskCode":"T1"}`},
		{"geekplus-rms", "/in/x",
			`{"id":"client","request":{"header":{"requestId":"r"},"body":{"tasks":[` +
				`{"taskId":9007199254740993,"taskStatus":"DONE"},{"taskId":2,"taskStatus":"DONE"}]}}}`,
			`0 {"id":"client","request":{"body":{"tasks":[{"taskId":9007199254740993,"taskStatus":"DONE"}]},"header":{"requestId":"r"}}}` + "\n" +
				`1 {"id":"client","request":{"body":{"tasks":[{"taskId":2,"taskStatus":"DONE"}]},"header":{"requestId":"r"}}}`},
		{"hik-rcs-v3-warnings", "/in/x",
			`{"reqCode":"q","data:":[{"robotCode":"1","beginTime":"t","warnContent":"w","taskCode":""},` +
				`{"robotCode":"2","beginTime":"t","warnContent":"w","taskCode":"T"}]}`,
			`0 {"data:":[{"beginTime":"t","robotCode":"1","taskCode":"","warnContent":"w"}],"reqCode":"q"}` + "\n" +
				`1 {"data:":[{"beginTime":"t","robotCode":"2","taskCode":"T","warnContent":"w"}],"reqCode":"q"}`},
	} {
		t.Run(c.preset, func(t *testing.T) {
			t.Parallel()
			sink := testserver.NewHTTPSink(t)
			s := serve(t, t.TempDir(), `
sources:
  x: {preset: `+c.preset+`, auth: none, to: {http: "`+sink.URL()+`"}}
`)
			a, err := s.send("POST", s.url+c.path, c.body, "Content-Type", "application/json")
			if err != nil || a.status != 200 {
				t.Fatalf("answer %+v, %v", a, err)
			}
			var got []string
			for _, r := range sink.Await(t, 2, patience) {
				got = append(got, r.Header.Get("Once-Item")+" "+string(r.Body))
			}
			slices.Sort(got)
			if text := strings.Join(got, "\n"); text != c.want {
				t.Errorf("handed over\n%s, want\n%s", text, c.want)
			}
		})
	}
}

// Where the list is made by the expression, a service is handed the element: with the whole message
// it would work all of them for each.
func TestAServiceIsHandedEachElementOnceHoweverTheListIsMade(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, each, body, want string }{
		{"joined", "body.l1 + body.l2", `{"l1":[{"id":1}],"l2":[{"id":2}]}`,
			`0 {"id":1}` + "\n" + `1 {"id":2}`},
		{"made", "body.data.map(x, {'id': x})", `{"data":[1,2]}`, `0 {"id":1}` + "\n" + `1 {"id":2}`},
		{"picked", "body.data.filter(x, x.ok)",
			`{"data":[{"id":1,"ok":false},{"id":2,"ok":true}]}`, `0 {"data":[{"id":2,"ok":true}]}`},
		{"an object", "body.data", `{"data": {"id":1}}`, `0 {"data": {"id":1}}`},
		{"a list of one", "body.data", `{"data": [{"id":1}]}`, `0 {"data": [{"id":1}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sink := testserver.NewHTTPSink(t)
			s := serve(t, t.TempDir(), `
sources:
  x: {each: "`+c.each+`", key: ["item.id"], to: {http: "`+sink.URL()+`"}}
`)
			s.post(200, "x", c.body)
			var got []string
			for _, r := range sink.Await(t, strings.Count(c.want, "\n")+1, patience) {
				got = append(got, r.Header.Get("Once-Item")+" "+string(r.Body))
			}
			slices.Sort(got)
			if text := strings.Join(got, "\n"); text != c.want {
				t.Errorf("handed over\n%s, want\n%s", text, c.want)
			}
		})
	}
}
