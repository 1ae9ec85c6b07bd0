package flow

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/queue"
)

func TestCheckAcceptsTheFlowOfTheRobots(t *testing.T) {
	if got := Check([]*Machine{robots(), lift(), crossing(nil)}, plant()); len(got) > 0 {
		t.Fatalf("problems %v", got)
	}
}

func TestCheckRefuses(t *testing.T) {
	change := func(event string, f func(*Event)) func(*Machine) {
		return func(m *Machine) { f(m.Events[event]) }
	}
	for _, c := range []struct {
		name string
		mod  func(*Machine)
		path string // below flows.transport
		msg  string
	}{
		{"no initial", func(m *Machine) { m.Initial = "" }, "initial", "needs an initial state"},
		{"initial is final", func(m *Machine) { m.Final = append(m.Final, "created") }, "initial",
			"can't be initial and final"},
		{"initial without event", func(m *Machine) { m.Initial = "made" }, "initial",
			`no event has the initial state "made"`},
		{"no events", func(m *Machine) { m.Events = nil }, "events", "at least one event"},
		{"empty event", func(m *Machine) { m.Events["nil"] = nil }, "events.nil", "is empty"},
		{"final that nothing leads to", func(m *Machine) { m.Final = append(m.Final, "lost") },
			"final.2", `no event leads to state "lost"`},
		{"from unknown", change("station", func(e *Event) { e.From = []string{"runing"} }),
			"events.station.from.0", `there is no state "runing"`},
		{"from final", change("station", func(e *Event) {
			e.From = []string{"running", "finished"}
		}),
			"events.station.from.1", "state finished is final"},
		{"from empty", change("station", func(e *Event) { e.From = nil }), "events.station.from",
			"at least one state"},
		{"to without way on", change("station", func(e *Event) { e.To = "at_sttion" }),
			"events.station.to", `state "at_sttion" is not final, and no event is legal in it`},
		{"starts unknown", func(m *Machine) { m.Starts = []string{"begin"} }, "starts.0",
			`there is no event "begin"`},
		{"starts elsewhere", func(m *Machine) { m.Starts = []string{"startFE", "finish"} },
			"starts.1", "event finish can't create a task"},
		{"overdue unknown", func(m *Machine) { m.Overdue["walking"] = Overdue{After: time.Hour} },
			"overdue.walking", `there is no state "walking"`},
		{"overdue final", func(m *Machine) { m.Overdue["finished"] = Overdue{After: time.Hour} },
			"overdue.finished", "is final"},
		{"overdue without time", func(m *Machine) { m.Overdue["unloaded"] = Overdue{} },
			"overdue.unloaded", "want a time above 0"},
		{"island", func(m *Machine) {
			m.Events["i1"] = &Event{From: []string{"i"}, To: "j", Again: AgainPark}
			m.Events["i2"] = &Event{From: []string{"j"}, To: "i", Again: AgainPark}
		}, "events.i1", "none of its states can be reached from created"},
		{"cycle left open", change("finish", func(e *Event) { e.To = "running" }),
			"events.finish", "`newer` or `again`"},
		{"loop left open", change("station", func(e *Event) {
			e.From = append(e.From, "at_station")
		}),
			"events.station", "`newer` or `again`"},
		{"loop can't wait", change("station", func(e *Event) {
			e.From, e.Again = append(e.From, "at_station"), AgainPark
		}), "events.station.again", "can't wait"},
		{"left and entered again", func(m *Machine) {
			m.Events["updateSeq"].Max = nil
			m.Events["again"] = &Event{From: []string{"unloaded"}, To: "running", Again: AgainPark}
		}, "events.updateSeq", "`newer`, `max` or `again`"},
		{"again unknown", change("station", func(e *Event) { e.Again = "maybe" }),
			"events.station.again", "want stale or park"},
		{"stays with effects", change("updateSeq", func(e *Event) {
			e.Max, e.Effects = nil, []Effect{sent("e", "d")}
		}), "events.updateSeq.effects", "needs `max` or `newer`"},
		{"field of the task itself", change("station", func(e *Event) { e.Set[0].Name = "state" }),
			"events.station.set.state", "choose another name"},
		{"field twice", change("finish", func(e *Event) { e.Set[1].Name = "finishFlag" }),
			"events.finish.set.finishFlag", "a name of its own"},
		{"field without value", change("updateSeq", func(e *Event) { e.Max[0].Value = nil }),
			"events.updateSeq.max.seq", "needs a value"},
		{"effect without destination", change("finishFE", func(e *Event) {
			e.Effects[0].Destination = ""
		}), "events.finishFE.effects.0", "needs a destination"},
		{"effect without name", func(m *Machine) { m.Busy.Effects = []Effect{{}} },
			"busy.effects.0", "needs a name"},
		{"effect without payload", func(m *Machine) {
			m.Overdue["running"].Effects[0].Build = nil
		}, "overdue.effects.0", "something to send"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := robots()
			c.mod(m)
			got := Check([]*Machine{m}, plant())
			want := strings.Split("flows.transport."+c.path, ".")
			if !slices.ContainsFunc(got, func(p Problem) bool {
				return slices.Equal(p.Path, want) && strings.Contains(p.Msg, c.msg)
			}) {
				t.Fatalf("problems %v\nwant %s: %s", got, want, c.msg)
			}
		})
	}
}

func TestCheckRefusesNames(t *testing.T) {
	a, b, c := robots(), robots(), robots()
	c.Name = "a/b"
	got := Check([]*Machine{a, b, c}, []ResourceKind{{Kind: "x/y"}, {Kind: ""}, {Kind: "z"},
		{Kind: "z", OnRelease: []Effect{{Name: "e"}}}})
	want := []string{
		"flows.a/b: the name of a flow can't hold a slash",
		"flows.transport: a flow of this name is there already",
		"resources.: a kind of resource needs a name",
		"resources.x/y: the name of a kind of resource can't hold a slash",
		"resources.z: a kind of resource of this name is there already",
		"resources.z.on_release.0: effect e needs a destination",
	}
	for i, p := range got {
		if i >= len(want) || p.Error() != want[i] {
			t.Errorf("%s", p)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d problems, want %d", len(got), len(want))
	}
}

func TestNewRefusesWhatCheckFindsAndAMissingDecode(t *testing.T) {
	m := robots()
	m.Initial = ""
	decode := func(queue.Row) (Message, error) { return Message{}, nil }
	if _, err := New([]*Machine{m}, nil, decode, Config{}); err == nil ||
		!strings.Contains(err.Error(), "flows.transport.initial: a flow needs an initial state") {
		t.Fatalf("error %v", err)
	}
	if _, err := New([]*Machine{robots()}, nil, nil, Config{}); err == nil {
		t.Fatal("New without decode")
	}
}
