package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The kinds of faults.
const (
	Lost       = "lost"
	Doubled    = "doubled"
	TwoOwners  = "two owners"
	Order      = "order"
	Difference = "difference"
	WrongReply = "wrong reply"
)

// Fault is something that must not be.
type Fault struct {
	// Kind is one of the constants above.
	Kind string
	// Task that it is about; empty: none.
	Task string
	// Text says what it is.
	Text string
}

// Report is what came of a run.
type Report struct {
	Sent, Unanswered                      int // requests
	Accepted, Duplicates, Late, Conflicts int // acknowledged ones
	Early, Stale, Dead, Unrouted, Parked  int // callbacks, by the model
	Tasks                                 int
	Expected, Seen, Repeated, Alarms      int // effects; arrivals of known ids
	Lost, Doubled, Owners, Order, Differ  int // faults by their kind
	AlarmsDue                             int // that had to come
	WrongReplies                          int // replies; the first one is a fault
	Owned                                 int // times that a resource had an owner
	StoredDuplicates, StoredConflicts     int // as the server counts
	Faults                                []Fault
	traces                                map[string][]string
}

// OK reports whether everything is as it has to be.
func (r *Report) OK() bool { return len(r.Faults) == 0 }

// Trace says what was sent for a task, in which order, and how it was answered; what came of it and
// what went out.
func (r *Report) Trace(task string) []string { return r.traces[task] }

// court is a judgement under way.
type court struct {
	*Report
	e      *Evidence
	tasks  map[string][]*Callback // by task, in order of acceptance
	lives  map[string]*life
	byKey  map[string]*StoredCallback
	byID   map[string]*StoredCallback
	index  map[*Callback]int // in its task
	byName map[string]*Callback
	ids    map[effect][]string // ids under which an effect arrived, in order of arrival
	first  map[string]int      // first arrival of an id
	after  []Fault             // most likely consequences of others
}

// Judge compares the evidence with what had to come of what was sent. It changes nothing of it.
func Judge(e *Evidence) *Report {
	c := &court{Report: &Report{traces: map[string][]string{}}, e: e,
		tasks: map[string][]*Callback{}, lives: map[string]*life{},
		byKey: map[string]*StoredCallback{}, byID: map[string]*StoredCallback{},
		index: map[*Callback]int{}, byName: map[string]*Callback{},
		ids: map[effect][]string{}, first: map[string]int{}}
	c.count()
	c.replies()
	c.stored()
	for _, task := range slices.Sorted(maps.Keys(c.tasks)) {
		c.task(task)
	}
	c.unknownTasks()
	c.effects()
	c.owners()
	c.Faults = append(c.Faults, c.after...)
	for i := range c.Faults {
		task := c.Faults[i].Task
		if task != "" && c.traces[task] == nil && len(c.traces) < maxTraces {
			c.traces[task] = c.trace(task)
		}
	}
	return c.Report
}

// fault notes a fault.
func (c *court) fault(kind, task, format string, args ...any) {
	c.Faults = append(c.Faults, Fault{kind, task, fmt.Sprintf(format, args...)})
	switch kind {
	case Lost:
		c.Lost++
	case Doubled:
		c.Doubled++
	case TwoOwners:
		c.Owners++
	case Order:
		c.Order++
	default:
		c.Differ++
	}
}

// stuck notes something that did not come to its end, which may be for the fault of another.
func (c *court) stuck(task, format string, args ...any) {
	c.after = append(c.after, Fault{Lost, task, fmt.Sprintf(format, args...)})
	c.Lost++
}

// keyOf is a key as a text.
func keyOf(parts ...string) string { return strings.Join(parts, "\x00") }

// count counts what was sent.
func (c *court) count() {
	for _, cb := range c.e.Callbacks {
		c.byName[keyOf(cb.Request, cb.Task, cb.Event)] = cb
		c.index[cb] = len(c.tasks[cb.Task])
		c.tasks[cb.Task] = append(c.tasks[cb.Task], cb)
		c.Sent += len(cb.Sends)
		if cb.Early {
			c.Early++
		}
		told := 0
		for _, s := range cb.Sends {
			switch {
			case !s.Told:
				c.Unanswered++
			case s.Changed:
				c.Conflicts++
			default:
				told++
				if s.Why == WhyLate {
					c.Late++
				}
			}
		}
		if told == 0 {
			c.fault(Lost, cb.Task, "%s was never acknowledged, however often it was sent",
				cb.Name())
			continue
		}
		c.Accepted++
		c.Duplicates += told - 1
	}
	c.Tasks = len(c.tasks)
}

