package flow

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oncekit/once/queue"
)

// Lane is the lane of callbacks that a flow works.
const Lane = "flow"

const (
	defaultEarly     = 24 * time.Hour
	defaultBusyWait  = 10 * time.Minute
	defaultRetention = 7 * 24 * time.Hour
	// defaultCircleTasks bounds the walk along owners and waits. A circle of more tasks than this
	// is found by its members' limits instead.
	defaultCircleTasks = 256
)

// OrderKey returns the order key of a task's callbacks and of the effects that are about no
// resource.
func OrderKey(flow, task string) string { return "task/" + flow + "/" + task }

// Config holds the limits of an Engine. The zero value works.
type Config struct {
	// CircleTasks is how many tasks are looked at in search of a circle of owners. Default 256.
	CircleTasks int
	// Retention of the effects of machines that have none themselves. Default 7 days.
	Retention time.Duration
}

// Engine decides about callbacks, overdue tasks and actions of people. It is made by New, never
// changes, and is safe for concurrent use.
type Engine struct {
	plans       map[string]*plan
	kinds       map[string]ResourceKind
	decode      Decode
	circleTasks int
	retention   time.Duration
}

// New makes an Engine for the machines and the kinds of resources that do something on release.
// decode makes a message of a row; it is called only for rows whose content matters. The machines
// must not be changed afterwards. The error names everything that Check finds.
func New(machines []*Machine, kinds []ResourceKind, decode Decode, c Config) (*Engine, error) {
	if decode == nil {
		return nil, errors.New("make flow engine: decode is missing")
	}
	var found []error
	for _, p := range Check(machines, kinds) {
		found = append(found, p)
	}
	if err := errors.Join(found...); err != nil {
		return nil, fmt.Errorf("make flow engine: %w", err)
	}
	e := &Engine{
		plans:       make(map[string]*plan, len(machines)),
		kinds:       make(map[string]ResourceKind, len(kinds)),
		decode:      decode,
		circleTasks: c.CircleTasks,
		retention:   c.Retention,
	}
	if e.circleTasks <= 0 {
		e.circleTasks = defaultCircleTasks
	}
	if e.retention <= 0 {
		e.retention = defaultRetention
	}
	for _, m := range machines {
		e.plans[m.Name] = newPlan(m)
	}
	for _, k := range kinds {
		e.kinds[k.Kind] = k
	}
	return e, nil
}

// Declares reports whether the flow has the event. A callback for which it is false is unrouted.
func (e *Engine) Declares(flow, event string) bool {
	p := e.plans[flow]
	return p != nil && p.Events[event] != nil
}

// Legal returns the events that would be applied to the task as it is now, sorted: for a task that
// is not stored yet (Version 0) those that may create it. Resources and `newer` are not looked at.
func (e *Engine) Legal(task queue.Task) []string {
	p := e.plans[task.Flow]
	if p == nil || task.Gone {
		return nil
	}
	return p.legal(&task)
}

// plan is a Machine with what is computed from it once.
type plan struct {
	*Machine
	final  map[string]bool
	starts map[string]bool
	// reach holds for each state the states that can follow it over one or more transitions.
	reach map[string]map[string]bool
	// reads are the fields that decide what a callback waiting for a resource comes to: those that
	// name the resource, and its `max`; nil: any.
	reads map[string]bool
}

func newPlan(m *Machine) *plan {
	p := &plan{Machine: m, final: set(m.Final), starts: make(map[string]bool)}
	p.reach = reachable(m)
	if len(m.Starts) > 0 {
		p.starts = set(m.Starts)
	}
	p.reads = make(map[string]bool)
	for name, ev := range m.Events {
		if len(m.Starts) == 0 && slices.Contains(ev.From, m.Initial) {
			p.starts[name] = true
		}
		if len(ev.Acquire) == 0 || p.reads == nil {
			continue
		}
		if ev.AcquireReads == nil {
			p.reads = nil
			continue
		}
		maps.Copy(p.reads, set(ev.AcquireReads))
		for _, f := range ev.Max {
			p.reads[f.Name] = true
		}
	}
	return p
}

func (p *plan) legal(task *queue.Task) []string {
	out := []string{}
	if task.Version == 0 {
		for name := range p.starts {
			out = append(out, name)
		}
	} else if !p.final[task.State] {
		for name, ev := range p.Events {
			repeat := ev.Again == AgainStale && ev.Newer == nil && ev.staysLegal() &&
				task.Taken[name].Count > 0
			if slices.Contains(ev.From, task.State) && !repeat {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

func (p *plan) early() time.Duration {
	if p.Early > 0 {
		return p.Early
	}
	return defaultEarly
}

func (p *plan) busyWait() time.Duration {
	if p.Busy.Wait > 0 {
		return p.Busy.Wait
	}
	return defaultBusyWait
}

func (p *plan) hasState(s string) bool {
	if s == p.Initial || p.final[s] {
		return s != ""
	}
	for _, ev := range p.Events {
		if s != "" && (ev.To == s || slices.Contains(ev.From, s)) {
			return true
		}
	}
	return false
}

func set(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[n] = true
	}
	return out
}
