package server_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/server"
	"github.com/oncekit/once/internal/testserver/mongotest"
	"github.com/oncekit/once/queue"
)

// storeIn is an edit of robots.yaml that keeps its store in a database.
func storeIn(t *testing.T, s mongotest.Server) []string {
	t.Helper()
	u, err := url.Parse(s.URI)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + s.Database(t).Name()
	return []string{"store: sqlite:once.db           #",
		"store: " + strconv.Quote(u.String()) + " #"}
}

// The built-in robots do over MongoDB what they do over SQLite: the events of a task, each sent
// three times, end in one task, one message to the warehouse and one unlock, with a fence.
func TestRobotsOverMongoDBEndInFinishedAndSendEachEffectOnce(t *testing.T) {
	t.Parallel()
	mongotest.Each(t, func(t *testing.T, m mongotest.Server) {
		robotsEnd(t, storeIn(t, m))
	})
}

// robotsEnd sends the events of a task three times each to the built-in robots, whose store is an
// edit of their file.
func robotsEnd(t *testing.T, edits []string) {
	t.Helper()
	p := newPlant(t)
	yaml := p.config(t, p.broker.Addr(), edits...)
	s := serve(t, t.TempDir(), yaml)
	for i, e := range []string{
		event("R1", "T1", "startFE", roadway("17")), event("R2", "T1", "station", ""),
		event("R3", "T1", "updateSeq", ""), event("R4", "T1", "finishFE", ""),
		event("R5", "T1", "finish", ""),
	} {
		for range 3 {
			a := s.post(200, "rcs", e)
			if want := succeeded("R" + strconv.Itoa(i+1)); a.body != want {
				t.Errorf("answered %s, want %s", a.body, want)
			}
		}
	}
	got := s.awaitTask("T1", "finished")
	var steps []string
	for _, h := range got.History {
		steps = append(steps, h.Event+" "+h.From+">"+h.To)
	}
	want := []string{"startFE >running", "station running>at_station",
		"updateSeq at_station>at_station", "finishFE at_station>unloaded",
		"finish unloaded>finished"}
	if !slices.Equal(steps, want) {
		t.Errorf("history %v, want %v", steps, want)
	}
	told := p.wms.Await(t, 1, patience)
	if want := `"state":"unloaded","task":"T1"}`; !strings.HasSuffix(string(told[0].Body), want) {
		t.Errorf("the warehouse was told %s, want it to end with %s", told[0].Body, want)
	}
	s.awaitEffects("state=done", 2)
	heard := p.heard.messages()
	if len(heard) != 1 || heard[0].fence != "1" || heard[0].key == "" {
		t.Errorf("heard %+v, want one unlock with fence 1 and an id", heard)
	}
	s.end()

	// The next process, on the same database, knows the task and every repeat.
	again := serve(t, t.TempDir(), yaml)
	a := again.post(200, "rcs", event("R1", "T1", "startFE", roadway("17")))
	if a.body != succeeded("R1") {
		t.Errorf("a repeat after a restart was answered %s", a.body)
	}
	if task := again.awaitTask("T1", "finished"); len(task.History) != len(want) {
		t.Errorf("after a restart the history is %v", task.History)
	}
}

// Two nodes on one database share its tasks, whichever of them a callback comes to.
func TestTwoNodesOverMongoDBWorkOneFlowTogether(t *testing.T) {
	t.Parallel()
	twoNodesShare(t, storeIn(t, mongotest.Ferret(t)))
}

// twoNodesShare sends events of four tasks to two nodes, each to both.
func twoNodesShare(t *testing.T, edits []string) {
	t.Helper()
	p := newPlant(t)
	yaml := p.config(t, p.broker.Addr(), edits...)
	nodes := []*service{serve(t, t.TempDir(), yaml), serve(t, t.TempDir(), yaml)}
	for n := range 4 {
		for i, method := range []string{"startFE", "station", "updateSeq", "finishFE", "finish"} {
			e := event(fmt.Sprintf("R-%d-%d", n, i), fmt.Sprint("T", n), method, "")
			nodes[(n+i)%2].post(200, "rcs", e)
			nodes[(n+i+1)%2].post(200, "rcs", e)
		}
	}
	for n := range 4 {
		if got := nodes[n%2].awaitTask(fmt.Sprint("T", n), "finished"); len(got.History) != 5 {
			t.Errorf("task %d took %d steps, want 5: %+v", n, len(got.History), got.History)
		}
	}
	p.wms.Await(t, 4, patience)
	nodes[0].awaitEffects("state=done", 4)
	if got := len(p.wms.Requests()); got != 4 {
		t.Errorf("the warehouse was told %d times of 4 tasks", got)
	}
}

// A URL that no driver can read is told before anything is served; a server that is not there is an
// error too, and neither shows the password.
func TestAWrongURLOfMongoDBIsToldWithoutItsPassword(t *testing.T) {
	t.Parallel()
	const yaml = "store: 'mongodb://me:hunter2secret@127.0.0.1:1/once?nonsense=%zz'\n" +
		"sources: {s: {key: body.id, to: {http: 'http://127.0.0.1:1'}}}\n"
	cfg, err := load(t.TempDir(), yaml)
	if err != nil {
		t.Fatal(err)
	}
	list := server.Unfit(cfg)
	if len(list) != 1 || !strings.Contains(list[0].Msg, "mongodb://127.0.0.1:1/once") {
		t.Fatalf("unfit: %+v", list)
	}
	told := (&config.Error{Problems: list}).Error()
	for _, text := range []string{told, cfg.Store.Name()} {
		if strings.Contains(text, "hunter2secret") {
			t.Errorf("it shows the password: %s", text)
		}
	}
}

// committing is a handler that writes in the store's transaction.
var committing = inbox.CommitFunc(func(context.Context, queue.Tx, inbox.Callback) error {
	return nil
})

func TestOverMongoDBAHandlerWithACommitIsRefusedAndOneWithoutIsNot(t *testing.T) {
	t.Parallel()
	for store, lacks := range map[string]int{"mongodb://127.0.0.1:1/once": 2,
		"postgres://127.0.0.1:1/once": 0, "sqlite:a.db": 0} {
		cfg, err := load(t.TempDir(), "store: "+store+
			"\nsources:\n  a: {key: body.id, to: {handler: commits}}\n"+
			"  b: {key: body.id, to: {handler: works}}\n"+
			"  c: {key: body.id, to: {handler: commits}}\n")
		if err != nil {
			t.Fatal(err)
		}
		list := server.Lacks(cfg, map[string]inbox.Handler{"commits": committing,
			"works": inbox.WorkFunc(func(context.Context, inbox.Callback) (any, error) {
				return nil, nil
			})})
		if len(list) != lacks {
			t.Errorf("over %s: %+v, want %d", store, list, lacks)
		}
		for _, p := range list {
			if !strings.Contains(p.Msg, "the handler commits writes in the store's transaction") {
				t.Errorf("told %s", p.Msg)
			}
		}
	}
}
