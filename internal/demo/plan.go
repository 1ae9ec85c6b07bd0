package demo

import (
	"math/rand/v2"
	"slices"
	"time"
)

// The kinds of faults.
const (
	kill    = "kill"
	freeze  = "freeze"
	failing = "answers 503"
	hanging = "hangs"
	away    = "is down"
)

// disturbance is one fault that the demo makes.
type disturbance struct {
	at   time.Duration // since the start
	kind string
	// of is the destination; empty: the server.
	of string
	// lasts is how long; 0: a moment.
	lasts time.Duration
	// jump is how far the server's clock is put forward.
	jump time.Duration
}

// Bounds of what is drawn.
const (
	// killEvery and badEvery are the times between kills, and between faults of a destination.
	killEvery = 7 * time.Second
	badEvery  = 6 * time.Second
	// maxShift bounds the sum of the jumps: well below the retention of a week, and below the
	// limits of waiting in the demo's configuration.
	maxShift = 60 * time.Hour
	// frozen is how long the server stands still: longer than a sender waits.
	frozen = 1500 * time.Millisecond
)

// plan draws the faults of a run, in order of time. The last tenth of it is calm.
func plan(seed uint64, d time.Duration) []disturbance {
	rng := rand.New(rand.NewPCG(seed, 1))
	var out []disturbance
	kills := min(max(2, int(d/killEvery)), 200)
	var shift time.Duration
	for i := range kills {
		k := disturbance{kind: kill, at: slot(rng, d, i, kills)}
		if i%2 == 0 { // beginning with the first: what came before it can be repeated late
			k.jump = time.Duration(3+rng.IntN(18)) * time.Hour
			if shift+k.jump > maxShift {
				k.jump = 0
			}
			shift += k.jump
		}
		out = append(out, k)
	}
	for i := range int(d / (20 * time.Second)) {
		out = append(out, disturbance{kind: freeze, at: slot(rng, d, i, int(d/(20*time.Second))),
			lasts: frozen})
	}
	return sorted(append(out, badDestinations(rng, d)...))
}

// slot is a moment in the ith of n equal parts of the part of the run that is disturbed.
func slot(rng *rand.Rand, d time.Duration, i, n int) time.Duration {
	const from, to = 0.1, 0.88
	part := (to - from) / float64(n)
	return time.Duration(float64(d) * (from + part*(float64(i)+0.15+0.7*rng.Float64())))
}

// badDestinations draws the faults of the destinations: one at a time of each, all kinds in turn.
func badDestinations(rng *rand.Rand, d time.Duration) []disturbance {
	n := min(max(2, int(d/badEvery)), 200)
	kinds := []string{failing, hanging, away}
	rng.Shuffle(len(kinds), func(i, k int) { kinds[i], kinds[k] = kinds[k], kinds[i] })
	names := []string{wms, plant}
	first := rng.IntN(2)
	var out []disturbance
	for i := range n {
		part := 0.75 * float64(d) / float64(n)
		lasts := time.Duration(part * (0.3 + 0.4*rng.Float64()))
		lasts = min(max(lasts, 400*time.Millisecond), 4*time.Second)
		at := time.Duration(0.1*float64(d) + part*(float64(i)+0.2*rng.Float64()))
		out = append(out, disturbance{at: at, kind: kinds[i%len(kinds)],
			of: names[(first+i)%2], lasts: lasts})
	}
	return out
}

func sorted(list []disturbance) []disturbance {
	slices.SortStableFunc(list, func(a, b disturbance) int { return int(a.at - b.at) })
	return list
}
