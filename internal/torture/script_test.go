package torture_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// roadways are few, so that tasks wait for each other.
const roadways = 6

// taskScript is what one task's robot and its controller send, in groups: what is in one group is
// sent at the same moment, and the next one when all of it was acknowledged. However it is
// shuffled, the task comes to its end, so that no roadway is taken for ever.
func taskScript(rng *rand.Rand, task string) [][]*callback {
	n := 0
	make1 := func(event string, data map[string]any) *callback {
		n++
		return robotCallback(task, event, n, data)
	}
	road := map[string]any{"roadway": fmt.Sprintf("R%d", rng.IntN(roadways))}
	seq := func() *callback {
		return make1("updateSeq", map[string]any{"seq": rng.IntN(50)})
	}
	list := []*callback{make1("startFE", road)}
	for range rng.IntN(3) {
		list = append(list, seq())
	}
	if rng.IntN(2) == 0 {
		list = append(list, make1("station", nil), seq())
	}
	list = append(list, make1("finishFE", nil), make1("finish", nil))
	if rng.IntN(5) == 0 { // cancelled on the way; what comes later is stale
		at := rng.IntN(len(list))
		list = slices.Insert(list, at, make1("cancel", nil))
	}
	if rng.IntN(8) == 0 { // the controller repeats it as a new request
		again := []*callback{make1("startFE", road), make1("finishFE", nil)}[rng.IntN(2)]
		list = slices.Insert(list, rng.IntN(len(list)+1), again)
	}
	if rng.IntN(20) == 0 { // nothing is declared for it
		list = append(list, make1("charge", nil))
	}
	switch rng.IntN(4) {
	case 0: // anything before anything
		rng.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
	case 1: // two neighbours
		at := rng.IntN(len(list) - 1)
		list[at], list[at+1] = list[at+1], list[at]
	}
	return groups(rng, list)
}

// groups lets a fifth of the callbacks go out together with the one before.
func groups(rng *rand.Rand, list []*callback) [][]*callback {
	var out [][]*callback
	for _, c := range list {
		if len(out) > 0 && rng.IntN(5) == 0 {
			out[len(out)-1] = append(out[len(out)-1], c)
		} else {
			out = append(out, []*callback{c})
		}
		c.group = len(out)
	}
	return out
}

// plainScript is a few callbacks of a source that is not worked by the robots' flow. All of one
// line come from one sender, so that round numbers its groups.
func plainScript(rng *rand.Rand, sender, round int) [][]*callback {
	var list [][]*callback
	for i := range 1 + rng.IntN(6) {
		id := fmt.Sprintf("%d-%d-%d", sender, round, i)
		var c *callback
		switch round % 3 {
		case 0:
			c = plainCallback("meters", "read", id, "meter", fmt.Sprintf("M%d-%d", sender, i%2),
				1+rng.IntN(9))
		case 1:
			c = plainCallback("orders", "placed", id, "order", fmt.Sprintf("O%d", sender), i)
		default:
			c = plainCallback("lamps", "light", id, "", id, i)
		}
		c.group = round*10 + i
		list = append(list, []*callback{c})
	}
	return list
}
