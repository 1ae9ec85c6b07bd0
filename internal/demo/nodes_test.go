package demo

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// The disturbances of nodes on one PostgreSQL.
const (
	killed     = "node killed"
	rolled     = "node ended in order and started"
	thawed     = "node frozen for longer than its lease"
	cutOff     = "connections cut in mid-statement"
	restarted  = "PostgreSQL restarted"
	crashed    = "PostgreSQL crashed"
	lateFenced = "late send refused by its fence"
)

// disturbancesOfNodes are those that come one after the other; a frozen node stands beside them.
func disturbancesOfNodes() []string {
	return []string{killed, killed, rolled, cutOff, cutOff, restarted, crashed}
}

// Three nodes on one PostgreSQL: each acknowledged callback is worked once and in order, each
// effect comes under one id, however nodes die, freeze and are cut off, whatever their clocks say.
func TestNodesOnOnePostgreSQLLoseAndDoubleNothingHoweverTheyAreDisturbed(t *testing.T) {
	seed, long := runOfNodes(t)
	t.Logf("ONCE_SEED=%d ONCE_NODES_FOR=%v", seed, long)
	begun := time.Now()
	f := newFleet(t, seed)
	f.checkClocks()
	t.Logf("started after %v", time.Since(begun).Round(time.Millisecond))
	finish := f.load()
	f.disturb(long)
	t.Logf("disturbed after %v: %v", time.Since(begun).Round(time.Millisecond), f.counts)
	if t.Failed() {
		t.FailNow()
	}
	f.settle()
	finish()
	f.drain(long)
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("drained after %v", time.Since(begun).Round(time.Millisecond))
	select {
	case err := <-f.play.failed:
		t.Fatal(err)
	default:
	}
	r := f.judge()
	f.checkStore()
	f.checkFences()
	t.Logf("%d requests for %d callbacks of %d tasks, %d unanswered; %d effects, %d repeated",
		r.Sent, r.Accepted, r.Tasks, r.Unanswered, r.Seen, r.Repeated)
	for _, kind := range append(disturbancesOfNodes(), thawed, lateFenced) {
		if f.counts[kind] == 0 {
			t.Errorf("none of: %s", kind)
		}
	}
	for _, n := range f.nodes {
		f.endInOrder(n)
	}
	t.Logf("over after %v", time.Since(begun).Round(time.Millisecond))
}

// runOfNodes reads what is wanted from the environment; 0: a short run.
func runOfNodes(t *testing.T) (seed uint64, long time.Duration) {
	t.Helper()
	seed = rand.Uint64()
	var err error
	if text := os.Getenv("ONCE_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("ONCE_SEED: %v", err)
		}
	}
	if text := os.Getenv("ONCE_NODES_FOR"); text != "" {
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatalf("ONCE_NODES_FOR: %v", err)
		}
	}
	return seed, long
}

// disturb makes each disturbance at least once, and goes on for so long.
func (f *fleet) disturb(long time.Duration) {
	rng := rand.New(rand.NewPCG(f.seed, 1))
	end := time.Now().Add(long)
	var frozen sync.WaitGroup
	frozen.Go(func() {
		rng := rand.New(rand.NewPCG(f.seed, 2))
		for {
			f.freeze(f.nodes[rng.IntN(len(f.nodes))])
			if f.t.Failed() || time.Now().After(end) ||
				!pause(f.ctx, time.Duration(rng.IntN(10_000))*time.Millisecond) {
				return
			}
		}
	})
	defer frozen.Wait()
	for {
		list := disturbancesOfNodes()
		rng.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
		for _, kind := range list {
			longest := 1500
			if long > 0 { // or nobody would ever live long enough to notice who doesn't
				longest = 5000
			}
			pause(f.ctx, time.Duration(200+rng.IntN(longest))*time.Millisecond)
			f.disturbOnce(kind, rng)
			if f.t.Failed() {
				return
			}
		}
		if !time.Now().Before(end) {
			return
		}
	}
}

// disturbOnce makes one disturbance and waits until it has happened.
func (f *fleet) disturbOnce(kind string, rng *rand.Rand) {
	switch kind {
	case restarted, crashed:
		if kind == restarted {
			f.pg.Stop()
		} else {
			f.pg.Kill()
		}
		pause(f.ctx, time.Duration(rng.IntN(500))*time.Millisecond)
		if err := f.pg.Start(); err != nil {
			f.t.Errorf("start PostgreSQL: %v", err)
			return
		}
		f.count(kind)
		return
	}
	n := f.free(rng)
	defer n.busy.Unlock()
	if err := n.lived(); err != nil {
		f.t.Error(err)
		return
	}
	switch kind {
	case killed:
		n.current().Kill()
		pause(f.ctx, time.Duration(rng.IntN(500))*time.Millisecond)
		f.start(n)
	case rolled:
		f.endInOrder(n)
		f.start(n)
	case cutOff:
		bytes := int64(1 + rng.IntN(3000))
		before := n.proxy.Forwarded()
		n.proxy.CutAfter(bytes)
		f.until("a node is cut off", func() bool { return n.proxy.Forwarded() >= before+bytes })
	}
	f.count(kind)
}

// free picks a node that nobody disturbs. The caller has to unlock it.
func (f *fleet) free(rng *rand.Rand) *node {
	for {
		n := f.nodes[rng.IntN(len(f.nodes))]
		if n.busy.TryLock() {
			return n
		}
	}
}

func (f *fleet) count(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[kind]++
}

// freeze stops a node with an effect on its way until the others have taken its work, done that
// very effect, and a later owner of its roadway or station has come. Then the effect arrives, and
// the node goes on.
func (f *fleet) freeze(n *node) {
	n.busy.Lock()
	defer n.busy.Unlock()
	trap := n.gate.set()
	released := false
	defer func() {
		n.wake()
		if !released {
			close(trap.release)
		}
	}()
	var s lateSend
	if !f.until("a node sends an effect", func() bool {
		select {
		case s = <-trap.caught:
			return true
		default:
			return false
		}
	}) {
		return
	}
	name := fmt.Sprintf("%%-%d-%%", n.current().PID())
	taken := f.until("a frozen node is given up", func() bool {
		var listed int
		return f.ask(&listed, "SELECT count(*) FROM once.queue_nodes WHERE node LIKE $1", name) &&
			listed == 0
	})
	if !taken || !f.until("a later owner is seen", func() bool { return f.fences.passed(s) }) {
		return
	}
	n.wake()
	close(trap.release)
	released = true
	<-trap.over
	f.count(thawed)
	if f.fences.late(s) {
		f.count(lateFenced)
	}
	if err := n.lived(); err != nil {
		f.t.Error(err)
	}
}

// checkFences looks at what the plant made of the effects.
func (f *fleet) checkFences() {
	f.fences.mu.Lock()
	defer f.fences.mu.Unlock()
	for _, w := range f.fences.wrong {
		f.t.Error(w)
	}
	var ids []string
	for id := range f.fences.done {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	if stored := f.plantEffects(); !slices.Equal(ids, stored) {
		f.t.Errorf("the plant did %d effects, and %d are stored as done", len(ids), len(stored))
	}
	f.t.Logf("%d late sends refused", len(f.fences.refused))
}
