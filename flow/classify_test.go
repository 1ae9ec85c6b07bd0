package flow

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// round is a flow that goes a -> b -> c -> a, and ends from c.
func round(mod func(go_ *Event)) *Machine {
	ev := &Event{From: []string{"a"}, To: "b"}
	if mod != nil {
		mod(ev)
	}
	return &Machine{Name: "round", Initial: "a", Final: []string{"end"}, Events: map[string]*Event{
		"go":   ev,
		"on":   {From: []string{"b"}, To: "c", Again: AgainStale},
		"back": {From: []string{"c"}, To: "a", Again: AgainPark},
		"end":  {From: []string{"c"}, To: "end"},
	}}
}

func TestEventsAreClassifiedByStateAndWhatWasTaken(t *testing.T) {
	newer := func(ev *Event) { ev.Newer = body("n") }
	again := func(a Again) func(*Event) { return func(ev *Event) { ev.Again = a } }
	n := func(v any) map[string]any { return map[string]any{"n": v} }
	took := func(v any) map[string]queue.Taken {
		return map[string]queue.Taken{"go": {Count: 1, Newer: v}}
	}
	for _, c := range []struct {
		name   string
		mod    func(*Event)
		state  string
		taken  map[string]queue.Taken
		body   map[string]any
		want   queue.State
		reason string
	}{
		{"legal", newer, "a", nil, n("1"), queue.Done, ""},
		{"not taken, can come", newer, "b", nil, n("1"), queue.Parked, "go is legal in a"},
		{"final", newer, "end", nil, n("1"), queue.Stale, "the task is in the final state end"},
		{"next round, newer", newer, "a", took("9"), n("10"), queue.Done, ""},
		{"next round, equal", newer, "a", took("10"), n("10.0"), queue.Stale,
			`newer: "10.0" is not above "10"`},
		{"next round, older", newer, "a", took(int64(10)), n(int64(9)), queue.Stale,
			"newer: 9 is not above 10"},
		{"exact above 2^53", newer, "a", took(value.Number("9007199254740993.0")),
			n(int64(9007199254740994)), queue.Done, ""},
		{"early for its next round", newer, "b", took("1"), n("2"), queue.Parked, ""},
		{"repeat while elsewhere", newer, "b", took("2"), n("2"), queue.Stale, ""},
		{"first newer ever", newer, "a", took(nil), n("2"), queue.Done, ""},
		{"no order", newer, "a", took("x"), n(int64(1)), queue.Dead, "have no order"},
		{"no value", newer, "a", nil, n(nil), queue.Dead, "event go: newer: null has no order"},
		{"absent", newer, "a", nil, nil, queue.Dead, "event go: newer: there is no value"},
		{"again stale, elsewhere", again(AgainStale), "b", took(nil), nil, queue.Stale,
			"the task has already taken go"},
		{"again stale, next round", again(AgainStale), "a", took(nil), nil, queue.Done, ""},
		{"again park, elsewhere", again(AgainPark), "b", took(nil), nil, queue.Parked, ""},
		{"again park, next round", again(AgainPark), "a", took(nil), nil, queue.Done, ""},
		{"a state that is not declared", newer, "gone", nil, n("1"), queue.Dead,
			"go is not legal in state gone; legal next events: none"},
		{"taken, then a state that is not declared", newer, "gone", took("1"), n("2"), queue.Stale,
			"can't come back to it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newModel(t, []*Machine{round(c.mod)}, nil)
			m.tasks[owner{"round", "T"}] = queue.Task{Flow: "round", ID: "T", State: c.state,
				Version: 3, Taken: c.taken}
			r := m.post("round", "T", "go", "K", c.body)
			m.step(r)
			m.wantRow(r, c.want, c.reason)
			want := int64(len(c.taken))
			if c.want == queue.Done {
				want++
			}
			if got := m.tasks[owner{"round", "T"}].Taken["go"]; got.Count != want {
				t.Errorf("taken %+v, want %d", got, want)
			}
		})
	}
}

