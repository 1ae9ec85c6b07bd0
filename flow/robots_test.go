package flow

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/queue"
)

func robotPlant(t *testing.T) *model { return newModel(t, []*Machine{robots()}, plant()) }

// robot posts an event of a task and works everything that is due.
func (m *model) robot(task, event string, body ...any) *queue.Row {
	m.t.Helper()
	b := map[string]any{}
	for i := 0; i < len(body); i += 2 {
		b[body[i].(string)] = body[i+1]
	}
	r := m.post("transport", task, event, "K", b)
	m.work()
	return r
}

func (m *model) wantTask(task, state string, version int64) {
	m.t.Helper()
	got := m.tasks[owner{"transport", task}]
	if got.State != state || got.Version != version {
		m.t.Fatalf("task %s is %s, version %d; want %s, %d", task, got.State, got.Version, state,
			version)
	}
}

func (m *model) wantRow(r *queue.Row, s queue.State, reason string) {
	m.t.Helper()
	if r.State != s || !strings.Contains(r.Error, reason) {
		m.t.Fatalf("%s of %s is %s: %q; want %s: %q", r.Event, r.Task, r.State, r.Error, s, reason)
	}
}

func (m *model) wantResource(kind, name, task string, fence int64, freeing int) {
	m.t.Helper()
	got := m.resources[ref{kind, name}]
	if got.Task != task || got.Fence != fence || got.Freeing != freeing {
		m.t.Fatalf("%s/%s has owner %q, fence %d, %d effects to come; want %q, %d, %d", kind, name,
			got.Task, got.Fence, got.Freeing, task, fence, freeing)
	}
}

func (m *model) wantEffects(names ...string) {
	m.t.Helper()
	var got []string
	for _, r := range m.rows {
		if r.Kind == queue.Effect {
			got = append(got, r.Event)
		}
	}
	if !slices.Equal(got, names) {
		m.t.Fatalf("effects %v, want %v", got, names)
	}
}

func TestFiveEventsAsBareTriplesEndInFinished(t *testing.T) {
	m := robotPlant(t)
	for i, event := range []string{"startFE", "station", "updateSeq", "finishFE", "finish"} {
		m.wantRow(m.robot("T1", event), queue.Done, "")
		if got := m.tasks[owner{"transport", "T1"}].Version; got != int64(i+1) {
			t.Fatalf("version %d after event %d", got, i+1)
		}
	}
	task := m.tasks[owner{"transport", "T1"}]
	if task.State != "finished" || !task.Final || task.Retention != 7*24*time.Hour {
		t.Fatalf("task %+v", task)
	}
	if task.Fields["finishFlag"] != true || task.Fields["jobStatus"] != "finish" {
		t.Fatalf("fields %v", task.Fields)
	}
	if len(m.resources) != 0 {
		t.Fatalf("an empty name acquired %v", m.resources)
	}
	m.wantEffects("tell-wms")
	want := []struct{ event, from, to, note string }{
		{"startFE", "", "running",
			"acquire[0]: the name of the roadway is empty, nothing to acquire"},
		{"station", "running", "at_station",
			"acquire[0]: the name of the station is empty, nothing to acquire"},
		{"updateSeq", "at_station", "at_station", ""},
		{"finishFE", "at_station", "unloaded",
			"release[0]: the name of the roadway is empty, nothing to release"},
		{"finish", "unloaded", "finished", ""},
	}
	for i, c := range m.history[owner{"transport", "T1"}] {
		if c.Event != want[i].event || c.From != want[i].from || c.Task.State != want[i].to ||
			c.Note != want[i].note || c.Callback != m.rows[i].ID() && i < 4 {
			t.Errorf("history line %d: %+v, want %v", i, c, want[i])
		}
	}
}

func TestFullRunTakesAndFreesWhatTheEventsName(t *testing.T) {
	m := robotPlant(t)
	m.robot("T1", "startFE", "roadway", "R/1", "robotCode", "R7")
	m.wantResource("roadway", "R/1", "T1", 1, 0) // a name may hold slashes
	m.robot("T1", "station", "currentPositionCode", "S1")
	m.wantResource("station", "S1", "T1", 1, 0)
	m.robot("T1", "updateSeq", "seq", "10")
	m.wantRow(m.post("transport", "T1", "updateSeq", "late", map[string]any{"seq": "9"}),
		queue.Pending, "")
	m.work()
	if got := m.tasks[owner{"transport", "T1"}].Fields["seq"]; got != "10" {
		t.Fatalf("seq %v went down from 10", got)
	}
	m.robot("T1", "finishFE")
	m.wantEffects("unlock-roadway", "tell-wms")
	m.wantResource("roadway", "R/1", "T1", 1, 1)
	m.robot("T1", "finish")
	m.wantEffects("unlock-roadway", "tell-wms", "release-station")
	m.wantResource("station", "S1", "T1", 1, 1)
	for _, r := range m.pendingEffects("") {
		m.ack(r)
	}
	m.wantResource("roadway", "R/1", "", 1, 0)
	m.wantResource("station", "S1", "", 1, 0)
}

