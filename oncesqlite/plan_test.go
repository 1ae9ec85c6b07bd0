package oncesqlite

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/oncekit/once/queue"
)

func TestAPlanIsKept(t *testing.T) {
	cfg := Config{Path: filepath.Join(t.TempDir(), "once.db")}
	s := openAt(t, cfg)
	if plan, err := s.Plan(t.Context()); plan != nil || err != nil {
		t.Fatalf("a new store has plan %q, %v", plan, err)
	}
	for _, want := range []string{`{"a":1}`, "\x00\xff"} {
		if err := s.SavePlan(t.Context(), []byte(want)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if plan, err := openAt(t, cfg).Plan(t.Context()); string(plan) != "\x00\xff" || err != nil {
		t.Errorf("plan %q, %v", plan, err)
	}
}

// flowRow is a callback of a task.
func flowRow(name, event string) queue.Arrival {
	a := callback(name)
	a.Lane, a.Flow, a.Task, a.Event, a.OrderKey = "flow", "transport", "T", event, "T"
	return a
}

func TestRenamedEventsAreFoundAndWorked(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db"), segmentRows: 4})
	for i := range 20 {
		mustAppend(t, s, flowRow(fmt.Sprint(i), []string{"old", "other"}[i%2]))
	}
	mustSettle(t, s, mustLease(t, s, "flow", 1)[0], queue.Settlement{State: queue.Done})
	until(t, "an index", func() bool { return scan(t, s, "SELECT count(*) FROM segments")[0] == 5 })
	inUse := func(event string) bool {
		used, err := s.EventInUse(t.Context(), "transport", event)
		if err != nil {
			t.Fatal(err)
		}
		return used
	}
	if !inUse("old") || inUse("new") || inUse("none") {
		t.Error("events in use are not told right before")
	}
	for _, to := range []string{"old", "new"} { // the first is no change
		if _, err := s.RenameEvent(t.Context(), "transport", "old", to); err != nil {
			t.Fatal(err)
		}
	}
	if inUse("old") || !inUse("new") {
		t.Error("events in use are not told right afterwards")
	}
	page, err := s.Rows(t.Context(), queue.RowQuery{Kind: queue.Callback, Event: "new", Limit: 100})
	if err != nil || len(page.Rows) != 9 {
		t.Errorf("%d rows are found by the new name, %v", len(page.Rows), err)
	}
	if rows := mustLease(t, s, "flow", 5); len(rows) != 1 || rows[0].Event != "other" {
		t.Errorf("leased %+v", rows)
	}
	checkFile(t, s)
}

func TestRenamedStatesAreCounted(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	change := func(c queue.TaskChange) {
		t.Helper()
		err := s.Transact(t.Context(), func(v queue.View) (queue.Settlement, error) {
			task, err := v.Task("transport", c.Task.ID)
			c.Task.Flow, c.Task.Version, c.From = "transport", task.Version, task.State
			return queue.Settlement{Tasks: []queue.TaskChange{c}}, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1200 { // more than one transaction changes
		state := []string{"moving", "waiting"}[i%2]
		change(queue.TaskChange{Task: queue.Task{ID: fmt.Sprint(i), State: state,
			Retention: time.Hour}, Event: "start"})
	}
	move := func(_ queue.View, task queue.Task) (queue.Settlement, error) {
		from := task.State
		task.State, task.Retention = "driving", time.Hour
		change := queue.TaskChange{Task: task, From: from, Event: "move"}
		return queue.Settlement{Tasks: []queue.TaskChange{change}}, nil
	}
	if n, err := s.MoveTasks(t.Context(), "transport", "moving", move); n != 600 || err != nil {
		t.Fatalf("%d moved, %v", n, err)
	}
	stay := func(queue.View, queue.Task) (queue.Settlement, error) {
		return queue.Settlement{}, nil
	}
	if _, err := s.MoveTasks(t.Context(), "transport", "driving", stay); err == nil {
		t.Error("a move that moves nothing goes on for ever")
	}
	counts, err := s.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for state, want := range map[string]int64{"driving": 600, "waiting": 600, "moving": 0} {
		if got := counts.Tasks[queue.TaskCount{Flow: "transport", State: state}]; got != want {
			t.Errorf("%d tasks are %s, want %d", got, state, want)
		}
	}
	// The store reads the new state, not one that it remembers.
	change(queue.TaskChange{Task: queue.Task{ID: "0", State: "done", Retention: time.Hour},
		Event: "end"})
	_, lines, err := s.Task(t.Context(), "transport", "0")
	if err != nil || len(lines) == 0 || lines[len(lines)-1].From != "driving" {
		t.Errorf("history %+v, %v", lines, err)
	}
	checkFile(t, s)
}

func TestARenamedDestinationGetsItsEffects(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db"), segmentRows: 4})
	add := func(name, key string) {
		e := effectOf(name)
		e.OrderKey = key
		mustAppend(t, s, e)
	}
	for i, key := range []string{"A", "A", "B", "C", "C", ""} {
		add(fmt.Sprint(i), key)
	}
	rows := mustLease(t, s, "effect/plc", 10) // 0, 2, 3, 5
	mustSettle(t, s, rows[0], queue.Settlement{State: queue.Pending, RetryIn: time.Hour})
	mustSettle(t, s, rows[1], queue.Settlement{State: queue.Done})
	mustSettle(t, s, rows[2], queue.Settlement{State: queue.Dead, DeadCause: queue.CausePermanent,
		Block: true})
	mustSettle(t, s, rows[3], queue.Settlement{State: queue.Held})
	for _, to := range []string{"plc", "line"} {
		if _, err := s.RenameDestination(t.Context(), "plc", to, "effect/"+to); err != nil {
			t.Fatal(err)
		}
	}
	got := mustLease(t, s, "effect/line", 10)
	if len(got) != 1 || string(got[0].Body) != "0" {
		t.Fatalf("leased %+v", got)
	}
	mustSettle(t, s, got[0], queue.Settlement{State: queue.Done})
	if got := mustLease(t, s, "effect/line", 10); len(got) != 1 || string(got[0].Body) != "1" {
		t.Errorf("then leased %+v", got) // 4 stands behind the dead 3, 5 is held
	}
	if rows := mustLease(t, s, "effect/plc", 10); len(rows) != 0 {
		t.Errorf("the old destination still has %d", len(rows))
	}
	page, err := s.Rows(t.Context(), queue.RowQuery{Kind: queue.Effect, Source: "line", Limit: 10})
	if err != nil || len(page.Rows) != 5 {
		t.Errorf("%d effects are found by the new name, %v", len(page.Rows), err)
	}
	checkFile(t, s)
}

func TestWhatIsGoneFromTheConfigurationIsDiscarded(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	mustAppend(t, s, flowRow("a", "gone"), flowRow("b", "kept"), effectOf("x"))
	_, err := s.DiscardEvent(t.Context(), "transport", "gone", "not declared any more")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.DiscardDestination(t.Context(), "plc", "taken away", nil); err != nil {
		t.Fatal(err)
	}
	a := rowOf(t, s, queue.Callback, identityOf("a"))
	x := rowOf(t, s, queue.Effect, identityOf("effect of x"))
	if a.State != queue.Discarded || a.Error != "not declared any more" || a.Attempt != 0 ||
		!a.StartedAt.IsZero() || x.State != queue.Discarded || x.Error != "taken away" {
		t.Errorf("discarded %+v and %+v", a, x)
	}
	if rows := mustLease(t, s, "flow", 5); len(rows) != 1 || string(rows[0].Body) != "b" {
		t.Errorf("leased %+v", rows)
	}
	checkFile(t, s)
}
