package flow

import (
	"errors"
	"testing"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

var ann = queue.Action{Actor: "ann", Reason: "carried away"}

// act applies what a person does.
func (m *model) act(s queue.Settlement, err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
	m.apply(s)
	m.work()
}

func (m *model) wantLine(task, event, note string) {
	m.t.Helper()
	lines := m.history[owner{"transport", task}]
	got := lines[len(lines)-1]
	if got.Event != event || got.Note != note || got.Actor != "ann" ||
		got.Reason != "carried away" || got.Callback != "" {
		m.t.Fatalf("last line of %s: %+v", task, got)
	}
}

func TestPersonMovesATaskAndWakesWhatWaitsForIt(t *testing.T) {
	m := robotPlant(t)
	m.robot("T1", "startFE", "roadway", "A")
	last := m.robot("T1", "finish")
	m.act(m.e.Move(m, "transport", "T1", "unloaded", ann))
	m.wantRow(last, queue.Done, "")
	m.wantTask("T1", "finished", 3)
	line := m.history[owner{"transport", "T1"}][1]
	if line.Event != "move" || line.From != "running" || line.Actor != "ann" {
		t.Fatalf("history %+v", line)
	}
	if got := m.tasks[owner{"transport", "T1"}].Taken; got["finishFE"].Count != 0 {
		t.Fatalf("taken %v", got)
	}
}

func TestPersonMovesATaskIntoAFinalStateAndItsResourcesAreFreed(t *testing.T) {
	m := robotPlant(t)
	m.robot("T1", "startFE", "roadway", "A")
	m.robot("T1", "station", "currentPositionCode", "S")
	m.act(m.e.Move(m, "transport", "T1", "cancelled", ann))
	m.wantEffects("unlock-roadway", "release-station")
	m.wantResource("roadway", "A", "T1", 1, 1)
	m.wantLine("T1", "move", "")
	if task := m.tasks[owner{"transport", "T1"}]; !task.Final || !task.OverdueAt.IsZero() {
		t.Fatalf("task %+v", task)
	}
	for _, r := range m.pendingEffects("") {
		if r.Cause != "person" {
			t.Errorf("cause %s", r.Cause)
		}
		m.ack(r)
	}
	m.wantResource("station", "S", "", 1, 0)
}

func TestPersonReleasesAResource(t *testing.T) {
	m := robotPlant(t)
	m.robot("A", "startFE", "roadway", "R")
	b := m.robot("B", "startFE", "roadway", "R")
	m.act(m.e.ReleaseResource(m, "roadway", "R", ann))
	m.wantResource("roadway", "R", "A", 1, 1)
	m.wantLine("A", "release", "roadway/R is released")
	m.wantRow(b, queue.Parked, "")
	m.ack(m.pendingEffects("unlock-roadway")[0])
	m.work()
	m.wantResource("roadway", "R", "B", 2, 0)
	if got := m.tasks[owner{"transport", "A"}]; got.State != "running" {
		t.Fatalf("task A is %s", got.State)
	}
}

func TestPersonFreesAResourceWhoseUnlockNeverCame(t *testing.T) {
	m := robotPlant(t)
	m.robot("A", "startFE", "roadway", "R")
	b := m.robot("B", "startFE", "roadway", "R")
	m.robot("A", "finishFE")
	m.act(m.e.ReleaseResource(m, "roadway", "R", ann))
	m.wantLine("A", "release", "roadway/R is free: 1 effect not waited for")
	m.wantRow(b, queue.Done, "")
	m.wantResource("roadway", "R", "B", 2, 0)
	m.wantEffects("unlock-roadway", "tell-wms")
}

// The unlock of an ownership that a person cut short comes late, while the same task is freeing the
// resource a second time.
func TestAcknowledgementOfAnEarlierOwnershipFreesNothing(t *testing.T) {
	m := robotPlant(t)
	m.robot("A", "startFE", "roadway", "R")
	m.robot("A", "finishFE")
	late := m.pendingEffects("unlock-roadway")[0]
	m.act(m.e.ReleaseResource(m, "roadway", "R", ann))
	m.act(m.e.TransferResource(m, "roadway", "R", "transport", "A", ann))
	m.robot("A", "finish")
	m.wantResource("roadway", "R", "A", 2, 1)
	m.ack(late)
	m.wantResource("roadway", "R", "A", 2, 1)
	m.ack(m.pendingEffects("unlock-roadway")[0])
	m.wantResource("roadway", "R", "", 2, 0)
}

func TestPersonTransfersAResourceToTheTaskThatWaitsForIt(t *testing.T) {
	m := robotPlant(t)
	m.robot("A", "startFE", "roadway", "R")
	m.robot("B", "startFE")
	first := m.robot("C", "startFE", "roadway", "R")
	m.act(m.e.TransferResource(m, "roadway", "R", "transport", "B", ann))
	m.wantResource("roadway", "R", "B", 2, 0)
	m.wantEffects()
	note := "roadway/R is transferred from task transport/A to task transport/B"
	m.wantLine("A", "transfer", note)
	m.wantLine("B", "transfer", note)
	m.wantRow(first, queue.Parked, "")
	m.robot("A", "finishFE")
	m.wantResource("roadway", "R", "B", 2, 0)
}

func TestTransferWakesTheCallbackOfTheNewOwner(t *testing.T) {
	m := cross(t, nil)
	m.x("T1", "first", take("A", ""))
	m.x("T2", "first", take("Q", ""))
	r := m.x("T2", "second", take("", "A"))
	m.wantRow(r, queue.Parked, "")
	m.act(m.e.TransferResource(m, "roadway", "A", "x", "T2", ann))
	m.wantRow(r, queue.Done, "")
	m.wantResource("roadway", "A", "T2", 2, 0)
}

func TestActionsOfAPersonThatAreNotPossible(t *testing.T) {
	m := robotPlant(t)
	m.robot("A", "startFE", "roadway", "R")
	m.robot("F", "startFE", "roadway", "Q")
	m.robot("F", "cancel")
	m.ack(m.pendingEffects("unlock-roadway")[0])
	m.tasks[owner{"transport", "G"}] = queue.Task{State: "finished", Version: 2, Gone: true}
	move := func(flow, task, to string, by queue.Action) error {
		_, err := m.e.Move(m, flow, task, to, by)
		return err
	}
	release := func(name string, by queue.Action) error {
		_, err := m.e.ReleaseResource(m, "roadway", name, by)
		return err
	}
	transfer := func(name, flow, task string, by queue.Action) error {
		_, err := m.e.TransferResource(m, "roadway", name, flow, task, by)
		return err
	}
	nobody := queue.Action{Actor: "ann"}
	for name, c := range map[string]struct{ err, want error }{
		"move to an unknown state":     {move("transport", "A", "flying", ann), once.ErrState},
		"move to no state":             {move("transport", "A", "", ann), once.ErrState},
		"move to where it is":          {move("transport", "A", "running", ann), once.ErrState},
		"move of an unknown task":      {move("transport", "Z", "running", ann), once.ErrNotFound},
		"move in an unknown flow":      {move("other", "A", "running", ann), once.ErrNotFound},
		"move of a tombstone":          {move("transport", "G", "running", ann), once.ErrState},
		"move without a reason":        {move("transport", "A", "unloaded", nobody), errNobody},
		"release of an unknown one":    {release("X", ann), once.ErrNotFound},
		"release of a free one":        {release("Q", ann), once.ErrState},
		"release without a reason":     {release("R", nobody), errNobody},
		"transfer of an unknown one":   {transfer("X", "transport", "A", ann), once.ErrNotFound},
		"transfer to an unknown task":  {transfer("R", "transport", "Z", ann), once.ErrNotFound},
		"transfer to an unknown flow":  {transfer("R", "other", "A", ann), once.ErrNotFound},
		"transfer to a final task":     {transfer("R", "transport", "F", ann), once.ErrState},
		"transfer to a tombstone":      {transfer("R", "transport", "G", ann), once.ErrState},
		"transfer to its owner":        {transfer("R", "transport", "A", ann), once.ErrState},
		"transfer without a reason":    {transfer("R", "transport", "A", nobody), errNobody},
		"a possible one is no failure": {transfer("Q", "transport", "A", ann), nil},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
}

func TestAcknowledgementOfAnOrdinaryEffectChangesNothing(t *testing.T) {
	m := robotPlant(t)
	m.robot("A", "startFE", "roadway", "R")
	m.robot("A", "finishFE")
	tell := m.pendingEffects("tell-wms")[0]
	s := m.e.Acknowledged(m, *tell)
	if len(s.Tasks)+len(s.Resources)+len(s.Effects)+len(s.Wake) > 0 {
		t.Fatalf("%+v", s)
	}
}

func TestActionOfAPersonWhoseEffectCannotBeBuiltChangesNothing(t *testing.T) {
	kinds := plant()
	kinds[0].OnRelease[0].Build = func(*Vars) ([]byte, []byte, error) {
		return nil, nil, errors.New("body: there is none")
	}
	m := newModel(t, []*Machine{robots()}, kinds)
	m.robot("A", "startFE", "roadway", "R")
	if s, err := m.e.Move(m, "transport", "A", "finished", ann); err == nil || s.Tasks != nil {
		t.Errorf("%+v %v", s, err)
	}
	if s, err := m.e.ReleaseResource(m, "roadway", "R", ann); err == nil || s.Resources != nil {
		t.Errorf("%+v %v", s, err)
	}
}

func TestOwnerThatIsGoneHasNoHistoryAndItsResourceCanBeFreed(t *testing.T) {
	m := robotPlant(t)
	m.robot("A", "startFE", "roadway", "R")
	m.robot("B", "startFE")
	m.tasks[owner{"transport", "A"}] = queue.Task{State: "running", Version: 2, Gone: true}
	m.act(m.e.TransferResource(m, "roadway", "R", "transport", "B", ann))
	m.tasks[owner{"transport", "B"}] = queue.Task{State: "running", Version: 3, Gone: true}
	m.act(m.e.ReleaseResource(m, "roadway", "R", ann))
	m.ack(m.pendingEffects("unlock-roadway")[0])
	m.wantResource("roadway", "R", "", 2, 0)
}
