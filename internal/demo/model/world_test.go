package model

import (
	"fmt"
	"testing"
	"time"
)

// epoch is when the small worlds of these tests begin.
var epoch = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

// at is a moment of such a world.
func at(second int) time.Time { return epoch.Add(time.Duration(second) * time.Second) }

// cb is a callback that was sent once and acknowledged. Its content is a roadway, a station or a
// number.
func cb(request, task, event string, content ...any) *Callback {
	c := &Callback{Request: request, Task: task, Event: event, Robot: "AGV-1",
		Sends: []Send{{Why: "first", Answer: "200", Told: true}}}
	for _, v := range content {
		switch v := v.(type) {
		case int:
			c.Seq = v
		case string:
			if event == "station" {
				c.Station = v
			} else {
				c.Roadway = v
			}
		}
	}
	return c
}

// store adds a callback as the server should have it.
func (e *Evidence) store(c *Callback, state string) {
	e.Callbacks = append(e.Callbacks, c)
	e.Store.Callbacks = append(e.Store.Callbacks, StoredCallback{ID: "id-" + c.Request,
		Key: []string{c.Request, c.Task, c.Event}, State: state})
}

// arrive adds an effect that arrived and is acknowledged.
func (e *Evidence) arrive(second int, id, name, task, resource string, fence int64) {
	to := "plant"
	if resource == "" {
		to = "wms"
	}
	e.Sightings = append(e.Sightings, Sighting{At: at(second), Destination: to, ID: id, Name: name,
		Task: task, Resource: resource, Fence: fence, Payload: "{}"})
	e.Store.Effects = append(e.Store.Effects, StoredEffect{ID: id, Destination: to, Name: name,
		Task: task, Resource: resource, State: "done"})
}

// change is a line of a history.
func change(second int, c *Callback, from, to string) Change {
	return Change{At: at(second), Event: c.Event, From: from, To: to, Callback: "id-" + c.Request}
}

// right is a small world in which everything is as it has to be: A and B want roadway R1, B waits
// for it; A leaves station S1 too. B's last event was sent twice, and once with other content; an
// effect arrived twice with its id.
func right() *Evidence {
	e := &Evidence{Store: Store{Tasks: map[string]*StoredTask{}}}
	a1, a2, a3, a4 := cb("a1", "A", "startFE", "R1"), cb("a2", "A", "station", "S1"),
		cb("a3", "A", "finishFE"), cb("a4", "A", "finish")
	b1, b2, b3 := cb("b1", "B", "startFE", "R1"), cb("b2", "B", "updateSeq", 7),
		cb("b3", "B", "finishFE")
	b4 := cb("b4", "B", "finish")
	b4.Sends = append(b4.Sends, Send{Why: "at the same time", Answer: "200", Told: true},
		Send{Why: "again", Answer: "timed out"},
		Send{Why: "changed", Answer: "200", Told: true, Changed: true})
	for _, c := range []*Callback{a1, b1, b2, a2, b3, a3, a4, b4} {
		e.store(c, done)
	}
	last := &e.Store.Callbacks[7]
	last.Duplicates, last.Conflicts = 1, 1
	e.Store.Tasks["A"] = &StoredTask{State: "finished", Fields: map[string]string{
		"roadway": `"R1"`, "robot": `"AGV-1"`, "station": `"S1"`, "finishFlag": "true",
		"jobStatus": `"finish"`},
		History: []Change{change(1, a1, "", "running"), change(2, a2, "running", "at_station"),
			change(3, a3, "at_station", "unloaded"), change(5, a4, "unloaded", "finished")}}
	e.Store.Tasks["B"] = &StoredTask{State: "finished", Fields: map[string]string{
		"roadway": `"R1"`, "robot": `"AGV-1"`, "seq": "7", "finishFlag": "true",
		"jobStatus": `"finish"`},
		History: []Change{change(4, b1, "", "running"), change(5, b2, "running", "running"),
			change(6, b3, "running", "unloaded"), change(8, b4, "unloaded", "finished")}}
	e.arrive(3, "u-a", "unlock-roadway", "A", "roadway/R1", 1)
	e.arrive(3, "w-a", "tell-wms", "A", "", 0)
	e.arrive(5, "s-a", "release-station", "A", "station/S1", 1)
	e.arrive(5, "p-b", Progress, "B", "", 0)
	e.Sightings[3].Seq = 7
	e.arrive(6, "u-b", "unlock-roadway", "B", "roadway/R1", 2)
	e.arrive(7, "w-b", "tell-wms", "B", "", 0)
	e.Sightings = append(e.Sightings, e.Sightings[1])
	e.Store.Resources = []StoredResource{{Name: "roadway/R1", Fence: 2},
		{Name: "station/S1", Fence: 1}}
	return e
}

func TestARightWorldHasNoFault(t *testing.T) {
	t.Parallel()
	r := Judge(right())
	for _, f := range r.Faults {
		t.Errorf("%+v", f)
	}
	got := fmt.Sprint(r.Sent, r.Accepted, r.Duplicates, r.Conflicts, r.Unanswered, r.Tasks,
		r.Expected, r.Seen, r.Repeated, r.Owned, r.Lost, r.Doubled)
	if want := "11 8 1 1 1 2 6 6 1 3 0 0"; got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
}
