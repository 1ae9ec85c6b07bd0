package model

// order checks that the effects of one task arrived at the warehouse in the order of their causes,
// however often one of them was retried: the order of first arrivals is that of the history.
func (c *court) order() {
	for _, task := range sortedTasks(c.lives) {
		if c.lives[task].problem != "" {
			continue // told before
		}
		var last effect
		for _, ef := range c.line(task) {
			ids := c.ids[ef]
			if ids == nil {
				continue // told before
			}
			if before := c.ids[last]; before != nil && c.first[ids[0]] < c.first[before[0]] {
				c.fault(Order, task, "%s arrived before %s, which was earlier", ef, last)
			}
			last = ef
		}
	}
}

// line returns the effects of a task that go to the warehouse, in the order of their causes.
func (c *court) line(task string) (out []effect) {
	have := c.e.Store.Tasks[task]
	if have == nil {
		return nil
	}
	steps := c.lives[task].steps
	for _, l := range have.History {
		switch {
		case l.Callback == "" && l.Event == overdue:
			out = append(out, effect{task, Alarm, "", 0})
		case l.Callback != "" && len(steps) > 0:
			for _, ef := range steps[0].effects {
				if ef.resource == "" {
					out = append(out, ef)
				}
			}
			steps = steps[1:]
		}
	}
	return out
}