// A loop that leaves the task where the event is legal: the second one is a repeat.
func TestRepeatOfAnEventThatStaysLegal(t *testing.T) {
	for _, c := range []struct {
		name  string
		ev    Event
		first map[string]any
		again map[string]any
		want  queue.State
	}{
		{"to itself, again stale", Event{To: "a", Again: AgainStale}, nil, nil, queue.Stale},
		{"stays, again stale", Event{Again: AgainStale}, nil, nil, queue.Stale},
		{"stays, nothing to repeat", Event{}, nil, nil, queue.Done},
		{"max up", Event{Max: []Field{{"n", body("n")}}}, map[string]any{"n": "9"},
			map[string]any{"n": "10"}, queue.Done},
		{"max equal", Event{Max: []Field{{"n", body("n")}}}, map[string]any{"n": "10"},
			map[string]any{"n": "10"}, queue.Stale},
		{"max down", Event{Max: []Field{{"n", body("n")}}}, map[string]any{"n": int64(10)},
			map[string]any{"n": int64(9)}, queue.Stale},
		{"max absent", Event{Max: []Field{{"n", body("n")}}}, nil, nil, queue.Done},
		{"max absent, with effects", Event{Max: []Field{{"n", body("n")}},
			Effects: []Effect{sent("e", "d")}}, nil, nil, queue.Stale},
		{"max of another kind", Event{Max: []Field{{"n", body("n")}}}, map[string]any{"n": "x"},
			map[string]any{"n": int64(1)}, queue.Dead},
		{"max of an object", Event{Max: []Field{{"n", body("n")}}}, nil,
			map[string]any{"n": map[string]any{}}, queue.Dead},
		{"newer", Event{Newer: body("n"), Effects: []Effect{sent("e", "d")}},
			map[string]any{"n": "1"}, map[string]any{"n": "2"}, queue.Done},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.ev.From = []string{"a"}
			m := newModel(t, []*Machine{{Name: "f", Initial: "a", Final: []string{"z"},
				Events: map[string]*Event{"e": &c.ev, "z": {From: []string{"a"}, To: "z"}}}}, nil)
			r := m.post("f", "T", "e", "1", c.first)
			m.work()
			m.wantRow(r, queue.Done, "")
			since := m.tasks[owner{"f", "T"}].SinceAt
			m.now = m.now.Add(1)
			r = m.post("f", "T", "e", "2", c.again)
			m.work()
			m.wantRow(r, c.want, "")
			if got := m.tasks[owner{"f", "T"}]; !got.SinceAt.Equal(since) || got.State != "a" {
				t.Errorf("task %+v came anew into its state", got)
			}
		})
	}
}

func TestOlderUpdateDoesNotSetItsOtherFields(t *testing.T) {
	m := newModel(t, []*Machine{{Name: "f", Initial: "a", Final: []string{"z"},
		Events: map[string]*Event{"z": {From: []string{"a"}, To: "z"}, "e": {From: []string{"a"},
			Set: []Field{{"pos", body("pos")}}, Max: []Field{{"n", body("n")}}}}}}, nil)
	m.post("f", "T", "e", "1", map[string]any{"n": int64(2), "pos": "here"})
	m.post("f", "T", "e", "2", map[string]any{"n": int64(1), "pos": "there"})
	m.work()
	if got := m.tasks[owner{"f", "T"}].Fields; got["pos"] != "here" || got["n"] != int64(2) {
		t.Fatalf("fields %v", got)
	}
}

func TestMaxThatDoesNotMoveHoldsUpNoTransition(t *testing.T) {
	m := newModel(t, []*Machine{{Name: "f", Initial: "a", Final: []string{"z"},
		Events: map[string]*Event{"e": {From: []string{"a"}, Max: []Field{{"n", body("n")}}},
			"z": {From: []string{"a"}, To: "z", Max: []Field{{"n", body("n")}}}}}}, nil)
	m.post("f", "T", "e", "1", map[string]any{"n": int64(2)})
	m.post("f", "T", "z", "2", map[string]any{"n": int64(1)})
	m.work()
	if got := m.tasks[owner{"f", "T"}]; got.State != "z" || got.Fields["n"] != int64(2) {
		t.Fatalf("task %+v", got)
	}
}

func TestSetLeavesAFieldWhoseValueIsAbsentAndReadsTheFieldsAsTheyWere(t *testing.T) {
	m := newModel(t, []*Machine{{Name: "f", Initial: "a", Final: []string{"z"},
		Events: map[string]*Event{"z": {From: []string{"a"}, To: "z"}, "e": {From: []string{"a"},
			Set: []Field{{"x", body("x")}, {"y", field("was ", "x")}, {"s", field("", "state")},
				{"v", field("", "version")}}}}}}, nil)
	m.post("f", "T", "e", "1", map[string]any{"x": "1"})
	m.post("f", "T", "e", "2", map[string]any{"x": nil})
	m.post("f", "T", "e", "3", nil)
	m.work()
	got := m.tasks[owner{"f", "T"}].Fields
	if x, ok := got["x"]; !ok || x != nil || got["y"] != "was <nil>" || got["s"] != "a" ||
		got["v"] != "3" {
		t.Fatalf("fields %v", got)
	}
}

