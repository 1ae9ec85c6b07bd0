package flow

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once/queue"
)

// TestRandomOperations lets robots, effects, clocks and people do what they like, and looks after
// each step whether what is promised holds. ONCE_SEED repeats a run.
func TestRandomOperations(t *testing.T) {
	seeds := 60
	first := uint64(time.Now().UnixNano())
	if s := os.Getenv("ONCE_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, seeds = n, 1
	}
	reached := map[string]int{} // how often a callback came to an end, by state and cause
	for i := range seeds {
		seed := first + uint64(i)
		for _, people := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed=%d,people=%v", seed, people), func(t *testing.T) {
				newChaos(t, seed, people).run(400, reached)
			})
		}
	}
	for _, want := range []string{"done", "stale", "dead illegal", "dead waited", "dead circle",
		"discarded", "woken for a resource"} {
		if seeds > 1 && reached[want] == 0 {
			t.Errorf("no callback of any run was %s: the run says nothing about it", want)
		}
	}
}

type chaos struct {
	*model
	rnd    *rand.Rand
	people bool
	posted int
	moved  map[owner]bool
	fences map[ref]int64
	owners map[ref]owner
}

func newChaos(t *testing.T, seed uint64, people bool) *chaos {
	kinds := append(plant(), ResourceKind{Kind: "door",
		OnRelease: []Effect{sent("door-open", "plant"), sent("door-lamp", "lamps")}})
	if seed%2 == 0 {
		kinds[0].AtOnce = true
	}
	m := newModel(t, []*Machine{robots(), lift()}, kinds)
	m.skipWoken = seed%3 == 0
	return &chaos{model: m,
		rnd: rand.New(rand.NewPCG(seed, 7)), people: people, moved: map[owner]bool{},
		fences: map[ref]int64{}, owners: map[ref]owner{}}
}

func (c *chaos) run(steps int, reached map[string]int) {
	for range steps {
		c.operate()
		c.check()
	}
	c.work()
	c.check()
	c.settled()
	c.drain()
	for _, r := range c.rows {
		if r.Kind == queue.Callback {
			reached[strings.TrimSpace(string(r.State)+" "+string(r.DeadCause))]++
		}
	}
	reached["woken for a resource"] += c.handed
}

func (c *chaos) pick(names ...string) string { return names[c.rnd.IntN(len(names))] }

func (c *chaos) operate() {
	switch n := c.rnd.IntN(20); {
	case n < 7:
		c.postSome()
	case n < 14:
		if due := c.due(); len(due) > 0 {
			c.step(due[c.rnd.IntN(len(due))])
		}
	case n < 16:
		if e := c.pendingEffects(""); len(e) > 0 {
			c.ack(e[c.rnd.IntN(len(e))])
		}
	case n < 17:
		c.pass(time.Duration(c.rnd.IntN(40)) * time.Minute)
	case n < 18:
		c.work()
		c.settled()
	case c.people:
		c.person()
	}
}

func (c *chaos) postSome() {
	c.posted++
	key := strconv.Itoa(c.posted)
	if c.rnd.IntN(5) == 0 && c.posted > 1 { // sent again, as it was or under a new key
		key = strconv.Itoa(1 + c.rnd.IntN(c.posted-1))
	}
	area := c.pick("A", "B", "C", "")
	b := map[string]any{"n": int64(c.rnd.IntN(6)), "seq": strconv.Itoa(c.rnd.IntN(12))}
	if c.rnd.IntN(3) == 0 {
		c.lift(key, area, b)
		return
	}
	b["roadway"], b["currentPositionCode"] = area, c.pick("S1", "S2")
	task := c.pick("T1", "T2", "T3", "T4")
	c.post("transport", task, c.pick("startFE", "startFE", "station", "updateSeq", "finishFE",
		"finish", "cancel"), key, b)
}

func (c *chaos) lift(key, area string, b map[string]any) {
	b["shaft"], b["via"] = area, c.pick("A", "B", "C")
	b["n"] = int64(c.posted)
	if c.rnd.IntN(4) == 0 {
		b["n"] = int64(c.rnd.IntN(c.posted))
	}
	event := c.pick("up", "up", "down", "down", "hop", "hop", "drop", "leave")
	if event == "leave" && c.rnd.IntN(3) > 0 {
		event = "up"
	}
	c.post("lift", c.pick("L1", "L2", "L3"), event, key, b)
}

func (c *chaos) person() {
	by := queue.Action{Actor: "ann", Reason: "test"}
	kind, name := "roadway", c.pick("A", "B", "C")
	flow, task := "transport", c.pick("T1", "T2", "T3", "T4")
	var s queue.Settlement
	var err error
	switch c.rnd.IntN(4) {
	case 0:
		s, err = c.e.ReleaseResource(c.model, kind, name, by)
	case 1:
		s, err = c.e.TransferResource(c.model, kind, name, flow, task, by)
	case 2:
		s, err = c.e.Move(c.model, flow, task, c.pick("created", "running", "at_station",
			"finished"), by)
		c.moved[owner{flow, task}] = true
	default:
		c.discard()
		return
	}
	if err == nil {
		c.apply(s)
	}
}

