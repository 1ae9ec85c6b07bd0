package model

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// reign is the time in which a task had a resource.
type reign struct {
	task     string
	from, to time.Time // by the task's history
	// freed is the first arrival of what sets the resource free; nil: none came.
	freed *Sighting
	at    int // its place among all arrivals
}

// clockSlack is how far the demo's clock and the server's may be apart. Both read that of one
// machine, which may be set meanwhile.
const clockSlack = 100 * time.Millisecond

// owners checks that each resource had one owner at a time: by the tasks' histories, by the fences
// that the destinations saw, and by what the server says in the end.
func (c *court) owners() {
	all := c.reigns()
	last := map[string]*StoredResource{}
	for i := range c.e.Store.Resources {
		r := &c.e.Store.Resources[i]
		last[r.Name] = r
		if r.Owner != "" || r.Waiting > 0 {
			c.stuck(r.Owner, "%s is still %s's, and %d wait for it", r.Name, r.Owner, r.Waiting)
		}
	}
	c.fences()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list := all[name]
		c.Owned += len(list)
		slices.SortFunc(list, func(a, b *reign) int { return a.from.Compare(b.from) })
		for i, r := range list {
			if r.to.IsZero() {
				continue // told above
			}
			c.inTurn(name, r, int64(i+1))
			if i > 0 {
				c.handover(name, list[i-1], r)
			}
		}
		if r := last[name]; r == nil || r.Fence != int64(len(list)) {
			c.fault(TwoOwners, "", "%s had %d owners by the tasks' histories, and its fence is %d",
				name, len(list), fenceOf(r))
		}
	}
}

func fenceOf(r *StoredResource) int64 {
	if r == nil {
		return 0
	}
	return r.Fence
}

// reigns reads from the histories who had what when.
func (c *court) reigns() map[string][]*reign {
	all := map[string][]*reign{}
	for task, k := range c.lives {
		have := c.e.Store.Tasks[task]
		if have == nil {
			continue
		}
		_, lines := c.historyLines(task, have)
		held := map[string]*reign{}
		for i, s := range k.steps {
			if i >= len(lines) {
				break
			}
			cb := k.list[s.callback]
			if name := wants(cb); name != "" {
				r := &reign{task: task, from: lines[i].At}
				held[name], all[name] = r, append(all[name], r)
			}
			for name, r := range held {
				if r.to.IsZero() && frees(cb.Event, name) {
					r.to = lines[i].At
				}
			}
		}
		for name, r := range held {
			c.sight(name, r)
		}
	}
	return all
}

// historyLines are the lines of a history that callbacks made. Doubles were told before.
func (c *court) historyLines(task string, have *StoredTask) ([]int, []Change) {
	kept := *c.Report
	order, lines := c.history(task, have)
	*c.Report = kept
	return order, lines
}

// frees reports whether an event sets a kind of resource free that its task has.
func frees(event, resource string) bool {
	return event == "finish" || event == "cancel" ||
		event == "finishFE" && strings.HasPrefix(resource, "roadway/")
}

// sight finds the first arrival of what sets a reign's resource free.
func (c *court) sight(name string, r *reign) {
	if ids := c.ids[effect{r.task, releaseName(name), name, 0}]; ids != nil {
		r.at = c.first[ids[0]]
		r.freed = &c.e.Sightings[r.at]
	}
}

// inTurn checks that a reign's fence is its place in the row of owners.
func (c *court) inTurn(name string, r *reign, place int64) {
	if r.freed != nil && r.freed.Fence != place {
		c.fault(TwoOwners, r.task, "%s was owner %d of %s, and its fence is %d", r.task, place,
			name, r.freed.Fence)
	}
}

// handover checks that a resource was given on only when it was free, and free outside too.
func (c *court) handover(name string, before, after *reign) {
	switch {
	case before.to.IsZero() || after.from.Before(before.to):
		c.fault(TwoOwners, after.task, "%s was %s's and %s's at the same time (%s)", name,
			before.task, after.task, after.from.Format(time.StampMicro))
	case before.freed == nil: // lost: told elsewhere
	case after.from.Add(clockSlack).Before(before.freed.At):
		c.fault(TwoOwners, after.task, "%s was given to %s before the %s of %s had arrived", name,
			after.task, before.freed.Name, before.task)
	case after.freed != nil && after.at < before.at:
		c.fault(Order, after.task, "%s: the %s of %s arrived before that of %s, the owner before",
			name, after.freed.Name, after.task, before.task)
	}
}

// fences checks that no fence of a resource was seen with two tasks, and that what arrived first
// did so with rising fences.
func (c *court) fences() {
	type holder struct {
		name  string
		fence int64
	}
	owner, highest := map[holder]string{}, map[string]int64{}
	for i := range c.e.Sightings {
		s := &c.e.Sightings[i]
		if s.Resource == "" {
			continue
		}
		h := holder{s.Resource, s.Fence}
		if before, ok := owner[h]; ok && before != s.Task {
			c.fault(TwoOwners, s.Task, "%s was %s's and %s's with the same fence %d", s.Resource,
				before, s.Task, s.Fence)
		}
		owner[h] = s.Task
		if c.first[s.ID] == i && s.Fence < highest[s.Resource] {
			c.fault(Order, s.Task, "%s arrived with fence %d after fence %d", s.key(), s.Fence,
				highest[s.Resource])
		}
		highest[s.Resource] = max(highest[s.Resource], s.Fence)
	}
}