func TestExpressionThatFailsIsADeadLetterThatNamesItsPlace(t *testing.T) {
	bad := fails("body.x: no such field")
	for _, c := range []struct {
		name   string
		mod    func(*Event)
		reason string
	}{
		{"set", func(e *Event) { e.Set = []Field{{"x", bad}} }, "set.x: body.x: no such field"},
		{"max", func(e *Event) { e.Max = []Field{{"x", bad}} }, "max.x: body.x: no such field"},
		{"newer", func(e *Event) { e.Newer = bad }, "newer: body.x: no such field"},
		{"acquire", func(e *Event) { e.Acquire = []Expr{bad} },
			"acquire[0]: body.x: no such field"},
		{"acquire, no slash", func(e *Event) { e.Acquire = []Expr{text0("k/n"), text0("roadway")} },
			`acquire[1]: "roadway": want kind/name`},
		{"acquire, no kind", func(e *Event) { e.Acquire = []Expr{text0("/n")} },
			`acquire[0]: "/n": want kind/name`},
		{"acquire, a list", func(e *Event) { e.Acquire = []Expr{text0([]any{})} }, "acquire[0]: "},
		{"release", func(e *Event) { e.Release = []Expr{bad} },
			"release[0]: body.x: no such field"},
		{"effects", func(e *Event) {
			e.Effects = []Effect{sent("fine", "d"), {Name: "tell", Destination: "d",
				Build: func(*Vars) ([]byte, []byte, error) { return nil, nil, errors.New("no") }}}
		}, "effects.tell: no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ev := &Event{From: []string{"a"}, To: "z", Set: []Field{{"ok", text0("ok")}}}
			c.mod(ev)
			m := newModel(t, []*Machine{{Name: "f", Initial: "a", Final: []string{"z"},
				Events: map[string]*Event{"e": ev}}}, nil)
			if !strings.HasPrefix(c.name, "acquire") {
				ev.Acquire = []Expr{text0("k/n")}
			}
			r := m.post("f", "T", "e", "K", nil)
			m.step(r)
			m.wantRow(r, queue.Dead, "event e: "+c.reason)
			if r.DeadCause != queue.CausePermanent {
				t.Errorf("cause %s", r.DeadCause)
			}
			if len(m.tasks)+len(m.resources) > 0 || len(m.rows) > 1 {
				t.Errorf("half done: %v %v %v", m.tasks, m.resources, m.rows)
			}
		})
	}
}

func TestAbsentResourceTextsAreNoted(t *testing.T) {
	m := newModel(t, []*Machine{{Name: "f", Initial: "a", Final: []string{"z"},
		Events: map[string]*Event{"e": {From: []string{"a"}, To: "z", Acquire: []Expr{body("x")},
			Release: []Expr{text0("")}}}}}, nil)
	m.step(m.post("f", "T", "e", "K", nil))
	want := "acquire[0]: the text is empty, nothing to acquire; " +
		"release[0]: the text is empty, nothing to release"
	if got := m.history[owner{"f", "T"}][0].Note; got != want {
		t.Fatalf("note %q, want %q", got, want)
	}
}

func TestMessageThatCannotBeDecodedIsADeadLetter(t *testing.T) {
	decode := func(queue.Row) (Message, error) { return Message{}, errors.New("cut off") }
	e, err := New([]*Machine{robots()}, nil, decode, Config{})
	if err != nil {
		t.Fatal(err)
	}
	m := robotPlant(t)
	row := *m.post("transport", "T1", "startFE", "K", nil)
	s, err := e.Decide(m, row)
	if err != nil || s.State != queue.Dead || s.DeadCause != queue.CausePermanent ||
		s.Error != "event startFE: message: cut off" {
		t.Fatalf("%+v %v", s, err)
	}
}

// broken is a view whose store fails at the nth read.
type broken struct {
	*model
	left int
}

var errStore = errors.New("disk is gone")

