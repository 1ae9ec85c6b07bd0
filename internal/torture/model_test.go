package torture_test

import "slices"

// task is the model of one task: what the robots' flow means, written down once more by hand.
type task struct {
	name    string
	state   string // empty: nobody knows it yet
	seq     int    // the highest that was applied; -1: none
	roadway string
	taken   map[string]bool
	at      string          // the station that it has
	holds   bool            // its roadway
	became  []string        // per callback: done, stale, dead, unrouted; empty: not worked
	effects map[string]bool // "effect resource"
	alarms  map[string]bool // effects that go out if a roadway was taken: that is chance
	starter int             // the callback that was applied as startFE; -1: none
}

// runTask works the callbacks of a task in the order of their acceptance. An event that comes too
// early waits until the task moves; those that waited go before those that came later.
func runTask(name string, callbacks []*callback) *task {
	k := &task{name: name, seq: -1, taken: map[string]bool{}, effects: map[string]bool{},
		alarms: map[string]bool{},
		became: make([]string, len(callbacks)), starter: -1}
	var due, waiting []int
	for i, c := range callbacks {
		if c.event == "startFE" {
			k.alarms["waits for "+c.key[0]] = true
		}
		due = append(due, i)
	}
	for len(due) > 0 {
		i := due[0]
		due = due[1:]
		before := k.state
		switch verdict := k.event(callbacks[i]); verdict {
		case "early":
			waiting = append(waiting, i)
		case "done":
			if callbacks[i].event == "startFE" {
				k.starter = i
			}
			fallthrough
		default:
			k.became[i] = verdict
		}
		if k.state != before {
			due, waiting = append(due, waiting...), nil
			slices.Sort(due)
		}
	}
	return k
}

// event applies one event, or says what it is instead.
func (k *task) event(c *callback) string {
	moving := k.state == "running" || k.state == "at_station"
	switch {
	case c.event == "charge":
		return "unrouted"
	case k.state == "finished" || k.state == "cancelled":
		return "stale"
	case k.state == "" && c.event != "startFE":
		return "early"
	}
	ok, early := false, false
	switch c.event {
	case "startFE":
		ok = k.state == ""
	case "station":
		ok = k.state == "running"
	case "updateSeq":
		n, _ := c.data("seq").(int)
		if moving && n <= k.seq {
			return "stale"
		}
		if ok = moving; ok {
			k.seq = n
		}
	case "finishFE":
		ok = moving
	case "finish":
		ok, early = k.state == "unloaded", moving
	case "cancel":
		ok = true
	}
	switch {
	case ok:
		k.apply(c)
		return "done"
	case early:
		return "early"
	case k.taken[c.event]:
		return "stale"
	}
	return "dead"
}

// apply moves the task, and notes what goes out.
func (k *task) apply(c *callback) {
	k.taken[c.event] = true
	switch c.event {
	case "startFE":
		k.state, k.holds = "running", true
		k.roadway, _ = c.data("roadway").(string)
		k.effects["lock roadway/"+k.roadway] = true
	case "station":
		k.state, k.at = "at_station", c.text("currentPositionCode")
	case "finishFE":
		k.state = "unloaded"
		k.leaveRoadway()
		k.effects["tell-wms "] = true
	case "finish":
		k.state = "finished"
		k.effects["whistle "] = true
		k.leaveStation()
	case "cancel":
		k.state = "cancelled"
		k.leaveRoadway()
		k.leaveStation()
	}
}

func (k *task) leaveRoadway() {
	if k.holds {
		k.effects["unlock roadway/"+k.roadway] = true
	}
	k.holds = false
}

func (k *task) leaveStation() {
	if k.at != "" {
		k.effects["leave station/"+k.at] = true
	}
	k.at = ""
}
