package flow

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// draft gathers what becomes true together. It reads through the view and changes nothing; a draft
// that is dropped leaves no trace.
type draft struct {
	e   *Engine
	v   queue.View
	now time.Time

	// What the effects come from.
	flow, task  string
	base        once.Identity
	cause       string
	traceParent string
	traceState  string
	retention   time.Duration
	vars        Vars

	resources map[string]*queue.Resource // as read, with the changes so far
	changed   []string                   // keys of resources, in the order of change
	effects   []queue.Arrival
	built     map[string]int // effects so far by name and resource
	wakes     []queue.Wake
	notes     []string
}

func (e *Engine) newDraft(v queue.View, p *plan, flow, task string) *draft {
	d := &draft{e: e, v: v, now: v.Now(), flow: flow, task: task, retention: e.retention}
	if p != nil && p.Retention > 0 {
		d.retention = p.Retention
	}
	return d
}

// note adds to the line that the task's history gets.
func (d *draft) note(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

// wake makes rows of a wait due, once however often it is called.
func (d *draft) wake(w queue.Wake) {
	if !slices.Contains(d.wakes, w) {
		d.wakes = append(d.wakes, w)
	}
}

// changes returns the settlement's part that is not about the row.
func (d *draft) changes() queue.Settlement {
	s := queue.Settlement{Effects: d.effects, Wake: d.wakes}
	for _, key := range d.changed {
		s.Resources = append(s.Resources, *d.resources[key])
	}
	return s
}

// taskChange returns the change with the notes so far.
func (d *draft) taskChange(t queue.Task, from, event string) queue.TaskChange {
	t.UpdatedAt = d.now
	return queue.TaskChange{Task: t, From: from, Event: event, Note: strings.Join(d.notes, "; ")}
}

// cloneTask copies what a draft may change. Values are never changed in place.
func cloneTask(t queue.Task) queue.Task {
	t.Fields, t.Taken = maps.Clone(t.Fields), maps.Clone(t.Taken)
	if t.Fields == nil {
		t.Fields = make(map[string]any)
	}
	if t.Taken == nil {
		t.Taken = make(map[string]queue.Taken)
	}
	return t
}

// enter puts the task into a state, now.
func (p *plan) enter(t *queue.Task, state string, now time.Time) {
	t.State, t.SinceAt, t.OverdueAt = state, now, time.Time{}
	t.Final = p.final[state]
	if o, ok := p.Overdue[state]; ok && o.After > 0 {
		t.OverdueAt = now.Add(o.After)
	}
}

// taskVars is the task as expressions see it.
func taskVars(t *queue.Task, version int64) map[string]any {
	out := make(map[string]any, len(t.Fields)+3)
	maps.Copy(out, t.Fields)
	out["id"], out["state"], out["version"] = t.ID, t.State, version
	return out
}

// effect builds one effect of the draft. r is the resource it is about, nil for none; frees says
// that its acknowledgement counts for the resource.
func (d *draft) effect(ef Effect, r *queue.Resource, frees bool) error {
	about := ""
	vars := d.vars
	if r != nil {
		about = r.Kind + "/" + r.Name
		vars.Resource = &ResourceVars{Kind: r.Kind, Name: r.Name, Fence: r.Fence}
	}
	name := ef.Name + "\x00" + about
	if d.built == nil {
		d.built = make(map[string]int)
	}
	id := once.DeriveIdentity(d.base, name, d.built[name])
	vars.Effect = &EffectVars{ID: id.ID(), Name: ef.Name}
	made, err := isTrue(ef.When, &vars)
	if err != nil {
		return &fieldError{"effects." + ef.Name + ".when", err}
	}
	if !made {
		return nil
	}
	meta, body, err := ef.Build(&vars)
	if err != nil {
		return &fieldError{"effects." + ef.Name, err}
	}
	d.built[name]++
	a := queue.Arrival{
		Identity: id, Kind: queue.Effect, Lane: queue.EffectLane(ef.Destination),
		OrderKey: OrderKey(d.flow, d.task), State: queue.Pending, Source: ef.Destination,
		Event: ef.Name, Flow: d.flow, Task: d.task, Resource: about, Frees: frees,
		Cause: d.cause, TraceParent: d.traceParent, TraceState: d.traceState,
		Meta: meta, Body: body,
		Expires: ef.Expires, Retention: d.retention,
	}
	if r != nil {
		a.OrderKey = "resource/" + about
		a.Key = []string{about, strconv.FormatInt(r.Fence, 10)}
	}
	d.effects = append(d.effects, a)
	return nil
}

// isTrue evaluates a condition; a missing one is true, an absent value is not.
func isTrue(x Expr, vars *Vars) (bool, error) {
	if x == nil {
		return true, nil
	}
	v, err := x(vars)
	if err != nil || v == any(Absent) {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("gives %s, want true or false", value.KindOf(v))
	}
	return b, nil
}

// text evaluates an expression for a text; ok is false for an absent one.
func text(x Expr, vars *Vars) (s string, ok bool, err error) {
	v, err := x(vars)
	if err != nil || v == any(Absent) {
		return "", false, err
	}
	s, err = value.Text(v)
	return s, err == nil, err
}
