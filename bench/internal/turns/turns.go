// Package turns measures functions against each other within one process: in turns of short slices,
// so that a machine whose speed changes, or that does something else for a moment, changes all of
// them.
package turns

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Cost is what one call of a function took.
type Cost struct {
	// Time of a call on the processor, the mean over all slices: that of the thread which calls,
	// so that what else the machine does counts as little as can be. The garbage collector's own
	// threads don't count, the part that it makes callers do does.
	Time time.Duration
	// Allocs is the number of its allocations.
	Allocs float64
}

const (
	// sliceCalls is how often a function is called before it is the next one's turn: long enough
	// that the processor's caches are its own for most of it.
	sliceCalls = 2000
	// allocCalls is how many calls allocations are counted over.
	allocCalls = 1000
)

// Measure calls each function in turn until the time is over, and once more to count allocations.
// At least one turn is measured. It returns the costs in the order of the functions.
func Measure(ctx context.Context, total time.Duration, fns ...func()) ([]Cost, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sums := make([]time.Duration, len(fns))
	for _, fn := range fns { // not measured: what is made once
		calls(fn, sliceCalls)
	}
	runtime.GC()
	n := 0
	for begun := time.Now(); n == 0 || time.Since(begun) < total; n++ {
		for i, fn := range fns {
			from, err := cpu()
			if err != nil {
				return nil, err
			}
			calls(fn, sliceCalls)
			to, _ := cpu() // it has just worked
			sums[i] += to - from
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	out := make([]Cost, len(fns))
	for i, fn := range fns {
		out[i] = Cost{sums[i] / time.Duration(n*sliceCalls), allocs(fn)}
	}
	return out, nil
}

// cpu returns the processor time of this thread.
func cpu() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	return time.Duration(t.Nano()), nil
}

func calls(fn func(), n int) {
	for range n {
		fn()
	}
}

// allocs counts as testing.AllocsPerRun does: the mean, rounded down, since slices and maps that
// grow now and then are no allocation of each call.
func allocs(fn func()) float64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	calls(fn, allocCalls)
	runtime.ReadMemStats(&after)
	return float64((after.Mallocs - before.Mallocs) / allocCalls)
}
