package flow

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// work is one callback under decision.
type work struct {
	*draft
	plan *plan
	ev   *Event
	row  queue.Row
	old  queue.Task // as stored; an unknown one is in the initial state
	msg  bool       // the message was decoded into vars
}

// Decide says what becomes of a callback. Its task is Row.Task of the flow Row.Flow, its event
// Row.Event. The result's State is
//
//   - Done: the transition was applied;
//   - Stale: it came too late or a second time, and has no effect: the task is final or gone, it
//     has taken the transition and can't come back to it, or `newer` or `max` did not move up;
//   - Parked: it waits for its task to move (early), or for a resource that is taken; then it waits
//     for the resource and for its task, whose move may make the wait pointless;
//   - Dead: illegal, refused, in a circle, waited too long, or with an expression that failed;
//   - Unrouted: the flow or the event isn't declared.
//
// The error is the view's own. Decide is pure and may be called again for the same row.
func (e *Engine) Decide(v queue.View, row queue.Row) (queue.Settlement, error) {
	s, err := e.decide(v, row)
	var field *fieldError
	if errors.As(err, &field) {
		s, err = dead(queue.CausePermanent, "event "+row.Event+": "+field.Error()), nil
		s.Public = "event " + row.Event + ": " + field.Public()
	}
	if err == nil {
		err = e.handOn(v, row, &s)
	}
	if err != nil {
		return queue.Settlement{}, fmt.Errorf("decide callback %s: %w", row.ID(), err)
	}
	s.Grant = row.Grant()
	return s, nil
}

func (e *Engine) decide(v queue.View, row queue.Row) (queue.Settlement, error) {
	p := e.plans[row.Flow]
	if p == nil || p.Events[row.Event] == nil {
		return queue.Settlement{State: queue.Unrouted, Error: "flow " + row.Flow +
			" has no event " + row.Event}, nil
	}
	task, err := v.Task(row.Flow, row.Task)
	if err != nil {
		return queue.Settlement{}, fmt.Errorf("read task %s: %w", row.Task, err)
	}
	if task.Gone {
		return queue.Settlement{State: queue.Stale,
			Error: "the task is gone; its last state was " + task.State}, nil
	}
	task.Flow, task.ID = row.Flow, row.Task
	if task.Version == 0 {
		task.State = p.Initial
	}
	w := &work{draft: e.newDraft(v, p, row.Flow, row.Task), plan: p, ev: p.Events[row.Event],
		row: row, old: task}
	w.base, w.cause = row.Identity, row.ID()
	w.traceParent, w.traceState = row.TraceParent, row.TraceState
	is, reason, err := p.classify(&task, row.Event, w.newer)
	if err != nil {
		return queue.Settlement{}, err
	}
	switch is {
	case applied:
		return w.apply()
	case early:
		return w.wait(reason)
	case stale:
		return queue.Settlement{State: queue.Stale, Error: reason}, nil
	}
	s := dead(queue.CauseIllegal, reason)
	s.Public = reason // names of states and events
	return s, nil
}

func dead(cause queue.Cause, reason string) queue.Settlement {
	return queue.Settlement{State: queue.Dead, DeadCause: cause, Error: reason}
}

// message decodes the row into vars, once.
func (w *work) message() error {
	if w.msg {
		return nil
	}
	m, err := w.e.decode(w.row)
	if err != nil {
		return &fieldError{"message", err}
	}
	w.vars.Body, w.vars.Item, w.vars.Request = m.Body, m.Item, m.Request
	w.vars.Source, w.msg = w.row.Source, true
	return nil
}

// newer evaluates the event's `newer` on the task as it was before.
func (w *work) newer() (any, error) {
	if err := w.message(); err != nil {
		return nil, err
	}
	vars := w.vars
	vars.Task = taskVars(&w.old, w.old.Version)
	v, err := w.ev.Newer(&vars)
	if err != nil {
		return nil, &fieldError{"newer", err}
	}
	if v == any(Absent) {
		return nil, &fieldError{"newer", errors.New("there is no value")}
	}
	if _, ok := value.Compare(v, v); !ok {
		return nil, &fieldError{"newer", fmt.Errorf("%s has no order", show(v))}
	}
	return v, nil
}

