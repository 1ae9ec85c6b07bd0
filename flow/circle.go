package flow

import (
	"fmt"
	"strings"

	"github.com/oncekit/once/queue"
)

// owner names a task as the owner of resources.
type owner struct{ flow, task string }

// step is one link on the way from the waiting task along owners and waits.
type step struct {
	owner
	via  ref // the resource that the one before waits for and this one owns
	from int // index of the step before; -1: the waiting task itself
}

// circle follows the owners of what the draft's task would wait for, and what those wait for in
// turn. It describes the way if that leads back to the task itself, and is empty otherwise.
// Resources that are free or are being freed wait for no task and end the way.
func (d *draft) circle(busy []blocked) (string, error) {
	self := owner{d.flow, d.task}
	var way []step
	seen := map[owner]bool{}
	visit := func(r *queue.Resource, from int) {
		o := owner{r.Flow, r.Task}
		if r.Free() || r.Freeing > 0 || seen[o] || len(way) >= d.e.circleTasks {
			return
		}
		seen[o] = true
		way = append(way, step{o, ref{r.Kind, r.Name}, from})
	}
	for _, b := range busy {
		visit(b.Resource, -1)
	}
	for i := 0; i < len(way); i++ {
		waits, err := d.v.WaitsOf(way[i].flow, way[i].task)
		if err != nil {
			return "", fmt.Errorf("read waits of task %s: %w", way[i].task, err)
		}
		for _, w := range waits {
			want, ok := waitedRef(w)
			if !ok {
				continue
			}
			r, err := d.get(want)
			if err != nil {
				return "", err
			}
			if d.owns(r) {
				return describe(self, want, way, i), nil
			}
			visit(r, i)
		}
	}
	return "", nil
}

// describe writes the circle: the waiting task owns what the last step waits for.
func describe(self owner, owned ref, way []step, last int) string {
	var steps []step // from the waiting task on
	for i := last; i >= 0; i = way[i].from {
		steps = append([]step{way[i]}, steps...)
	}
	name := func(o owner) string {
		if o.flow != self.flow {
			return o.flow + "/" + o.task
		}
		return o.task
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s owns %s and waits for %s, which %s owns",
		name(self), owned, steps[0].via, name(steps[0].owner))
	for i, s := range steps {
		if i+1 < len(steps) {
			fmt.Fprintf(&b, "; %s waits for %s, which %s owns",
				name(s.owner), steps[i+1].via, name(steps[i+1].owner))
			continue
		}
		fmt.Fprintf(&b, "; %s waits for %s", name(s.owner), owned)
	}
	return b.String()
}