// discard gives a waiting row up, as a store does it.
func (c *chaos) discard() {
	for _, r := range c.rows {
		if r.State == queue.Parked && c.rnd.IntN(3) == 0 {
			waits := r.Waits
			r.State, r.Waits = queue.Discarded, nil
			for _, w := range waits {
				c.wake(queue.Wake{Wait: w, First: true})
			}
			return
		}
	}
}

// check holds what is true at every moment.
func (c *chaos) check() {
	c.t.Helper()
	freeing := map[string]int{}
	for _, r := range c.rows {
		if r.Kind == queue.Effect && r.Frees && r.State == queue.Pending {
			freeing[r.Resource+"|"+r.Key[1]]++
		}
	}
	for at, r := range c.resources {
		if r.Fence < c.fences[at] {
			c.t.Fatalf("fence of %v fell from %d to %d", at, c.fences[at], r.Fence)
		}
		o := owner{r.Flow, r.Task}
		if before := c.owners[at]; r.Fence == c.fences[at] && o.task != "" && before != o {
			c.t.Fatalf("%v has the owners %v and %v under fence %d", at, before, o, r.Fence)
		}
		c.fences[at] = r.Fence
		c.owners[at] = o
		want := freeing[at.String()+"|"+strconv.FormatInt(r.Fence, 10)]
		if r.Freeing > 0 && r.Freeing != want {
			c.t.Fatalf("%v waits for %d effects, %d are under way", at, r.Freeing, want)
		}
		if t := c.tasks[o]; r.Freeing == 0 && o.task != "" && t.Final {
			c.t.Fatalf("%v is owned by %v, which is %s", at, o, t.State)
		}
	}
	for at, task := range c.tasks {
		for event, taken := range task.Taken {
			if n := c.applied[at.flow+"|"+at.task+"|"+event]; n != taken.Count {
				c.t.Fatalf("%v counts %s %d times, %d callbacks are done", at, event,
					taken.Count, n)
			}
			once := at.flow == "transport" && event != "updateSeq" && !c.moved[at]
			if once && taken.Count > 1 {
				c.t.Fatalf("%v took %s %d times", at, event, taken.Count)
			}
		}
	}
}

// settled holds when no callback is due: nobody sleeps in front of what could be done.
func (c *chaos) settled() {
	c.t.Helper()
	for _, r := range c.rows {
		if r.State != queue.Parked {
			continue
		}
		s, err := c.e.Decide(c.model, *r)
		if err != nil {
			c.t.Fatal(err)
		}
		// Of several taken resources a callback waits for the first alone. A circle over another
		// one is found when it comes to that; one over its wait must have been found.
		later := s.DeadCause == queue.CauseCircle && !c.circular(r)
		if s.State != queue.Parked && !later {
			c.t.Fatalf("row %d (%s of %s, %s) sleeps, but would be %s: %s", r.Seq, r.Event, r.Task,
				r.Error, s.State, s.Error)
		}
		for _, w := range r.Waits {
			at, ok := waitedRef(w)
			if res := c.resources[at]; ok && res.Free() {
				c.t.Fatalf("row %d (%s of %s) sleeps in front of %s, which is free", r.Seq, r.Event,
					r.Task, at)
			}
		}
	}
}

// circular reports whether a row's wait leads back to its own task.
func (c *chaos) circular(r *queue.Row) bool {
	seen := map[owner]bool{}
	todo := slices.Clone(r.Waits)
	for len(todo) > 0 {
		at, ok := waitedRef(todo[0])
		todo = todo[1:]
		res := c.resources[at]
		o := owner{res.Flow, res.Task}
		if !ok || res.Freeing > 0 || o.task == "" || seen[o] {
			continue
		}
		if o == (owner{r.Flow, r.Task}) {
			return true
		}
		seen[o] = true
		waits, _ := c.WaitsOf(o.flow, o.task)
		todo = append(todo, waits...)
	}
	return false
}

// drain acknowledges everything and lets all limits pass: then nothing is left waiting.
func (c *chaos) drain() {
	c.t.Helper()
	for range 10_000 {
		if e := c.pendingEffects(""); len(e) > 0 {
			c.ack(e[0])
		} else if c.parked() == 0 {
			break
		} else {
			c.pass(25 * time.Hour)
		}
		c.work()
		c.check()
		c.settled()
	}
	if n := c.parked(); n > 0 {
		c.t.Fatalf("%d callbacks are parked for ever", n)
	}
	ids := map[string]bool{}
	for _, r := range c.rows {
		if r.Kind != queue.Effect {
			continue
		}
		var p payload
		if err := json.Unmarshal(r.Body, &p); err != nil {
			c.t.Fatal(err)
		}
		if p.ID != r.ID() || ids[p.ID] {
			c.t.Fatalf("effect %s carries the id %s", r.ID(), p.ID)
		}
		ids[p.ID] = true
	}
}

func (c *chaos) parked() (n int) {
	for _, r := range c.rows {
		if r.State == queue.Parked {
			n++
		}
	}
	return n
}