func TestEffectsCarryTheNewStateTheirCauseAndAnOrder(t *testing.T) {
	m := robotPlant(t)
	m.robot("T1", "startFE", "roadway", "A")
	cause := m.robot("T1", "finishFE")
	unlock, tell := m.pendingEffects("unlock-roadway")[0], m.pendingEffects("tell-wms")[0]
	if unlock.Lane != "effect/plant" || unlock.Source != "plant" || !unlock.Frees ||
		unlock.Resource != "roadway/A" || unlock.OrderKey != "resource/roadway/A" {
		t.Errorf("unlock %+v", unlock)
	}
	if tell.Lane != "effect/wms" || tell.Frees || tell.Resource != "" ||
		tell.OrderKey != "task/transport/T1" {
		t.Errorf("tell %+v", tell)
	}
	for _, r := range []*queue.Row{unlock, tell} {
		if r.Cause != cause.ID() || r.TraceParent != "trace-K" || r.Task != "T1" {
			t.Errorf("%s: %+v", r.Event, r)
		}
	}
	var got payload
	if err := json.Unmarshal(tell.Body, &got); err != nil {
		t.Fatal(err)
	}
	want := payload{ID: tell.ID(), Name: "tell-wms", Task: "T1", State: "unloaded", Version: 2}
	if got != want {
		t.Errorf("payload %+v, want %+v", got, want)
	}
	if err := json.Unmarshal(unlock.Body, &got); err != nil {
		t.Fatal(err)
	}
	want = payload{ID: unlock.ID(), Name: "unlock-roadway", Task: "T1", State: "unloaded",
		Version: 2, Resource: "roadway/A", Fence: 1}
	if got != want {
		t.Errorf("payload %+v, want %+v", got, want)
	}
}

func TestEarlyEventWaitsForItsPredecessor(t *testing.T) {
	m := robotPlant(t)
	last := m.robot("T1", "finish")
	m.wantRow(last, queue.Parked, "the task is not known yet; finish is legal in unloaded")
	if !slices.Equal(last.Waits, []string{"task/transport/T1"}) {
		t.Fatalf("waits for %v", last.Waits)
	}
	if got := m.limits[last.Seq].Sub(m.now); got != 24*time.Hour {
		t.Fatalf("limit %v", got)
	}
	finishFE := m.robot("T1", "finishFE")
	m.wantRow(finishFE, queue.Parked, "")
	m.robot("T1", "startFE")
	m.wantRow(finishFE, queue.Done, "")
	m.wantRow(last, queue.Done, "")
	m.wantTask("T1", "finished", 3)
}

func TestCancelDoesNotCreateATask(t *testing.T) {
	m := robotPlant(t)
	m.wantRow(m.robot("T1", "cancel"), queue.Parked, "not known yet")
}

func TestEarlyLimitRunsOnlyWhileNothingElseOfTheTaskIsDue(t *testing.T) {
	m := robotPlant(t)
	late := m.robot("T1", "finish")
	m.post("transport", "T1", "startFE", "K", nil)
	m.pass(25 * time.Hour)
	m.step(late) // ahead of startFE, which is due
	m.wantRow(late, queue.Parked, "")
	m.work()
	m.wantTask("T1", "running", 1)
	m.pass(25 * time.Hour)
	m.work()
	m.wantRow(late, queue.Dead,
		"waited 24h0m0s for task T1 to come to unloaded; the task is in state running")
	if late.DeadCause != queue.CauseWaited {
		t.Fatalf("cause %s", late.DeadCause)
	}
}

func TestDuplicatesOfEachEventHaveNoEffect(t *testing.T) {
	events := []string{"startFE", "station", "updateSeq", "finishFE", "finish"}
	for n := range events {
		t.Run(events[n], func(t *testing.T) {
			m := robotPlant(t)
			b := map[string]any{"roadway": "A", "currentPositionCode": "S", "seq": int64(3)}
			for i, event := range events {
				m.post("transport", "T1", event, "first", b)
				m.work()
				if i < n {
					continue
				}
				before := len(m.rows)
				again := m.post("transport", "T1", events[n], "slipped past every guard", b)
				m.work()
				m.wantRow(again, queue.Stale, "")
				if again.Seq == int64(before+1) && len(m.rows) != before+1 {
					t.Fatalf("a duplicate of %s sent something: %+v", events[n], m.rows[before+1:])
				}
			}
			m.wantTask("T1", "finished", 5)
			m.wantEffects("unlock-roadway", "tell-wms", "release-station")
		})
	}
}

