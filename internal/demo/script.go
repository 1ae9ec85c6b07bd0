package demo

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/oncekit/once/internal/demo/model"
)

// move is one event of a robot, and how it is sent.
type move struct {
	*model.Callback
	// extra copies are sent at the same moment.
	extra int
	// cut lets the first try end before its answer.
	cut bool
	// change sends another content under the same key afterwards.
	change bool
}

// layout is what robots share.
type layout struct {
	// run tells the tasks of one run from those of another.
	run      string
	roadways int // few, so that tasks wait for each other
	stations int
}

func newLayout(robots int, run string) layout {
	return layout{run: run, roadways: max(2, robots/3), stations: max(3, robots)}
}

// copiesMean is the mean number of requests per callback, by the odds below: 0.96 more at the same
// moment, 0.025 changed, and a few hours late. So half of all requests are repeats.
const copiesMean = 2.0

// script is what a robot's controller sends for one task, in this order. However it is shuffled,
// the task comes to its end, so that no roadway is taken for ever. Everything is drawn from rng.
func script(rng *rand.Rand, l layout, robot, n int) []*move {
	task := fmt.Sprintf("T%s-%d-%d", l.run, robot+1, n+1)
	name := fmt.Sprintf("AGV-%d", robot+1)
	made := 0
	event := func(what string) *model.Callback {
		made++
		return &model.Callback{Request: fmt.Sprintf("R%s-%d-%d-%d", l.run, robot+1, n+1, made),
			Task: task, Event: what, Robot: name}
	}
	if rng.IntN(40) == 0 { // its robot is switched off again: this never starts
		cb := event("updateSeq")
		cb.Seq, cb.Early = 1, true
		return dress(rng, []*model.Callback{cb})
	}
	start := event("startFE")
	start.Roadway = fmt.Sprintf("R%d", 1+rng.IntN(l.roadways))
	list := []*model.Callback{start}
	progress := func() {
		cb := event("updateSeq")
		cb.Seq = rng.IntN(50)
		list = append(list, cb)
	}
	for range 1 + rng.IntN(2) {
		progress()
	}
	if rng.IntN(2) == 0 {
		cb := event("station")
		cb.Station = fmt.Sprintf("S%d", 1+rng.IntN(l.stations))
		list = append(list, cb)
		progress()
	}
	list = append(list, event("finishFE"), event("finish"))
	if rng.IntN(10) == 0 { // cancelled on the way; what comes later is stale
		list = slices.Insert(list, 1+rng.IntN(len(list)-1), event("cancel"))
	}
	if rng.IntN(12) == 0 { // the controller says it again, as a new request
		again := event("startFE")
		again.Roadway = start.Roadway
		if rng.IntN(2) == 0 {
			again = event("finishFE")
		}
		list = append(list, again)
	}
	if rng.IntN(30) == 0 { // nothing is declared for it
		list = append(list, event("charge"))
	}
	reorder(rng, list)
	return dress(rng, list)
}

// reorder lets some events of a task overtake those before them, and marks them.
func reorder(rng *rand.Rand, list []*model.Callback) {
	if rng.IntN(4) != 0 {
		return
	}
	at := 0               // something before the start
	if rng.IntN(2) == 0 { // the end before the last step
		at = slices.IndexFunc(list, func(c *model.Callback) bool { return c.Event == "finishFE" })
	}
	if at > 0 && list[at+1].Event != "finish" {
		return // a cancel stands between
	}
	list[at], list[at+1] = list[at+1], list[at]
	list[at].Early = true
}

// dress says how each callback is sent.
func dress(rng *rand.Rand, list []*model.Callback) []*move {
	var out []*move
	for _, cb := range list {
		m := &move{Callback: cb, cut: rng.IntN(15) == 0, change: rng.IntN(40) == 0}
		switch n := rng.IntN(100); {
		case n < 10:
			m.extra = 3
		case n < 28:
			m.extra = 2
		case n < 58:
			m.extra = 1
		}
		out = append(out, m)
	}
	return out
}
