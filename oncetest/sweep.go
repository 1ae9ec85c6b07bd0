package oncetest

import (
	"fmt"

	"github.com/oncekit/once"
)

func sweepCases() []Case {
	return []Case{
		{Name: "Sweep/RemovesWhatIsPast", Promise: "a sweep removes what is past its retention, " +
			"and nothing else", needs: sweeps, run: sweepRemoves},
		{Name: "Sweep/Limit", Promise: "a sweep is as small as it was asked to be",
			needs: sweeps,
			run:   sweepLimit},
		{Name: "Sweep/AfterARepeat", Promise: "a repeat saves a record from the sweep",
			needs: sweeps | clock, run: sweepAfterRepeat},
		{Name: "Sweep/Empty", Promise: "there may be nothing to sweep",
			needs: sweeps,
			run:   func(k *kit) { k.swept(10, 0) }},
	}
}

// sweepAll sweeps until nothing is left, and returns how many records went.
func (k *kit) sweepAll() (n int) {
	k.Helper()
	for range 1000 {
		got, err := k.s.(once.Sweeper).Sweep(k.ctx, 100)
		if err != nil {
			k.Fatalf("sweep: %v", err)
		}
		if got == 0 {
			return n
		}
		n += got
	}
	k.Fatal("sweeps don't end")
	return 0
}

func (k *kit) swept(limit, want int) {
	k.Helper()
	got, err := k.s.(once.Sweeper).Sweep(k.ctx, limit)
	if err != nil || got != want {
		k.Fatalf("sweep of %d: %d, %v, want %d", limit, got, err, want)
	}
}

func sweepRemoves(k *kit) {
	k.done(k.brief("old"), "old")
	k.release(k.take(k.brief("old and released")))
	k.lose(k.take(k.brief("lost")))
	k.done(claim("kept"), "kept")
	k.release(k.take(claim("kept and released")))
	k.take(claim("in flight"))
	k.expire()
	if n := k.sweepAll(); n != 2 {
		k.Errorf("swept %d, want 2", n)
	}
	k.wantReplay(claim("kept"), kept("kept"))
	k.wantMismatch(changed(claim("kept and released")))
	k.wantMismatch(changed(claim("in flight")))
	k.wantMismatch(changed(claim("lost")))
	if g := k.take(changed(claim("old"))); g.Attempt != 1 {
		k.Errorf("granted %+v", g)
	}
}

func sweepLimit(k *kit) {
	const records = 25
	for i := range records {
		k.done(k.brief(fmt.Sprint(i)), "old")
	}
	k.expire()
	left := records
	for left > 0 {
		n, err := k.s.(once.Sweeper).Sweep(k.ctx, 10)
		if err != nil || n < 1 || n > 10 {
			k.Fatalf("sweep of 10 with %d left: %d, %v", left, n, err)
		}
		left -= n
	}
	if left != 0 {
		k.Errorf("swept %d too many", -left)
	}
	k.swept(10, 0)
}

func sweepAfterRepeat(k *kit) {
	k.done(k.brief("a"), "done")
	k.nearly()
	k.wantReplay(k.brief("a"), kept("done"))
	k.nearly()
	k.swept(10, 0)
	k.wantReplay(k.brief("a"), kept("done"))
	k.expire()
	k.swept(10, 1)
}