func TestIllegalEventIsADeadLetterThatNamesTheLegalOnes(t *testing.T) {
	m := robotPlant(t)
	m.robot("T1", "startFE")
	m.robot("T1", "finishFE")
	r := m.robot("T1", "station")
	m.wantRow(r, queue.Dead,
		"station is not legal in state unloaded; legal next events: cancel, finish")
	if r.DeadCause != queue.CauseIllegal {
		t.Fatalf("cause %s", r.DeadCause)
	}
	m.wantTask("T1", "unloaded", 2)
}

func TestEventForATombstoneIsStale(t *testing.T) {
	m := robotPlant(t)
	m.tasks[owner{"transport", "T1"}] = queue.Task{Flow: "transport", ID: "T1",
		State: "finished", Version: 9, Gone: true}
	m.wantRow(m.robot("T1", "startFE"), queue.Stale,
		"the task is gone; its last state was finished")
}

func TestUndeclaredEventIsUnrouted(t *testing.T) {
	m := robotPlant(t)
	m.wantRow(m.robot("T1", "dance"), queue.Unrouted, "flow transport has no event dance")
	if m.e.Declares("transport", "dance") || !m.e.Declares("transport", "finish") {
		t.Fatal("Declares")
	}
}

func TestLegalNamesTheNextEvents(t *testing.T) {
	m := robotPlant(t)
	for _, c := range []struct {
		task queue.Task
		want []string
	}{
		{queue.Task{Flow: "transport"}, []string{"startFE"}},
		{queue.Task{Flow: "transport", State: "running", Version: 1},
			[]string{"cancel", "finishFE", "station", "updateSeq"}},
		{queue.Task{Flow: "transport", State: "finished", Version: 5}, []string{}},
		{queue.Task{Flow: "unknown"}, nil},
	} {
		if got := m.e.Legal(c.task); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.task, got, c.want)
		}
	}
}

func TestOverdueTaskRaisesItsAlarmOnceInAStay(t *testing.T) {
	m := robotPlant(t)
	m.robot("T1", "startFE")
	m.pass(29 * time.Minute)
	m.robot("T1", "updateSeq", "seq", int64(1)) // no new stay
	m.pass(59 * time.Second)
	m.wantEffects()
	before := m.tasks[owner{"transport", "T1"}]
	m.pass(time.Second)
	m.wantEffects("task-stands-still")
	m.pass(time.Hour)
	m.wantEffects("task-stands-still")
	alarm := m.pendingEffects("")[0]
	if alarm.Cause != "task/transport/T1" || alarm.OrderKey != "task/transport/T1" {
		t.Fatalf("alarm %+v", alarm)
	}
	// Built again from the same stay it has the same id.
	s, err := m.e.Overdue(m, before)
	if err != nil || s.Effects[0].Identity != alarm.Identity {
		t.Fatalf("%v %v", s, err)
	}
	line := m.history[owner{"transport", "T1"}][2]
	if line.Event != "overdue" || line.Note != "in state running since 2026-03-01T08:00:00Z" {
		t.Fatalf("history %+v", line)
	}
	m.robot("T1", "station")
	if got := m.tasks[owner{"transport", "T1"}].OverdueAt; !got.IsZero() {
		t.Fatalf("at_station is overdue at %v", got)
	}
}

func TestOverdueAlarmThatCannotBeBuiltIsNamedInTheHistory(t *testing.T) {
	machine := robots()
	machine.Overdue["running"].Effects[0].Build = func(*Vars) ([]byte, []byte, error) {
		return nil, nil, errors.New("task.robot: no such field")
	}
	m := newModel(t, []*Machine{machine}, nil)
	m.robot("T1", "startFE")
	m.pass(time.Hour)
	m.wantEffects()
	line := m.history[owner{"transport", "T1"}][1]
	want := "in state running since 2026-03-01T08:00:00Z; " +
		"not sent: effects.task-stands-still: task.robot: no such field"
	if line.Note != want || !m.tasks[owner{"transport", "T1"}].OverdueAt.IsZero() {
		t.Fatalf("history %+v", line)
	}
}

func TestTaskThatIsNotOverdueRaisesNothing(t *testing.T) {
	m := robotPlant(t)
	m.robot("T1", "startFE")
	s, err := m.e.Overdue(m, m.tasks[owner{"transport", "T1"}])
	if err != nil || len(s.Tasks)+len(s.Effects) > 0 {
		t.Fatalf("%+v %v", s, err)
	}
}