// wait parks an early callback until its task moves.
func (w *work) wait(reason string) (queue.Settlement, error) {
	limit := w.plan.early()
	if w.row.LimitPassed && !waitsForResource(w.row.Waits) {
		busy, err := w.v.Busy(w.flow, w.task, w.row.Seq)
		if err != nil {
			return queue.Settlement{}, fmt.Errorf("read rows of task %s: %w", w.task, err)
		}
		if !busy {
			return dead(queue.CauseWaited, fmt.Sprintf("waited %s for task %s to come to %s; %s",
				limit, w.task, strings.Join(w.ev.From, " or "), reason)), nil
		}
	}
	return queue.Settlement{State: queue.Parked, Error: "too early: " + reason,
		Park: &queue.Park{Waits: []string{queue.WaitTask(w.flow, w.task)}, Limit: limit}}, nil
}

// busy says what becomes of a callback whose resources are taken.
func (w *work) busy(taken []blocked) (queue.Settlement, error) {
	first := taken[0]
	reason := fmt.Sprintf("%s/%s: %s", first.Kind, first.Name, first.why)
	if w.plan.Busy.Refuse {
		return dead(queue.CauseBusy, "refused: "+reason), nil
	}
	circle, err := w.circle(taken)
	if err != nil {
		return queue.Settlement{}, err
	}
	if circle != "" {
		return dead(queue.CauseCircle, "the wait closes a circle: "+circle), nil
	}
	limit := w.plan.busyWait()
	waited := waitsForResource(w.row.Waits)
	if waited && w.row.LimitPassed {
		return dead(queue.CauseWaited, fmt.Sprintf("waited %s for %s", limit, reason)), nil
	}
	if waited && !w.row.WaitUntil.IsZero() { // woken for nothing: its limit goes on
		limit = max(w.row.WaitUntil.Sub(w.v.Now()), time.Millisecond)
	}
	if !waited {
		if err := w.alarm(first); err != nil {
			return queue.Settlement{}, err
		}
	}
	return queue.Settlement{
		State: queue.Parked, Error: "waits for " + reason, Effects: w.effects,
		Park: &queue.Park{Limit: limit, Waits: []string{
			queue.WaitResource(first.Kind, first.Name), queue.WaitTask(w.flow, w.task)}},
	}, nil
}

// alarm builds the effects of a callback that has to wait. They see the task as it is.
func (w *work) alarm(first blocked) error {
	d := w.e.newDraft(w.v, w.plan, w.flow, w.task)
	d.base = deriveBase(w.row.Identity, "busy")
	d.cause, d.vars = w.cause, w.vars
	d.traceParent, d.traceState = w.traceParent, w.traceState
	d.vars.Task = taskVars(&w.old, w.old.Version)
	d.vars.Resource = &ResourceVars{Kind: first.Kind, Name: first.Name, Fence: first.Fence}
	for _, ef := range w.plan.Busy.Effects {
		if err := d.effect(ef, nil, false); err != nil {
			return fmt.Errorf("busy: %w", err)
		}
	}
	w.effects = d.effects
	return nil
}

// handOn wakes the next waiter of each resource that the row was woken for and does not wait for
// any more, if the resource is free after the settlement. Without it a waiter that goes another
// way would leave those behind it asleep in front of a free resource.
func (e *Engine) handOn(v queue.View, row queue.Row, s *queue.Settlement) error {
	for _, wait := range row.Waits {
		want, ok := waitedRef(wait)
		if !ok || s.Park != nil && slices.Contains(s.Park.Waits, wait) {
			continue
		}
		r, err := v.Resource(want.kind, want.name)
		if err != nil {
			return fmt.Errorf("read resource %s: %w", want, err)
		}
		for _, now := range s.Resources {
			if now.Kind == want.kind && now.Name == want.name {
				r = now
			}
		}
		wake := queue.Wake{Wait: wait, First: true}
		if r.Free() && !slices.Contains(s.Wake, wake) {
			s.Wake = append(s.Wake, wake)
		}
	}
	return nil
}

func waitsForResource(waits []string) bool {
	return slices.ContainsFunc(waits, func(w string) bool {
		_, ok := waitedRef(w)
		return ok
	})
}