// stored looks each callback up in the store.
func (c *court) stored() {
	for i := range c.e.Store.Callbacks {
		s := &c.e.Store.Callbacks[i]
		c.byID[s.ID] = s
		key := keyOf(s.Key...)
		c.StoredDuplicates += s.Duplicates
		c.StoredConflicts += s.Conflicts
		sent := c.byName[key]
		switch {
		case sent == nil:
			c.fault(Doubled, "", "callback %s is in the store, and nobody sent it",
				strings.Join(s.Key, " "))
			continue
		case c.byKey[key] != nil:
			c.fault(Doubled, sent.Task, "%s is in the store twice", sent.Name())
		}
		c.byKey[key] = s
		if most := sent.count(false, false) - 1; s.Duplicates > most {
			c.fault(Doubled, sent.Task, "%s has %d duplicates, and %d were sent", sent.Name(),
				s.Duplicates, most)
		}
		least, most := sent.count(true, true), sent.count(true, false)
		if s.Conflicts < least || s.Conflicts > most {
			c.fault(Lost, sent.Task, "%s has %d conflicts; %d were sent and %d acknowledged",
				sent.Name(), s.Conflicts, most, least)
		}
	}
}

// task works one task's callbacks and compares.
func (c *court) task(task string) {
	list := c.tasks[task]
	have := c.e.Store.Tasks[task]
	history, changes := c.history(task, have)
	k := follow(task, list, history)
	c.lives[task] = k
	if k.problem != "" {
		c.fault(Order, task, "%s", k.problem)
	}
	for _, i := range k.stuck {
		c.stuck(task, "%s waits for %s to the end, and never gets it", k.name(i), wants(list[i]))
	}
	for i, cb := range list {
		c.tally(k.became[i])
		s := c.byKey[keyOf(cb.Request, cb.Task, cb.Event)]
		switch {
		case s == nil && cb.Acknowledged() > 0:
			c.fault(Lost, task, "%s was acknowledged and is not in the store", cb.Name())
		case s != nil && s.State != k.became[i]:
			c.fault(Difference, task, "%s is %s, and should be %s%s", cb.Name(), s.State,
				k.became[i], because(s.Error))
		}
	}
	c.compare(k, have, changes)
}

func because(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

func (c *court) tally(became string) {
	switch became {
	case stale:
		c.Stale++
	case dead:
		c.Dead++
	case parked:
		c.Parked++
	case unrouted:
		c.Unrouted++
	}
}

// history is what the server says it applied: places in the task's list, and the lines of those.
func (c *court) history(task string, have *StoredTask) (order []int, lines []Change) {
	if have == nil {
		return nil, nil
	}
	seen := map[int]bool{}
	for _, line := range have.History {
		if line.Callback == "" {
			continue // time passed, or a person acted
		}
		at := -1
		if s := c.byID[line.Callback]; s != nil {
			if cb := c.byName[keyOf(s.Key...)]; cb != nil && cb.Task == task {
				at = c.index[cb]
			}
		}
		if seen[at] {
			c.fault(Doubled, task, "%s was applied twice", c.tasks[task][max(at, 0)].Name())
			continue
		}
		seen[at] = true
		order, lines = append(order, at), append(lines, line)
	}
	return order, lines
}

// compare compares a task with what the store has of it.
func (c *court) compare(k *life, have *StoredTask, lines []Change) {
	switch {
	case have == nil && k.state == unknown:
		return
	case have == nil:
		c.fault(Lost, k.task, "the task is not in the store, and should be %s", k.state)
		return
	case k.state == unknown:
		c.fault(Doubled, k.task, "the task is %s, and nobody started it", have.State)
		return
	}
	if have.State != k.state {
		c.fault(Difference, k.task, "the task is %s, and should be %s", have.State, k.state)
	}
	if !maps.Equal(have.Fields, k.fields) {
		c.fault(Difference, k.task, "the task's fields are %v, and should be %v", have.Fields,
			k.fields)
	}
	for i, want := range k.steps {
		if i >= len(lines) {
			c.fault(Lost, k.task, "the history ends before %s", k.name(want.callback))
			return
		}
		cb := k.list[want.callback]
		if l := lines[i]; l.Event != cb.Event || l.From != want.from || l.To != want.to {
			c.fault(Difference, k.task,
				"the history says %s: %q to %q, and should say %s: %q to %q", l.Event, l.From,
				l.To, cb.Event, want.from, want.to)
			return
		}
	}
}

// unknownTasks looks for tasks that nobody started.
func (c *court) unknownTasks() {
	for _, task := range slices.Sorted(maps.Keys(c.e.Store.Tasks)) {
		if c.lives[task] == nil {
			c.fault(Doubled, task, "the task is in the store, and nobody sent anything for it")
		}
	}
}
