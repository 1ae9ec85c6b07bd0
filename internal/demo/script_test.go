package demo

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// scripts are the first tasks of a robot.
func scripts(seed uint64, n int) (out [][]*move) {
	rng := rand.New(rand.NewPCG(seed, 1000))
	for i := range n {
		out = append(out, script(rng, newLayout(20, "1"), 0, i))
	}
	return out
}

func TestTheSameSeedMakesTheSameScriptsAndFaults(t *testing.T) {
	t.Parallel()
	if !reflect.DeepEqual(scripts(7, 200), scripts(7, 200)) {
		t.Error("scripts differ")
	}
	if reflect.DeepEqual(scripts(7, 200), scripts(8, 200)) {
		t.Error("scripts of two seeds are the same")
	}
	if !reflect.DeepEqual(plan(7, time.Minute), plan(7, time.Minute)) {
		t.Error("plans differ")
	}
	if reflect.DeepEqual(plan(7, time.Minute), plan(8, time.Minute)) {
		t.Error("plans of two seeds are the same")
	}
}

func TestScriptsHaveAllThatIsPromisedAndComeToAnEnd(t *testing.T) {
	t.Parallel()
	seen, keys, sends, callbacks := map[string]int{}, map[string]bool{}, 0, 0
	for _, list := range scripts(3, 4000) {
		ends := list[0].Event == "updateSeq" && len(list) == 1 // it never starts
		for i, m := range list {
			key := m.Request + m.Task + m.Event
			if keys[key] {
				t.Fatalf("%s comes twice", key)
			}
			keys[key] = true
			ends = ends || m.Event == "finish" || m.Event == "cancel"
			callbacks++
			sends += 1 + m.extra
			seen[m.Event]++
			for what, is := range map[string]bool{
				"early": m.Early, "cut": m.cut, "change": m.change, "repeats": m.extra > 0,
				"an early end": m.Early && m.Event == "finish", "an early first": m.Early && i == 0,
				"a second start": i > 1 && m.Event == "startFE",
			} {
				if is {
					seen[what]++
				}
			}
		}
		if !ends {
			t.Fatalf("a task without an end: %+v", list)
		}
	}
	for _, what := range []string{"startFE", "station", "updateSeq", "finishFE", "finish", "cancel",
		"charge", "early", "cut", "change", "repeats", "an early end", "an early first",
		"a second start"} {
		if seen[what] < 20 {
			t.Errorf("%s: %d times", what, seen[what])
		}
	}
	// With changed ones and late ones this is half of all.
	if mean := float64(sends) / float64(callbacks); mean < 1.9 || mean > 2.02 {
		t.Errorf("%.2f requests a callback, want a little less than 2", mean)
	}
}

func TestAPlanHasAllFaultsAndStaysInItsBounds(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{MinDuration, 4 * time.Second, 30 * time.Second, time.Minute,
		10 * time.Minute, MaxDuration} {
		for seed := range uint64(20) {
			t.Run(fmt.Sprint(d, " ", seed), func(t *testing.T) { checkPlan(t, plan(seed, d), d) })
		}
	}
}

func checkPlan(t *testing.T, list []disturbance, d time.Duration) {
	n := map[string]int{}
	var shift, last time.Duration
	busy := map[string]time.Duration{}
	for _, x := range list {
		n[x.kind]++
		shift += x.jump
		if x.jump > 0 {
			n["jump"]++
		}
		if x.at < last || x.at < d/10 || x.at > d*9/10 {
			t.Errorf("%+v is out of place", x)
		}
		last = x.at
		if x.of != "" {
			if x.at < busy[x.of] {
				t.Errorf("%+v begins before the last one of %s is over", x, x.of)
			}
			busy[x.of] = x.at + x.lasts
			n["of "+x.of]++
		}
	}
	if shift > maxShift {
		t.Errorf("the clock is put forward by %v", shift)
	}
	want := []string{kill, "jump", "of " + wms, "of " + plant}
	if d >= 30*time.Second {
		want = append(want, freeze, failing, hanging, away)
	}
	for _, what := range want {
		if n[what] == 0 {
			t.Errorf("no %s", what)
		}
	}
	if n[kill] < 2 {
		t.Errorf("%d kills, want 2 or more", n[kill])
	}
	if !slices.IsSortedFunc(list, func(a, b disturbance) int { return int(a.at - b.at) }) {
		t.Error("the plan is not in order")
	}
}
