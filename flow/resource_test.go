package flow

import (
	"testing"
	"time"

	"github.com/oncekit/once/queue"
)

func TestNextTaskStartsOnlyAfterTheUnlockIsAcknowledged(t *testing.T) {
	m := robotPlant(t)
	m.robot("A", "startFE", "roadway", "R")
	b := m.robot("B", "startFE", "roadway", "R")
	m.wantRow(b, queue.Parked, "waits for roadway/R: task A owns it")
	m.robot("A", "finishFE")
	m.wantRow(b, queue.Parked, "")
	c := m.robot("C", "startFE", "roadway", "R")
	m.wantRow(c, queue.Parked,
		"waits for roadway/R: it is being freed from task A: 1 effect not acknowledged yet")
	m.ack(m.pendingEffects("unlock-roadway")[0])
	m.wantRow(b, queue.Pending, "") // handed over in the freeing transaction
	m.wantRow(c, queue.Parked, "")
	m.work()
	m.wantRow(b, queue.Done, "")
	m.wantRow(c, queue.Parked, "")
	m.wantResource("roadway", "R", "B", 2, 0)
}

func TestLateFinishCannotFreeWhatAnotherTaskHolds(t *testing.T) {
	m := robotPlant(t)
	m.robot("A", "startFE", "roadway", "R")
	by := queue.Action{Actor: "ann", Reason: "robot was carried away"}
	s, err := m.e.ReleaseResource(m, "roadway", "R", by)
	if err != nil {
		t.Fatal(err)
	}
	m.apply(s)
	m.ack(m.pendingEffects("unlock-roadway")[0])
	m.robot("B", "startFE", "roadway", "R")
	m.robot("A", "finishFE") // names roadway/R, which is B's now
	m.robot("A", "finish")
	m.wantTask("A", "finished", 4)
	m.wantResource("roadway", "R", "B", 2, 0)
	m.wantEffects("unlock-roadway", "tell-wms")
	line := m.history[owner{"transport", "A"}][2]
	if line.Note != "release roadway/R: the task doesn't own it, nothing is freed" {
		t.Fatalf("note %q", line.Note)
	}
}

// crossing is a flow whose tasks take one roadway after the other.
func crossing(mod func(*Machine)) *Machine {
	m := &Machine{Name: "x", Initial: "new", Final: []string{"end"}, Events: map[string]*Event{
		"first": {From: []string{"new"}, To: "one", Set: []Field{{"a", body("a")}},
			Acquire: []Expr{field("roadway/", "a")}},
		"second": {From: []string{"one"}, To: "two", Set: []Field{{"b", body("b")}},
			Acquire: []Expr{field("roadway/", "b")}},
		"both": {From: []string{"new"}, To: "two",
			Set:     []Field{{"a", body("a")}, {"b", body("b")}},
			Acquire: []Expr{field("roadway/", "a"), field("roadway/", "b")}},
		"end":  {From: []string{"one", "two"}, To: "end", ReleaseAll: true},
		"stop": {From: []string{"new", "one", "two"}, To: "end", ReleaseAll: true},
	}}
	if mod != nil {
		mod(m)
	}
	return m
}

func cross(t *testing.T, mod func(*Machine), kinds ...ResourceKind) *model {
	return newModel(t, []*Machine{crossing(mod)}, kinds)
}

func (m *model) x(task, event string, body map[string]any) *queue.Row {
	m.t.Helper()
	r := m.post("x", task, event, "K", body)
	m.work()
	return r
}

func take(a, b string) map[string]any { return map[string]any{"a": a, "b": b} }

func TestCircleOfTwoTasksIsADeadLetterThatNamesIt(t *testing.T) {
	m := cross(t, nil)
	m.x("T1", "first", take("A", "B"))
	m.x("T2", "first", take("B", "A"))
	m.wantRow(m.x("T1", "second", take("A", "B")), queue.Parked, "task T2 owns it")
	r := m.x("T2", "second", take("B", "A"))
	m.wantRow(r, queue.Dead, "the wait closes a circle: T2 owns roadway/B and waits for "+
		"roadway/A, which T1 owns; T1 waits for roadway/B")
	if r.DeadCause != queue.CauseCircle {
		t.Fatalf("cause %s", r.DeadCause)
	}
	m.x("T2", "end", nil) // the way out: T1 goes on
	m.wantResource("roadway", "B", "T1", 2, 0)
}

