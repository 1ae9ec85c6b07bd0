package model

import (
	"maps"
	"slices"
	"time"
)

const (
	// alarmAfter is how long a task may stand in the state `running` until its alarm goes out.
	alarmAfter = 30 * time.Minute
	// overdue is the line of a history that says so.
	overdue = "overdue"
)

// stay is the time in which a task stood in the state `running`. It comes into it once.
type stay struct {
	from time.Time
	to   time.Time // zero: it never left
}

func sortedTasks(lives map[string]*life) []string { return slices.Sorted(maps.Keys(lives)) }

// stayed reads from a task's history when it stood in `running`; false: it never did.
func (c *court) stayed(task string) (s stay, ok bool) {
	k, have := c.lives[task], c.e.Store.Tasks[task]
	if k == nil || have == nil {
		return s, false
	}
	_, lines := c.historyLines(task, have)
	for i, st := range k.steps {
		switch {
		case i >= len(lines):
			return s, ok
		case st.from != running && st.to == running:
			s.from, ok = lines[i].At, true
		case st.from == running && st.to != running:
			s.to = lines[i].At
			return s, ok
		}
	}
	return s, ok
}

// alarms checks that each task had its alarm that stood still over a jump of the clock. That it had
// no second one is found where effects are counted: all of a task are of one stay.
func (c *court) alarms() {
	for _, task := range sortedTasks(c.lives) {
		s, ok := c.stayed(task)
		if !ok {
			continue
		}
		due := slices.ContainsFunc(c.e.Jumps, func(j Jump) bool {
			return s.from.Before(j.From) && j.To.Sub(s.from) >= alarmAfter &&
				(s.to.IsZero() || s.to.After(j.Settled))
		})
		told := c.overdueLines(task)
		if came := c.ids[effect{task, Alarm, "", 0}] != nil; came && told != 1 {
			c.fault(Difference, task, "%s arrived, and the history says %d times that the task "+
				"is overdue, and should once", Alarm, told)
		}
		if !due && told == 0 {
			continue
		}
		c.AlarmsDue++
		if c.ids[effect{task, Alarm, "", 0}] == nil {
			c.fault(Lost, task, "%s of %s never arrived: it stood in %s from %s on, and the clock "+
				"was put forward meanwhile", Alarm, task, running, s.from.Format(time.StampMicro))
		}
	}
}

// overdueLines counts the lines of a task's history that say that it is overdue.
func (c *court) overdueLines(task string) (n int) {
	for _, l := range c.e.Store.Tasks[task].History {
		if l.Callback == "" && l.Event == overdue {
			n++
		}
	}
	return n
}

// mayAlarm reports whether a task had stood still so long that an alarm is right, at a moment.
func (c *court) mayAlarm(task string, at time.Time) bool {
	s, ok := c.stayed(task)
	return ok && at.Sub(s.from) >= alarmAfter-clockSlack &&
		(s.to.IsZero() || s.to.Sub(s.from) >= alarmAfter)
}