func (b *broken) fail() error {
	b.left--
	if b.left < 0 {
		return errStore
	}
	return nil
}

func (b *broken) Task(f, id string) (queue.Task, error) {
	if err := b.fail(); err != nil {
		return queue.Task{}, err
	}
	return b.model.Task(f, id)
}

func (b *broken) Resource(k, n string) (queue.Resource, error) {
	if err := b.fail(); err != nil {
		return queue.Resource{}, err
	}
	return b.model.Resource(k, n)
}

func (b *broken) Owned(f, id string) ([]queue.Resource, error) {
	if err := b.fail(); err != nil {
		return nil, err
	}
	return b.model.Owned(f, id)
}

func (b *broken) FirstWaiter(w string) (int64, error) {
	if err := b.fail(); err != nil {
		return 0, err
	}
	return b.model.FirstWaiter(w)
}

func (b *broken) WaitsOf(f, id string) ([]string, error) {
	if err := b.fail(); err != nil {
		return nil, err
	}
	return b.model.WaitsOf(f, id)
}

func (b *broken) Busy(f, id string, except int64) (bool, error) {
	if err := b.fail(); err != nil {
		return false, err
	}
	return b.model.Busy(f, id, except)
}

func TestTroubleOfTheStoreIsAnErrorAtEachReadAndNeverADeadLetter(t *testing.T) {
	rows := map[string]func(m *model) *queue.Row{
		"acquire": func(m *model) *queue.Row {
			return m.post("transport", "T1", "startFE", "K", map[string]any{"roadway": "A"})
		},
		"busy": func(m *model) *queue.Row {
			m.robot("T2", "startFE", "roadway", "A")
			return m.robot("T1", "startFE", "roadway", "A")
		},
		"release": func(m *model) *queue.Row {
			m.robot("T1", "startFE", "roadway", "A")
			return m.post("transport", "T1", "cancel", "K", nil)
		},
		"early": func(m *model) *queue.Row {
			r := m.robot("T1", "finish")
			r.LimitPassed = true
			return r
		},
	}
	for name, prepare := range rows {
		t.Run(name, func(t *testing.T) {
			m := robotPlant(t)
			row := *prepare(m)
			for n := 0; ; n++ {
				v := &broken{m, n}
				s, err := m.e.Decide(v, row)
				if v.left >= 0 {
					if err != nil || n < 2 {
						t.Fatalf("after %d reads: %v", n, err)
					}
					return
				}
				if !errors.Is(err, errStore) || s.State != "" {
					t.Fatalf("read %d fails: %+v, %v", n, s, err)
				}
			}
		})
	}
}

// An event that leaves the state as it is comes early in its second round: it waits for the task to
// come back. One of the first round that comes late waits too, and is stale then.
func TestAnEventWithoutToComesEarlyInItsNextRound(t *testing.T) {
	for judge, reason := range map[string]string{"max": "max.n: 1 is not above 2",
		"newer": "newer: 1 is not above 1"} {
		t.Run(judge, func(t *testing.T) {
			seq := &Event{From: []string{"b"}}
			if judge == "max" {
				seq.Max = []Field{{"n", body("n")}}
			} else {
				seq.Newer = body("n")
			}
			machine := &Machine{Name: "f", Initial: "a", Final: []string{"z"}, Early: time.Hour,
				Events: map[string]*Event{
					"go":   {From: []string{"a"}, To: "b", Again: AgainPark},
					"seq":  seq,
					"back": {From: []string{"b"}, To: "a", Again: AgainPark},
					"end":  {From: []string{"b"}, To: "z"},
				}}
			if got := Check([]*Machine{machine}, nil); len(got) > 0 {
				t.Fatalf("problems %v", got)
			}
			m := newModel(t, []*Machine{machine}, nil)
			n := func(i int64) map[string]any { return map[string]any{"n": i} }
			m.post("f", "T", "go", "1", nil)
			m.post("f", "T", "seq", "2", n(1))
			m.post("f", "T", "back", "3", nil)
			m.work()
			next := m.post("f", "T", "seq", "4", n(2))
			late := m.post("f", "T", "seq", "5", n(1))
			m.work()
			m.wantRow(next, queue.Parked, "seq is legal in b")
			m.post("f", "T", "go", "6", nil)
			m.work()
			m.wantRow(next, queue.Done, "")
			m.wantRow(late, queue.Stale, reason)
		})
	}
}