func TestCircleOfThreeTasksIsNamedStepByStep(t *testing.T) {
	m := cross(t, nil)
	m.x("T1", "first", take("A", "B"))
	m.x("T2", "first", take("B", "C"))
	m.x("T3", "first", take("C", "A"))
	m.x("T1", "second", take("A", "B"))
	m.x("T2", "second", take("B", "C"))
	m.wantRow(m.x("T3", "second", take("C", "A")), queue.Dead,
		"T3 owns roadway/C and waits for roadway/A, which T1 owns; T1 waits for roadway/B, "+
			"which T2 owns; T2 waits for roadway/C")
}

func TestNoCircleIsSeenInWaitsThatTheTasksMoveMadePointless(t *testing.T) {
	m := cross(t, nil)
	m.x("T1", "first", take("A", "B"))
	m.x("T2", "first", take("B", "A"))
	old := m.x("T1", "second", take("A", "B"))
	by := queue.Action{Actor: "ann", Reason: "went another way"}
	s, err := m.e.Move(m, "x", "T1", "two", by)
	if err != nil {
		t.Fatal(err)
	}
	m.apply(s)
	m.work()
	m.wantRow(old, queue.Dead, "second is not legal in state two") // woken by the move
	m.wantRow(m.x("T2", "second", take("B", "A")), queue.Parked, "task T1 owns it")
}

func TestCircleThatClosesByAHandOverIsFound(t *testing.T) {
	m := cross(t, func(m *Machine) { // two events that take something while the state stays
		for _, name := range []string{"more", "else"} {
			m.Events[name] = &Event{From: []string{"one"}, Set: []Field{{name, body("a")}},
				Acquire: []Expr{field("roadway/", name)}}
		}
	})
	m.x("T0", "first", take("A", ""))
	m.x("T1", "first", take("P", ""))
	m.x("T3", "first", take("X", ""))
	m.x("T1", "more", take("A", ""))               // T1 waits for A, which T0 owns
	t3 := m.x("T3", "more", take("A", ""))         // T3 waits behind it
	t1 := m.x("T1", "else", take("X", ""))         // T1 waits for X, which T3 owns
	m.wantRow(t1, queue.Parked, "task T3 owns it") // no circle yet: A is T0's
	m.x("T0", "end", nil)                          // T1 gets A: T3 -> A (T1) -> X (T3)
	m.wantResource("roadway", "A", "T1", 2, 0)
	m.wantRow(t1, queue.Dead, "T1 owns roadway/A and waits for roadway/X, which T3 owns; "+
		"T3 waits for roadway/A")
	m.wantRow(t3, queue.Parked, "")
}

func TestAcquireIsAllOrNothing(t *testing.T) {
	m := cross(t, nil)
	m.x("T1", "first", take("B", ""))
	r := m.x("T2", "both", take("A", "B"))
	m.wantRow(r, queue.Parked, "waits for roadway/B: task T1 owns it")
	m.wantResource("roadway", "A", "", 0, 0)
	m.x("T3", "first", take("A", "")) // A is not kept for T2
	m.wantResource("roadway", "A", "T3", 1, 0)
	m.x("T1", "end", nil)
	m.wantRow(r, queue.Parked, "waits for roadway/A: task T3 owns it")
	m.wantResource("roadway", "B", "", 1, 0)
	m.x("T3", "end", nil)
	m.wantRow(r, queue.Done, "")
	m.wantResource("roadway", "A", "T2", 2, 0)
	m.wantResource("roadway", "B", "T2", 2, 0)
}

func TestWaitersAreServedInTheOrderOfAcceptance(t *testing.T) {
	m := cross(t, nil)
	m.x("T1", "first", take("A", ""))
	second := m.x("T2", "first", take("A", ""))
	third := m.x("T3", "first", take("A", ""))
	m.post("x", "T1", "end", "K", nil)
	fresh := m.post("x", "T4", "first", "K", take("A", ""))
	m.step(m.due()[0]) // T1 ends, T2 is woken
	m.wantRow(second, queue.Pending, "")
	m.step(fresh) // comes before T2 was worked, but was accepted later
	m.wantRow(fresh, queue.Parked, "it is free, and an earlier callback waits for it")
	m.work()
	m.wantResource("roadway", "A", "T2", 2, 0)
	m.x("T2", "end", nil)
	m.wantResource("roadway", "A", "T3", 3, 0)
	m.x("T3", "end", nil)
	m.wantResource("roadway", "A", "T4", 4, 0)
	for _, r := range []*queue.Row{second, third, fresh} {
		m.wantRow(r, queue.Done, "")
	}
}

