package model

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Each way in which a server or a destination can betray us has to be found, and named.
func TestEachFaultIsFoundAndNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*Evidence)
		kind  string
		task  string
		says  string
	}{
		"an acknowledged callback is lost": {func(e *Evidence) {
			e.Store.Callbacks = slices.Delete(e.Store.Callbacks, 2, 3)
			b := e.Store.Tasks["B"]
			b.History = slices.Delete(b.History, 1, 2)
			delete(b.Fields, "seq")
		}, Lost, "B", "b2 updateSeq was acknowledged and is not in the store"},
		"a callback was never acknowledged": {func(e *Evidence) {
			e.Callbacks[2].Sends[0] = Send{Why: "first", Answer: "timed out"}
		}, Lost, "B", "b2 updateSeq was never acknowledged"},
		"an effect never arrived": {func(e *Evidence) {
			e.Sightings = slices.Delete(e.Sightings, 5, 6)
		}, Lost, "B", "tell-wms of B never arrived"},
		"an effect was given up": {func(e *Evidence) {
			e.Store.Effects[5].State, e.Store.Effects[5].Error = "dead", "no"
		}, Lost, "B", "tell-wms of B is dead and not acknowledged (no)"},
		"a task is lost": {func(e *Evidence) {
			delete(e.Store.Tasks, "A")
		}, Lost, "A", "a1 startFE waits for roadway/R1 to the end, and never gets it"},
		"a conflict is lost": {func(e *Evidence) {
			e.Store.Callbacks[7].Conflicts = 0
		}, Lost, "B", "has 0 conflicts; 1 were sent and 1 acknowledged"},
		"a resource stays with its owner": {func(e *Evidence) {
			e.Store.Resources[1].Owner = "A"
		}, Lost, "A", "station/S1 is still A's"},
		"an effect has two ids": {func(e *Evidence) {
			e.arrive(9, "w-b-2", "tell-wms", "B", "", 0)
		}, Doubled, "B", "tell-wms of B arrived under two ids, w-b and w-b-2"},
		"an effect comes out of nothing": {func(e *Evidence) {
			e.arrive(9, "x", "release-station", "B", "station/S9", 1)
		}, Doubled, "B", "release-station station/S9 of B arrived, and nothing explains it"},
		"a destination counts what was never sent": {func(e *Evidence) {
			e.Sightings = append(e.Sightings, Sighting{At: at(9), Destination: "wms", ID: "made-up",
				Name: "tell-wms", Task: "B", Payload: "{}"})
		}, Doubled, "B", "which the server does not know"},
		"a callback is applied twice": {func(e *Evidence) {
			b := e.Store.Tasks["B"]
			b.History = slices.Insert(b.History, 2, b.History[1])
		}, Doubled, "B", "b2 updateSeq was applied twice"},
		"a callback is stored twice": {func(e *Evidence) {
			e.Store.Callbacks = append(e.Store.Callbacks, e.Store.Callbacks[2])
		}, Doubled, "B", "b2 updateSeq is in the store twice"},
		"more repeats are counted than were sent": {func(e *Evidence) {
			e.Store.Callbacks[7].Duplicates = 3
		}, Doubled, "B", "b4 finish has 3 duplicates, and 2 were sent"},
		"two owners at the same time": {func(e *Evidence) {
			e.Store.Tasks["B"].History[0].At = at(2)
		}, TwoOwners, "B", "roadway/R1 was A's and B's at the same time"},
		"two owners with one fence": {func(e *Evidence) {
			e.Sightings[4].Fence = 1
		}, TwoOwners, "B", "roadway/R1 was A's and B's with the same fence 1"},
		"a roadway is given on while it is locked outside": {func(e *Evidence) {
			e.Sightings[0].At = at(4).Add(time.Second)
		}, TwoOwners, "B", "was given to B before the unlock-roadway of A had arrived"},
		"an owner that nobody saw": {func(e *Evidence) {
			e.Store.Resources[0].Fence = 3
		}, TwoOwners, "", "had 2 owners by the tasks' histories, and its fence is 3"},
		"unlocks in the wrong order": {func(e *Evidence) {
			e.Sightings[0], e.Sightings[4] = e.Sightings[4], e.Sightings[0]
		}, Order, "A", "unlock-roadway roadway/R1 of A arrived with fence 1 after fence 2"},
		"events in the wrong order": {func(e *Evidence) {
			h := e.Store.Tasks["B"].History
			h[1], h[2] = h[2], h[1]
		}, Order, "B", "the history lacks b2 updateSeq where it had to be applied"},
		"effects of one task overtake each other": {func(e *Evidence) {
			e.Sightings[3], e.Sightings[5] = e.Sightings[5], e.Sightings[3]
		}, Order, "B", "tell-wms of B arrived before tell-progress 7 of B, which was earlier"},
		"a progress never arrived": {func(e *Evidence) {
			e.Sightings = slices.Delete(e.Sightings, 3, 4)
		}, Lost, "B", "tell-progress 7 of B never arrived"},
		"a progress tells another number": {func(e *Evidence) {
			e.Sightings[3].Seq = 8
		}, Doubled, "B", "tell-progress 8 of B arrived, and nothing explains it"},
		"an alarm of a task that did not stand still": {func(e *Evidence) {
			e.arrive(9, "alarm-b", Alarm, "B", "", 0)
		}, Doubled, "B", "task-stands-still of B arrived, and nothing explains it"},
		"another final state": {func(e *Evidence) {
			e.Store.Tasks["A"].State = "unloaded"
		}, Difference, "A", "the task is unloaded, and should be finished"},
		"another field": {func(e *Evidence) {
			e.Store.Tasks["B"].Fields["seq"] = "3"
		}, Difference, "B", "the task's fields are "},
		"another end of a callback": {func(e *Evidence) {
			e.Store.Callbacks[5].State, e.Store.Callbacks[5].Error = "stale", "it was late"
		}, Difference, "A", "a3 finishFE is stale, and should be done (it was late)"},
		"another content under one id": {func(e *Evidence) {
			e.Sightings[6].Payload = `{"n":2}`
		}, Difference, "A", "came with other content"},
		"another id in the payload": {func(e *Evidence) {
			e.Sightings[5].PayloadID = "w-c"
		}, Difference, "B", "the id of tell-wms of B is w-b, and its payload says w-c"},
		"another line in the history": {func(e *Evidence) {
			e.Store.Tasks["A"].History[1].To = "running"
		}, Difference, "A", `the history says station: "running" to "running"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := right()
			c.spoil(e)
			r := Judge(e)
			found := slices.ContainsFunc(r.Faults, func(f Fault) bool {
				return f.Kind == c.kind && f.Task == c.task && strings.Contains(f.Text, c.says)
			})
			if !found || r.OK() {
				t.Errorf("want %s of task %q: %s; found %+v", c.kind, c.task, c.says, r.Faults)
			}
			if c.task != "" && len(r.Trace(c.task)) < 8 {
				t.Errorf("the story of task %s is short: %q", c.task, r.Trace(c.task))
			}
		})
	}
}

func TestATraceTellsWhatWasSentAndAnswered(t *testing.T) {
	t.Parallel()
	e := right()
	e.Store.Tasks["B"].State = "running"
	got := strings.Join(Judge(e).Trace("B"), "\n")
	for _, want := range []string{
		"b1 startFE roadway=R1 robot=AGV-1 → 200  (first)",
		"b2 updateSeq seq=7 → 200  (first)",
		"b4 finish → timed out  (again)",
		"b4 finish (changed) → 200  (changed)",
		"b3 finishFE: done",
		"effect unlock-roadway roadway/R1 of B",
		"the server says: running",
		"finishFE: running → unloaded",
		"unlock-roadway roadway/R1  id u-b fence 2",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
}
