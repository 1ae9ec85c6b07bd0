package flow

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// model is a store in memory that applies settlements as the contract says and fails the test where
// one breaks it. It is the reference that the engine's answers are judged by.
type model struct {
	t         testing.TB
	e         *Engine
	now       time.Time
	rows      []*queue.Row // by Seq-1
	known     map[once.Identity]*queue.Row
	tasks     map[owner]queue.Task
	resources map[ref]queue.Resource
	order     map[ref]int // rises with each change of owner: the order of acquiring
	changes   int
	history   map[owner][]queue.TaskChange
	limits    map[int64]time.Time
	applied   map[string]int64 // done callbacks by flow, task and event
	messages  map[int64]Message
	skipWoken bool
	repeated  int // effects that were there already
	handed    int // wakes of the first waiter of a resource that found one
}

func newModel(t testing.TB, machines []*Machine, kinds []ResourceKind) *model {
	t.Helper()
	m := &model{
		t: t, now: time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC),
		known: map[once.Identity]*queue.Row{}, tasks: map[owner]queue.Task{},
		resources: map[ref]queue.Resource{}, order: map[ref]int{},
		history: map[owner][]queue.TaskChange{}, limits: map[int64]time.Time{},
		applied: map[string]int64{}, messages: map[int64]Message{},
	}
	e, err := New(machines, kinds, func(r queue.Row) (Message, error) {
		return m.messages[r.Seq], nil
	}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	m.e = e
	return m
}

// post appends a callback; key makes its identity. It returns the row, the first one for a repeat.
func (m *model) post(flow, task, event, key string, body map[string]any) *queue.Row {
	id := once.DeriveIdentity(once.Identity{}, key+"|"+task+"|"+event, 0)
	if r := m.known[id]; r != nil {
		return r
	}
	r := m.insert(queue.Arrival{Identity: id, Kind: queue.Callback, Lane: Lane,
		OrderKey: OrderKey(flow, task), State: queue.Pending, Source: "rcs", Event: event,
		Flow: flow, Task: task, TraceParent: "trace-" + key})
	m.messages[r.Seq] = Message{Body: body}
	return r
}

func (m *model) insert(a queue.Arrival) *queue.Row {
	r := &queue.Row{Seq: int64(len(m.rows) + 1), Identity: a.Identity, Kind: a.Kind, Lane: a.Lane,
		OrderKey: a.OrderKey, State: a.State, Source: a.Source, Event: a.Event, Flow: a.Flow,
		Task: a.Task, Key: a.Key, Resource: a.Resource, Frees: a.Frees, Cause: a.Cause,
		TraceParent: a.TraceParent, Meta: a.Meta, Body: a.Body, ReceivedAt: m.now}
	m.rows = append(m.rows, r)
	m.known[a.Identity] = r
	return r
}

// due returns the callbacks that may be worked now: of each order key the earliest.
func (m *model) due() []*queue.Row {
	var out []*queue.Row
	busy := map[string]bool{}
	for _, r := range m.rows {
		if r.Kind == queue.Callback && r.State == queue.Pending && !busy[r.OrderKey] {
			busy[r.OrderKey] = true
			out = append(out, r)
		}
	}
	return out
}

// step works one callback.
func (m *model) step(r *queue.Row) {
	m.t.Helper()
	r.Attempt++
	r.Fence++
	s, err := m.e.Decide(m, *r)
	if err != nil {
		m.t.Fatalf("decide %s of %s: %v", r.Event, r.Task, err)
	}
	again, err := m.e.Decide(m, *r)
	if err != nil || !reflect.DeepEqual(s, again) {
		m.t.Fatalf("a settlement built twice differs:\n%v\n%v (%v)", s, again, err)
	}
	if s.Grant != r.Grant() {
		m.t.Fatalf("grant %v, want %v", s.Grant, r.Grant())
	}
	m.settle(r, s)
}

// work works callbacks in the order of acceptance until none is due.
func (m *model) work() {
	m.t.Helper()
	for n := 0; ; n++ {
		due := m.due()
		if len(due) == 0 {
			return
		}
		if n > 10_000 {
			m.t.Fatalf("callbacks wake each other without end: %v", due)
		}
		m.step(due[0])
	}
}

func (m *model) settle(r *queue.Row, s queue.Settlement) {
	m.t.Helper()
	if (s.State == queue.Parked) != (s.Park != nil) ||
		(s.State == queue.Dead) != (s.DeadCause != "") || !s.State.Valid(queue.Callback) {
		m.t.Fatalf("settlement of %s contradicts itself: %+v", r.Event, s)
	}
	if s.State != queue.Done && len(s.Tasks)+len(s.Resources) > 0 {
		m.t.Fatalf("a callback that is %s changes something: %+v", s.State, s)
	}
	r.State, r.Error, r.DeadCause = s.State, s.Error, s.DeadCause
	r.Waits, r.LimitPassed = nil, false
	delete(m.limits, r.Seq)
	if s.Park != nil {
		if s.Park.Limit <= 0 || len(s.Park.Waits) == 0 {
			m.t.Fatalf("parked without limit or wait: %+v", s.Park)
		}
		r.Waits = slices.Clone(s.Park.Waits)
		m.limits[r.Seq] = m.now.Add(s.Park.Limit)
	}
	if s.State == queue.Done {
		m.applied[r.Flow+"|"+r.Task+"|"+r.Event]++
	}
	m.apply(s)
}