// A waiter that was woken and goes another way hands the free resource to the next one.
func TestWokenWaiterHandsOnWhatItDoesNotTake(t *testing.T) {
	by := queue.Action{Actor: "ann", Reason: "test"}
	for _, c := range []struct {
		name string
		want queue.State
		mod  func(*Machine)
		do   func(*model)
	}{
		{name: "its task is final", want: queue.Stale, do: func(m *model) {
			s, err := m.e.Move(m, "x", "T2", "end", by)
			if err != nil {
				m.t.Fatal(err)
			}
			m.apply(s)
		}},
		{name: "its task is elsewhere", want: queue.Dead, do: func(m *model) {
			s, err := m.e.Move(m, "x", "T2", "two", by)
			if err != nil {
				m.t.Fatal(err)
			}
			m.apply(s)
		}},
		{name: "its task came back to before", want: queue.Parked, do: func(m *model) {
			s, err := m.e.Move(m, "x", "T2", "new", by)
			if err != nil {
				m.t.Fatal(err)
			}
			m.apply(s)
		}},
		{name: "its effect can't be built", want: queue.Dead, mod: func(m *Machine) {
			m.Events["second"].Effects = []Effect{{Name: "e", Destination: "d",
				Build: func(v *Vars) ([]byte, []byte, error) {
					_, err := fails("no such field")(v)
					return nil, nil, err
				}}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := cross(t, c.mod)
			m.x("T1", "first", take("A", ""))
			m.x("T2", "first", take("Q", ""))
			second := m.x("T2", "second", take("", "A"))
			third := m.x("T3", "first", take("A", ""))
			m.post("x", "T1", "end", "K", nil)
			m.step(m.due()[0])
			m.wantRow(second, queue.Pending, "")
			if c.do != nil {
				c.do(m) // before the woken row is worked
			}
			m.work()
			m.wantRow(second, c.want, "")
			m.wantRow(third, queue.Done, "")
			m.wantResource("roadway", "A", "T3", 2, 0)
		})
	}
}

func TestBusyLimitNamesTheHolder(t *testing.T) {
	m := cross(t, func(m *Machine) { m.Busy.Wait = 5 * time.Minute })
	m.x("T1", "first", take("A", ""))
	r := m.x("T2", "first", take("A", ""))
	m.pass(5*time.Minute - time.Second)
	m.work()
	m.wantRow(r, queue.Parked, "")
	m.pass(time.Second)
	m.work()
	m.wantRow(r, queue.Dead, "waited 5m0s for roadway/A: task T1 owns it")
	if r.DeadCause != queue.CauseWaited {
		t.Fatalf("cause %s", r.DeadCause)
	}
}

func TestLimitThatPassesAsTheResourceBecomesFreeIsNoDeadLetter(t *testing.T) {
	m := cross(t, nil)
	m.x("T1", "first", take("A", ""))
	r := m.x("T2", "first", take("A", ""))
	m.post("x", "T1", "end", "K", nil)
	m.pass(10 * time.Minute)
	m.step(m.due()[1]) // T1 ends first
	m.work()
	m.wantRow(r, queue.Done, "")
}

func TestRefusedEventNamesTheHolder(t *testing.T) {
	m := cross(t, func(m *Machine) { m.Busy.Refuse = true })
	m.x("T1", "first", take("A", ""))
	r := m.x("T2", "first", take("A", ""))
	m.wantRow(r, queue.Dead, "refused: roadway/A: task T1 owns it")
	if r.DeadCause != queue.CauseBusy {
		t.Fatalf("cause %s", r.DeadCause)
	}
}

func TestBusyEffectsAreSentWhenTheWaitBegins(t *testing.T) {
	m := cross(t, func(m *Machine) { m.Busy.Effects = []Effect{sent("busy-alarm", "wms")} })
	m.x("T1", "first", take("A", ""))
	m.x("T2", "first", take("A", ""))
	m.wantEffects("busy-alarm")
	m.x("T3", "both", take("C", "A"))
	m.wantEffects("busy-alarm", "busy-alarm")
	for _, r := range m.rows { // woken for nothing: no further alarm
		if r.State == queue.Parked {
			r.State = queue.Pending
		}
	}
	m.work()
	if m.repeated > 0 {
		t.Fatal("the alarm was built again")
	}
	m.wantEffects("busy-alarm", "busy-alarm")
	a := m.pendingEffects("")[0]
	if a.Resource != "" || a.Frees || a.OrderKey != "task/x/T2" {
		t.Fatalf("alarm %+v", a)
	}
}

func TestAcquireIsReentrant(t *testing.T) {
	m := cross(t, nil)
	m.x("T1", "first", take("lift", ""))
	m.wantRow(m.x("T1", "second", take("", "lift")), queue.Done, "")
	m.wantResource("roadway", "lift", "T1", 1, 0) // the fence stays
	m.wantRow(m.x("T2", "both", take("S", "S")), queue.Done, "")
	m.wantResource("roadway", "S", "T2", 1, 0) // named twice, taken once
}

func TestResourceBeingFreedIsNotReentrant(t *testing.T) {
	m := cross(t, func(m *Machine) {
		m.Events["second"].Release = []Expr{field("roadway/", "a")}
		m.Events["third"] = &Event{From: []string{"two"}, Acquire: []Expr{field("roadway/", "a")}}
	}, ResourceKind{Kind: "roadway", OnRelease: []Effect{sent("unlock", "plant")}})
	m.x("T1", "first", take("A", ""))
	m.x("T1", "second", take("", "B"))
	r := m.x("T1", "third", nil)
	m.wantRow(r, queue.Parked, "it is being freed from task T1")
	m.ack(m.pendingEffects("unlock")[0])
	m.work()
	m.wantRow(r, queue.Done, "")
	m.wantResource("roadway", "A", "T1", 2, 0)
}

func TestSecondCallbackOfATaskThatGotTheResourceGoesOn(t *testing.T) {
	m := cross(t, func(m *Machine) {
		m.Events["more"] = &Event{From: []string{"one"}, Acquire: []Expr{text0("roadway/A")}}
		m.Events["also"] = &Event{From: []string{"one"}, Acquire: []Expr{text0("roadway/A")}}
	})
	m.x("T1", "first", take("A", ""))
	m.x("T2", "first", take("Q", ""))
	more, also := m.x("T2", "more", nil), m.x("T2", "also", nil)
	m.wantRow(also, queue.Parked, "")
	m.x("T1", "end", nil)
	m.wantRow(more, queue.Done, "")
	m.wantRow(also, queue.Done, "")
}

func TestAcquiredAndReleasedInOneTransition(t *testing.T) {
	mod := func(m *Machine) { m.Events["first"].Release = []Expr{field("roadway/", "a")} }
	t.Run("on_release", func(t *testing.T) {
		m := cross(t, mod, ResourceKind{Kind: "roadway",
			OnRelease: []Effect{sent("unlock", "plant"), sent("lamp", "lamps")}})
		m.x("T1", "first", take("A", ""))
		m.wantResource("roadway", "A", "T1", 1, 2)
		m.ack(m.pendingEffects("lamp")[0])
		m.wantResource("roadway", "A", "T1", 1, 1)
		m.ack(m.pendingEffects("unlock")[0])
		m.wantResource("roadway", "A", "", 1, 0)
	})
	t.Run("nothing on release", func(t *testing.T) {
		m := cross(t, mod)
		m.x("T1", "first", take("A", ""))
		m.wantResource("roadway", "A", "", 1, 0)
	})
	t.Run("at once", func(t *testing.T) {
		m := cross(t, mod, ResourceKind{Kind: "roadway", AtOnce: true,
			OnRelease: []Effect{sent("unlock", "plant")}})
		m.x("T1", "first", take("A", ""))
		m.wantResource("roadway", "A", "", 1, 0)
		if u := m.pendingEffects("unlock")[0]; u.Frees {
			t.Fatalf("unlock %+v", u)
		}
	})
}

func TestEffectsOfOneNameHaveDifferentIDs(t *testing.T) {
	m := cross(t, func(m *Machine) {
		m.Events["first"].Effects = []Effect{sent("tell", "wms"), sent("tell", "plant"),
			sent("tell", "wms")}
	})
	m.x("T1", "first", take("A", ""))
	m.wantEffects("tell", "tell", "tell") // the model refuses a second of one identity
}

func TestBusyEffectAndEffectOfOneNameAreTwo(t *testing.T) {
	m := cross(t, func(m *Machine) {
		m.Busy.Effects = []Effect{sent("tell", "wms")}
		m.Events["first"].Effects = []Effect{sent("tell", "wms")}
	})
	m.x("T1", "first", take("A", ""))
	m.x("T2", "first", take("A", ""))
	m.x("T1", "end", nil)
	m.wantEffects("tell", "tell", "tell")
}

func TestReleaseAllFreesWhatTheSameTransitionTook(t *testing.T) {
	m := cross(t, func(m *Machine) { m.Events["second"].ReleaseAll = true },
		ResourceKind{Kind: "roadway", OnRelease: []Effect{sent("unlock", "plant")}})
	m.x("T1", "first", take("A", ""))
	m.x("T1", "second", take("", "B"))
	m.wantResource("roadway", "A", "T1", 1, 1)
	m.wantResource("roadway", "B", "T1", 1, 1)
	m.wantEffects("unlock", "unlock")
}

func TestResourceThatIsBeingFreedClosesNoCircle(t *testing.T) {
	m := cross(t, func(m *Machine) {
		m.Events["second"].Release = []Expr{field("roadway/", "a")}
		m.Events["third"] = &Event{From: []string{"two"}, Acquire: []Expr{field("roadway/", "c")},
			Set: []Field{{"c", body("c")}}}
	}, ResourceKind{Kind: "roadway", OnRelease: []Effect{sent("unlock", "plant")}})
	m.x("T1", "first", take("A", ""))
	m.x("T2", "first", take("B", ""))
	m.x("T2", "second", take("", "C"))           // T2 owns C, B is being freed from it
	m.x("T2", "third", map[string]any{"c": "A"}) // T2 waits for A, which T1 owns
	r := m.x("T1", "second", take("", "B"))      // T1 waits for an unlock, not for T2
	m.wantRow(r, queue.Parked, "it is being freed from task T2")
}

// What a waiting callback wants may change while it waits.
func TestWaitingCallbackIsLookedAtAgainWhenItsTaskWantsSomethingElse(t *testing.T) {
	for _, reads := range [][]string{nil, {"way"}} {
		m := cross(t, func(m *Machine) {
			m.Events["reroute"] = &Event{From: []string{"one"}, Set: []Field{{"way", body("a")}}}
			m.Events["report"] = &Event{From: []string{"one"}, Max: []Field{{"seq", body("n")}}}
			m.Events["enter"] = &Event{From: []string{"one"}, To: "two",
				Acquire: []Expr{field("roadway/", "way")}, AcquireReads: reads}
			for _, name := range []string{"first", "second", "both"} {
				m.Events[name].AcquireReads = reads
			}
		})
		m.x("T1", "first", take("A", ""))
		m.x("T2", "first", take("Q", ""))
		m.x("T2", "reroute", take("A", ""))
		r := m.x("T2", "enter", nil)
		m.wantRow(r, queue.Parked, "")
		attempts := r.Attempt
		m.x("T2", "report", map[string]any{"n": int64(1)})
		if woken := r.Attempt > attempts; woken != (reads == nil) {
			t.Errorf("reads %v: a report woke it: %v", reads, woken)
		}
		m.post("x", "T2", "reroute", "again", take("B", ""))
		m.work()
		m.wantRow(r, queue.Done, "")
		m.wantResource("roadway", "B", "T2", 1, 0)
	}
}

func TestWaitingCallbackIsLookedAtAgainWhenItsMaxIsPassed(t *testing.T) {
	m := cross(t, func(m *Machine) {
		m.Events["report"] = &Event{From: []string{"one"}, Max: []Field{{"seq", body("n")}}}
		m.Events["pass"] = &Event{From: []string{"one"}, Max: []Field{{"seq", body("n")}},
			Acquire: []Expr{text0("roadway/A")}}
		for _, ev := range m.Events {
			ev.AcquireReads = []string{}
		}
	})
	m.x("T1", "first", take("A", ""))
	m.x("T2", "first", take("Q", ""))
	r := m.x("T2", "pass", map[string]any{"n": int64(1)})
	m.wantRow(r, queue.Parked, "")
	m.x("T2", "report", map[string]any{"n": int64(2)})
	m.wantRow(r, queue.Stale, "max.seq: 1 is not above 2")
}
