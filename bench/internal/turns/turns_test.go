package turns

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"
)

func TestMeasureTellsCostsApart(t *testing.T) {
	var kept []*[64]byte
	spend := func(d time.Duration) {
		for from, _ := cpu(); ; {
			if now, err := cpu(); err != nil || now-from >= d {
				return
			}
		}
	}
	costs, err := Measure(t.Context(), 50*time.Millisecond,
		func() { spend(2 * time.Microsecond) },
		func() {
			spend(20 * time.Microsecond)
			kept = append(kept[:0], new([64]byte), new([64]byte))
		})
	if err != nil {
		t.Fatal(err)
	}
	if costs[0].Time < 2*time.Microsecond || costs[1].Time < 20*time.Microsecond ||
		costs[1].Time < 2*costs[0].Time {
		t.Errorf("%v and %v, want about 2 and 20 µs", costs[0].Time, costs[1].Time)
	}
	// Others of the process may allocate now and then.
	if costs[0].Allocs > .1 || math.Abs(costs[1].Allocs-2) > .1 {
		t.Errorf("%v and %v allocations, want 0 and 2", costs[0].Allocs, costs[1].Allocs)
	}
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Measure(ctx, time.Hour, cancel)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that it was cancelled", err)
	}
}
