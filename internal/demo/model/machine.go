package model

import (
	"slices"
	"strconv"
)

// What becomes of a callback. These are the server's words, so that they can be compared.
const (
	done     = "done"
	stale    = "stale"
	dead     = "dead"
	parked   = "parked"
	unrouted = "unrouted"
)

// The states of a task. One that nobody started has none.
const (
	unknown   = ""
	running   = "running"
	atStation = "at_station"
	unloaded  = "unloaded"
	finished  = "finished"
	cancelled = "cancelled"
)

// step is one applied callback.
type step struct {
	callback int
	from, to string
	effects  []effect // that it makes
}

// life is what has to come of a task.
type life struct {
	task    string
	list    []*Callback
	state   string
	fields  map[string]string // as JSON
	taken   map[string]bool   // events that were applied
	holds   []string          // resources, in the order in which they were taken
	became  []string          // per callback
	steps   []step
	effects []effect
	// stuck are callbacks that wait for a resource to the end.
	stuck []int
	// problem is the first place where the history can't be right; empty: there is none.
	problem string
	seq     int // the highest that was applied; -1: none

	due, early, blocked []int
	history             []int // callbacks in the order in which the server applied them
}

// follow works the callbacks of a task in the order of their acceptance. history is the order in
// which the server applied them. It decides one thing: when a callback got the resource that it
// wanted. Everything else has to follow from the rules.
func follow(task string, list []*Callback, history []int) *life {
	k := &life{task: task, list: list, fields: map[string]string{}, taken: map[string]bool{},
		became: make([]string, len(list)), seq: -1, history: slices.Clone(history)}
	for i := range list {
		k.due = append(k.due, i)
	}
	for {
		if i, ok := k.granted(); ok {
			k.judge(i)
			continue
		}
		if len(k.due) == 0 {
			break
		}
		i := k.due[0]
		k.due = k.due[1:]
		k.judge(i)
	}
	k.stuck = k.blocked
	if len(k.history) > 0 && k.problem == "" {
		k.problem = "the history has " + k.name(k.history[0]) + " applied, which can't be"
	}
	return k
}

func (k *life) name(i int) string {
	if i < 0 {
		return "an unknown callback"
	}
	return k.list[i].Name()
}

// granted takes a callback out of those that wait for a resource, if the history goes on with it.
func (k *life) granted() (int, bool) {
	if len(k.history) == 0 {
		return 0, false
	}
	at := slices.Index(k.blocked, k.history[0])
	if at < 0 {
		return 0, false
	}
	i := k.blocked[at]
	k.blocked = slices.Delete(k.blocked, at, at+1)
	return i, true
}

// wants is the resource that a callback acquires; empty: none.
func wants(c *Callback) string {
	switch {
	case c.Event == "startFE" && c.Roadway != "":
		return "roadway/" + c.Roadway
	case c.Event == "station" && c.Station != "":
		return "station/" + c.Station
	}
	return ""
}

// judge decides about one callback.
func (k *life) judge(i int) {
	c := k.list[i]
	verdict := k.verdict(c)
	next := len(k.history) > 0 && k.history[0] == i
	if verdict == done && !next && wants(c) != "" {
		k.became[i] = parked // somebody else has what it wants
		k.blocked = append(k.blocked, i)
		slices.Sort(k.blocked)
		return
	}
	k.became[i] = verdict
	switch verdict {
	case parked:
		k.early = append(k.early, i)
	case done:
		if next {
			k.history = k.history[1:]
		} else {
			k.wrong("the history lacks " + k.name(i) + " where it had to be applied")
			k.history = slices.DeleteFunc(k.history, func(h int) bool { return h == i })
		}
		k.first(i, c)
		k.apply(i, c)
	}
}

// first checks that nobody waited longer for what a callback got.
func (k *life) first(i int, c *Callback) {
	for _, earlier := range k.blocked {
		if want := wants(c); want != "" && earlier < i && wants(k.list[earlier]) == want {
			k.wrong(k.name(i) + " got " + want + " before " + k.name(earlier) +
				", which waited longer")
		}
	}
}

func (k *life) wrong(text string) {
	if k.problem == "" {
		k.problem = text
	}
}

// verdict says what a callback is to the task as it stands.
func (k *life) verdict(c *Callback) string {
	moving := k.state == running || k.state == atStation
	switch {
	case !slices.Contains([]string{"startFE", "station", "updateSeq", "finishFE", "finish",
		"cancel"}, c.Event):
		return unrouted
	case k.state == finished || k.state == cancelled:
		return stale
	case c.Event == "startFE":
		if k.state == unknown {
			return done
		}
		return stale
	case k.state == unknown:
		return parked
	case c.Event == "station" && k.state == running, c.Event == "finishFE" && moving,
		c.Event == "finish" && k.state == unloaded, c.Event == "cancel":
		return done
	case c.Event == "updateSeq" && moving:
		if c.Seq > k.seq {
			return done
		}
		return stale
	case c.Event == "finish" && moving:
		return parked
	case k.taken[c.Event]:
		return stale
	}
	return dead
}

// apply moves the task, and notes what goes out.
func (k *life) apply(i int, c *Callback) {
	from, before := k.state, len(k.effects)
	k.taken[c.Event] = true
	if r := wants(c); r != "" {
		k.holds = append(k.holds, r)
	}
	switch c.Event {
	case "startFE":
		k.state = running
		k.set("roadway", c.Roadway)
		k.set("robot", c.Robot)
	case "station":
		k.state = atStation
		k.set("station", c.Station)
	case "updateSeq":
		k.seq, k.fields["seq"] = c.Seq, strconv.Itoa(c.Seq)
		k.effects = append(k.effects, effect{k.task, Progress, "", c.Seq})
	case "finishFE":
		k.state = unloaded
		k.release(func(r string) bool { return r == "roadway/"+k.road() })
		k.effects = append(k.effects, effect{k.task, "tell-wms", "", 0})
	case "finish":
		k.state, k.fields["finishFlag"], k.fields["jobStatus"] = finished, "true", `"finish"`
		k.release(func(string) bool { return true })
	case "cancel":
		k.state = cancelled
		k.release(func(string) bool { return true })
	}
	k.steps = append(k.steps, step{i, from, k.state, slices.Clone(k.effects[before:])})
	if k.state != from {
		k.due = slices.Concat(k.early, k.blocked, k.due)
		slices.Sort(k.due)
		k.early, k.blocked = nil, nil
	}
}

// set gives a field a text.
func (k *life) set(name, text string) { k.fields[name] = strconv.Quote(text) }

// road is the roadway that the task was started with.
func (k *life) road() string {
	text, err := strconv.Unquote(k.fields["roadway"])
	if err != nil {
		return ""
	}
	return text
}

// release gives up resources. Each has something that must happen outside before it is free.
func (k *life) release(which func(string) bool) {
	k.holds = slices.DeleteFunc(k.holds, func(r string) bool {
		if which(r) {
			k.effects = append(k.effects, effect{k.task, releaseName(r), r, 0})
			return true
		}
		return false
	})
}

// releaseName is the effect that sets a resource free.
func releaseName(resource string) string {
	if len(resource) > 8 && resource[:8] == "roadway/" {
		return "unlock-roadway"
	}
	return "release-station"
}