// apply carries out what is not about the row.
func (m *model) apply(s queue.Settlement) {
	m.t.Helper()
	seen := map[string]bool{}
	for _, c := range s.Tasks {
		at := owner{c.Task.Flow, c.Task.ID}
		if old := m.tasks[at]; old.Version != c.Task.Version || seen[fmt.Sprint(at)] {
			m.t.Fatalf("task %v: version %d, have %d", at, c.Task.Version, old.Version)
		}
		seen[fmt.Sprint(at)] = true
		c.Task.Version++
		m.tasks[at] = c.Task
		m.history[at] = append(m.history[at], c)
	}
	for _, r := range s.Resources {
		m.setResource(r, seen)
	}
	for _, a := range s.Effects {
		m.addEffect(a)
	}
	for _, w := range s.Wake {
		m.wake(w)
	}
}

func (m *model) setResource(r queue.Resource, seen map[string]bool) {
	m.t.Helper()
	at := ref{r.Kind, r.Name}
	old := m.resources[at]
	if old.Version != r.Version || seen[at.String()] {
		m.t.Fatalf("resource %v: version %d, have %d", at, r.Version, old.Version)
	}
	seen[at.String()] = true
	if r.Fence < old.Fence || r.Freeing < 0 || (r.Task == "") != (r.Flow == "") {
		m.t.Fatalf("resource %+v after %+v", r, old)
	}
	moved := r.Flow != old.Flow || r.Task != old.Task
	if moved && r.Task != "" && r.Fence == old.Fence {
		m.t.Fatalf("a new owner under the old fence: %+v after %+v", r, old)
	}
	if moved {
		m.changes++
		m.order[at] = m.changes
	}
	r.Version++
	m.resources[at] = r
}

func (m *model) addEffect(a queue.Arrival) {
	m.t.Helper()
	if a.Kind != queue.Effect || a.Lane != "effect/"+a.Source || a.Retention <= 0 ||
		a.Cause == "" || a.OrderKey == "" || a.Event == "" {
		m.t.Fatalf("effect is incomplete: %+v", a)
	}
	if m.known[a.Identity] != nil {
		if !strings.HasPrefix(a.Event, "busy-") {
			m.t.Fatalf("effect %s of %s is there already", a.Event, a.Task)
		}
		m.repeated++
		return
	}
	m.insert(a)
}

// wake makes parked rows due. First is the earliest row of the wait, due or not, or the earliest
// one that still sleeps: a store may do either.
func (m *model) wake(w queue.Wake) {
	for _, r := range m.rows {
		if !slices.Contains(r.Waits, w.Wait) || m.skipWoken && r.State != queue.Parked {
			continue
		}
		if r.State == queue.Parked {
			r.State = queue.Pending
			delete(m.limits, r.Seq)
		}
		if w.First {
			m.handed++
			return
		}
	}
}

// ack acknowledges an effect.
func (m *model) ack(r *queue.Row) {
	m.t.Helper()
	r.State = queue.Done
	m.apply(m.e.Acknowledged(m, *r))
}

func (m *model) pendingEffects(name string) []*queue.Row {
	var out []*queue.Row
	for _, r := range m.rows {
		if r.Kind == queue.Effect && r.State == queue.Pending && (name == "" || r.Event == name) {
			out = append(out, r)
		}
	}
	return out
}

// pass moves the clock and makes what is due by time due.
func (m *model) pass(d time.Duration) {
	m.t.Helper()
	m.now = m.now.Add(d)
	for _, r := range m.rows {
		if limit, ok := m.limits[r.Seq]; ok && r.State == queue.Parked && !limit.After(m.now) {
			r.State, r.LimitPassed = queue.Pending, true
			delete(m.limits, r.Seq)
		}
	}
	for _, t := range m.tasks {
		if !t.OverdueAt.IsZero() && !t.OverdueAt.After(m.now) {
			s, err := m.e.Overdue(m, t)
			if err != nil {
				m.t.Fatal(err)
			}
			m.apply(s)
		}
	}
}

// The model is its own view.

func (m *model) Now() time.Time { return m.now }

func (m *model) Task(flow, id string) (queue.Task, error) {
	return m.tasks[owner{flow, id}], nil
}

func (m *model) Resource(kind, name string) (queue.Resource, error) {
	return m.resources[ref{kind, name}], nil
}

func (m *model) Owned(flow, task string) ([]queue.Resource, error) {
	var out []queue.Resource
	for _, r := range m.resources {
		if r.Flow == flow && r.Task == task && r.Freeing == 0 {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b queue.Resource) int {
		return m.order[ref{a.Kind, a.Name}] - m.order[ref{b.Kind, b.Name}]
	})
	return out, nil
}

func (m *model) FirstWaiter(wait string) (int64, error) {
	for _, r := range m.rows {
		if slices.Contains(r.Waits, wait) {
			return r.Seq, nil
		}
	}
	return 0, nil
}

func (m *model) WaitsOf(flow, task string) ([]string, error) {
	var out []string
	for _, r := range m.rows {
		if r.Flow == flow && r.Task == task && r.State == queue.Parked {
			out = append(out, r.Waits...)
		}
	}
	return out, nil
}

func (m *model) Busy(flow, task string, except int64) (bool, error) {
	for _, r := range m.rows {
		if r.Kind == queue.Callback && r.Flow == flow && r.Task == task && r.Seq != except &&
			r.State == queue.Pending {
			return true, nil
		}
	}
	return false, nil
}
