package flow

import (
	"errors"
	"fmt"
	"strings"

	"github.com/oncekit/once/queue"
)

// ref names a resource.
type ref struct{ kind, name string }

func (r ref) String() string { return r.kind + "/" + r.name }

var errNotRef = errors.New("want kind/name")

// parseRef splits at the first slash: names may hold slashes, kinds may not.
func parseRef(text string) (ref, error) {
	kind, name, ok := strings.Cut(text, "/")
	if !ok || kind == "" {
		return ref{}, fmt.Errorf("%s: %w", show(text), errNotRef)
	}
	return ref{kind, name}, nil
}

// waitedRef returns the resource that a wait is for; ok is false for the wait for a task.
func waitedRef(wait string) (ref, bool) {
	kind, name, ok := queue.WaitedResource(wait)
	return ref{kind, name}, ok
}

// get returns the resource as it is in the draft.
func (d *draft) get(r ref) (*queue.Resource, error) {
	if have := d.resources[r.String()]; have != nil {
		return have, nil
	}
	read, err := d.v.Resource(r.kind, r.name)
	if err != nil {
		return nil, fmt.Errorf("read resource %s: %w", r, err)
	}
	read.Kind, read.Name = r.kind, r.name
	return d.keep(read), nil
}

func (d *draft) keep(r queue.Resource) *queue.Resource {
	if d.resources == nil {
		d.resources = make(map[string]*queue.Resource)
	}
	key := ref{r.Kind, r.Name}.String()
	if d.resources[key] == nil {
		d.resources[key] = &r
	}
	return d.resources[key]
}

// change marks the resource as part of the settlement.
func (d *draft) change(r *queue.Resource) {
	key := ref{r.Kind, r.Name}.String()
	for _, have := range d.changed {
		if have == key {
			return
		}
	}
	d.changed = append(d.changed, key)
}

// owns reports whether the draft's task is the owner; a resource that is being freed has none.
func (d *draft) owns(r *queue.Resource) bool {
	return r.Flow == d.flow && r.Task == d.task && r.Freeing == 0
}

// refs evaluates a list of "kind/name" texts. One that names nothing is noted and left out.
func (d *draft) refs(verb string, list []Expr) ([]ref, error) {
	var out []ref
	for i, x := range list {
		field := fmt.Sprintf("%s[%d]", verb, i)
		s, ok, err := text(x, &d.vars)
		if err != nil {
			return nil, &fieldError{field, err}
		}
		if !ok || s == "" {
			d.note("%s: the text is empty, nothing to %s", field, verb)
			continue
		}
		r, err := parseRef(s)
		if err != nil {
			return nil, &fieldError{field, err}
		}
		if r.name == "" {
			d.note("%s: the name of the %s is empty, nothing to %s", field, r.kind, verb)
			continue
		}
		out = append(out, r)
	}
	return out, nil
}

// blocked is a resource that the draft's task can't have now.
type blocked struct {
	*queue.Resource
	why string
}

// acquire takes all resources for the task, or none and returns those that it can't have, in the
// order of the list. seq is the place in the order of acceptance: a free resource goes to an
// earlier waiter first.
func (d *draft) acquire(wanted []ref, seq int64) (busy []blocked, err error) {
	var take []*queue.Resource
	for _, want := range wanted {
		r, err := d.get(want)
		if err != nil {
			return nil, err
		}
		if d.owns(r) {
			continue
		}
		why, err := d.blockedBy(r, seq)
		if err != nil {
			return nil, err
		}
		if why != "" {
			busy = append(busy, blocked{r, why})
			continue
		}
		take = append(take, r)
	}
	if len(busy) > 0 {
		return busy, nil
	}
	for _, r := range take {
		if !d.owns(r) { // named twice in the list
			d.give(r, d.flow, d.task)
		}
	}
	return nil, nil
}

// blockedBy says why the resource can't be taken; empty: it can.
func (d *draft) blockedBy(r *queue.Resource, seq int64) (string, error) {
	switch {
	case r.Freeing > 0:
		return fmt.Sprintf("it is being freed from task %s: %s not acknowledged yet",
			r.Task, effects(r.Freeing)), nil
	case !r.Free():
		return "task " + r.Task + " owns it", nil
	}
	first, err := d.v.FirstWaiter(queue.WaitResource(r.Kind, r.Name))
	if err != nil {
		return "", fmt.Errorf("read waiters of %s/%s: %w", r.Kind, r.Name, err)
	}
	if first != 0 && first < seq {
		return "it is free, and an earlier callback waits for it", nil
	}
	return "", nil
}

func effects(n int) string {
	if n == 1 {
		return "1 effect"
	}
	return fmt.Sprintf("%d effects", n)
}

// give makes the task the owner. The fence rises.
func (d *draft) give(r *queue.Resource, flow, task string) {
	r.Flow, r.Task, r.Freeing, r.SinceAt = flow, task, 0, d.now
	r.Fence++
	d.change(r)
}

// release frees the resources that the task owns among those listed, and all of them if asked.
func (d *draft) release(listed []ref, all bool) error {
	for _, want := range listed {
		r, err := d.get(want)
		if err != nil {
			return err
		}
		if !d.owns(r) {
			d.note("release %s: the task doesn't own it, nothing is freed", want)
			continue
		}
		if err := d.free(r); err != nil {
			return err
		}
	}
	if !all {
		return nil
	}
	owned, err := d.owned()
	if err != nil {
		return err
	}
	for _, r := range owned {
		if err := d.free(r); err != nil {
			return err
		}
	}
	return nil
}

// owned returns what the task owns as the draft has it: the store's first, in its order.
func (d *draft) owned() ([]*queue.Resource, error) {
	stored, err := d.v.Owned(d.flow, d.task)
	if err != nil {
		return nil, fmt.Errorf("read resources of task %s: %w", d.task, err)
	}
	var out []*queue.Resource
	listed := make(map[*queue.Resource]bool)
	for _, s := range stored {
		if r := d.keep(s); d.owns(r) {
			out, listed[r] = append(out, r), true
		}
	}
	for _, key := range d.changed {
		if r := d.resources[key]; d.owns(r) && !listed[r] {
			out = append(out, r)
		}
	}
	return out, nil
}

// free ends the task's ownership. With on_release effects the resource is free when those that were
// made are acknowledged, else at once.
func (d *draft) free(r *queue.Resource) error {
	kind := d.e.kinds[r.Kind]
	wait := len(kind.OnRelease) > 0 && !kind.AtOnce
	before := len(d.effects)
	for _, ef := range kind.OnRelease {
		if err := d.effect(ef, r, wait); err != nil {
			return err
		}
	}
	if made := len(d.effects) - before; wait && made > 0 {
		r.Freeing, r.SinceAt = made, d.now
		d.change(r)
		return nil
	}
	d.clear(r)
	return nil
}

// clear leaves the resource without an owner and hands it to its first waiter.
func (d *draft) clear(r *queue.Resource) {
	r.Flow, r.Task, r.Freeing, r.SinceAt = "", "", 0, d.now
	d.change(r)
	d.wake(queue.Wake{Wait: queue.WaitResource(r.Kind, r.Name), First: true})
}
