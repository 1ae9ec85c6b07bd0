package model

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// jumped is the right world, but the clock was put forward by an hour when B was in `running`: it
// came into it at second 4, and left it at 3606, by the server's clock. It has its alarm.
func jumped() *Evidence {
	e := right()
	b := e.Store.Tasks["B"]
	b.History[2].At, b.History[3].At = at(3606), at(3608)
	b.History = slices.Insert(b.History, 2, Change{At: at(3604), Event: "overdue",
		From: "running", To: "running"})
	for i := 4; i < len(e.Sightings); i++ {
		e.Sightings[i].At = e.Sightings[i].At.Add(time.Hour)
	}
	e.arrive(3604, "a-b", Alarm, "B", "", 0)
	last := len(e.Sightings) - 1
	e.Sightings = slices.Insert(e.Sightings[:last:last], 4, e.Sightings[last])
	e.Jumps = []Jump{{From: at(5).Add(time.Second / 2), To: at(3603), Settled: at(3604)}}
	return e
}

// withoutAlarm is a server that neither sends an alarm nor says so.
func withoutAlarm(e *Evidence) {
	e.Sightings = slices.Delete(e.Sightings, 4, 5)
	e.Store.Effects = slices.DeleteFunc(e.Store.Effects, func(s StoredEffect) bool {
		return s.Name == Alarm
	})
	b := e.Store.Tasks["B"]
	b.History = slices.Delete(b.History, 2, 3)
}

func TestATaskThatStandsStillOverAJumpHasItsAlarmOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change           func(*Evidence)
		came, due        int
		kind, task, says string // of a fault; empty: there is none at all
	}{
		"it came": {func(*Evidence) {}, 1, 1, "", "", ""},
		"it arrived twice with its id": {func(e *Evidence) {
			e.Sightings = append(e.Sightings, e.Sightings[4])
		}, 1, 1, "", "", ""},
		"it never came": {withoutAlarm, 0, 1, Lost, "B", "task-stands-still of B never arrived: " +
			"it stood in running from Mar  1 08:00:04.000000 on"},
		"the history says so, and it never came": {func(e *Evidence) {
			h := slices.Clone(e.Store.Tasks["B"].History)
			withoutAlarm(e)
			e.Store.Tasks["B"].History = h
			e.Jumps = nil
		}, 0, 1, Lost, "B", "task-stands-still of B never arrived"},
		"the server waits with it": {func(e *Evidence) {
			e.Sightings = slices.Delete(e.Sightings, 4, 5)
			e.Store.Effects[len(e.Store.Effects)-1].State = "pending"
		}, 0, 1, Lost, "B", "task-stands-still of B is pending and not acknowledged"},
		"the history does not say so": {func(e *Evidence) {
			b := e.Store.Tasks["B"]
			b.History = slices.Delete(b.History, 2, 3)
		}, 1, 1, Difference, "B", "the history says 0 times that the task is overdue"},
		"it has two ids": {func(e *Evidence) {
			e.arrive(3605, "a-b-2", Alarm, "B", "", 0)
		}, 1, 1, Doubled, "B", "task-stands-still of B arrived under two ids, a-b and a-b-2"},
		"it comes before it is due": {func(e *Evidence) {
			e.Sightings[4].At = at(1000)
		}, 0, 1, Doubled, "B", "task-stands-still of B arrived, and nothing explains it"},
		"it comes after what ended it": {func(e *Evidence) {
			e.Sightings[4], e.Sightings[6] = e.Sightings[6], e.Sightings[4]
		}, 1, 1, Order, "B", "tell-wms of B arrived before task-stands-still of B"},
		"it comes before what was earlier": {func(e *Evidence) {
			e.Sightings[3], e.Sightings[4] = e.Sightings[4], e.Sightings[3]
		}, 1, 1, Order, "B", "task-stands-still of B arrived before tell-progress 7 of B"},
		"an event came first": {func(e *Evidence) {
			withoutAlarm(e)
			e.Jumps[0].Settled = at(3607)
		}, 0, 0, "", "", ""},
		"the jump was short": {func(e *Evidence) {
			withoutAlarm(e)
			e.Jumps[0].To, e.Jumps[0].Settled = at(1803), at(1804) // 29:59 after second 4
		}, 0, 0, "", "", ""},
		"the jump was just long enough": {func(e *Evidence) {
			withoutAlarm(e)
			e.Jumps[0].To, e.Jumps[0].Settled = at(1804), at(1805)
		}, 0, 1, Lost, "B", "never arrived"},
		"the jump was before it": {func(e *Evidence) {
			withoutAlarm(e)
			e.Jumps[0].From = at(4)
		}, 0, 0, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := jumped()
			c.change(e)
			r := Judge(e)
			found := slices.ContainsFunc(r.Faults, func(f Fault) bool {
				return f.Kind == c.kind && f.Task == c.task && strings.Contains(f.Text, c.says)
			})
			if found == (c.kind == "") || r.OK() != (c.kind == "") {
				t.Errorf("want %s of task %q: %s; found %+v", c.kind, c.task, c.says, r.Faults)
			}
			if r.Alarms != c.came || r.AlarmsDue != c.due {
				t.Errorf("%d alarms, %d due, want %d and %d", r.Alarms, r.AlarmsDue, c.came, c.due)
			}
		})
	}
}
