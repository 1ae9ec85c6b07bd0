package flow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// verdict is what a callback is to its task.
type verdict uint8

const (
	applied verdict = iota + 1
	stale
	early
	illegal
)

// classify says what event name is to the task, and why if it isn't applied. newer evaluates the
// event's `newer`; it is called only where the answer depends on it.
func (p *plan) classify(
	task *queue.Task, name string, newer func() (any, error),
) (verdict, string, error) {
	ev := p.Events[name]
	if task.Version == 0 {
		if p.starts[name] {
			return applied, "", nil
		}
		return early, "the task is not known yet; " + p.legalIn(name), nil
	}
	if p.final[task.State] {
		return stale, "the task is in the final state " + task.State, nil
	}
	here := slices.Contains(ev.From, task.State)
	again := comesAgain(p.reach, task.State, ev)
	taken := task.Taken[name]
	switch {
	case taken.Count == 0 && here:
		return applied, "", nil
	case taken.Count == 0 && again:
		return early, "the task is in state " + task.State + "; " + p.legalIn(name), nil
	case taken.Count == 0:
		return illegal, fmt.Sprintf("%s is not legal in state %s; legal next events: %s",
			name, task.State, list(p.legal(task))), nil
	case !here && !again:
		return stale, "the task has already taken " + name + " and can't come back to it", nil
	}
	return p.repeat(task, name, here, newer)
}

// repeat classifies an event of a cycle that the task has taken before: it is legal now (here) or
// can become so.
func (p *plan) repeat(
	task *queue.Task, name string, here bool, newer func() (any, error),
) (verdict, string, error) {
	ev := p.Events[name]
	if ev.Newer != nil {
		v, err := newer()
		if err != nil {
			return 0, "", err
		}
		last := task.Taken[name].Newer
		order, ok := value.Compare(v, last)
		if last != nil && !ok {
			return 0, "", &fieldError{"newer", fmt.Errorf("%s and %s, the value at its last "+
				"application, have no order", show(v), show(last))}
		}
		if last != nil && order <= 0 {
			return stale, fmt.Sprintf("newer: %s is not above %s, the value at its last "+
				"application", show(v), show(last)), nil
		}
	}
	switch {
	case here && ev.Again == AgainStale && ev.Newer == nil && ev.staysLegal():
		return stale, "the task has already taken " + name, nil
	case here:
		return applied, "", nil
	case ev.Newer != nil || ev.Again == AgainPark || ev.judgedByMax():
		return early, "the task is in state " + task.State + "; " + p.legalIn(name), nil
	}
	return stale, "the task has already taken " + name, nil
}

// judgedByMax reports whether `max` says what is a repeat, once the event is legal again.
func (ev *Event) judgedByMax() bool {
	return ev.To == "" && len(ev.Max) > 0 && ev.Again == AgainUnset
}

func (p *plan) legalIn(name string) string {
	return name + " is legal in " + strings.Join(p.Events[name].From, ", ")
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// show writes a value for people.
func show(v any) string {
	if v == nil {
		return "null"
	}
	b, err := value.Encode(v)
	if err != nil {
		return fmt.Sprintf("a %T", v)
	}
	return string(b)
}

// fieldError is an expression that gave no usable value; the callback is a dead letter.
type fieldError struct {
	field string
	err   error
}

func (e *fieldError) Error() string { return e.field + ": " + e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

// Public returns the field alone, with what its expression says that may be shown: see
// [queue.Public].
func (e *fieldError) Public() string {
	return e.field + ": " + cmp.Or(queue.Public(e.err), "it has no usable value")
}
