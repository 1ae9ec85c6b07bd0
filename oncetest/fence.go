package oncetest

import (
	"github.com/oncekit/once"
)

func fenceCases() []Case {
	return []Case{
		{Name: "Fence/OverReleases", Promise: "a release doesn't start the fence anew",
			run: fenceReleases},
		{Name: "Fence/OverTakeovers", Promise: "the fence rises with each lost owner",
			run: fenceTakeovers},
		{Name: "Fence/OverExpiry", Promise: "the fence rises although the record was forgotten",
			run: fenceExpiry},
		{Name: "Fence/OverSweeps", Promise: "the fence rises although the record was removed",
			needs: sweeps, run: fenceSweeps},
		{Name: "Fence/OverDecisions", Promise: "the fence rises over what people decide",
			needs: resolves, run: fenceDecisions},
		{Name: "Fence/OverRestart", Promise: "the fence rises over a restart",
			needs: reopens,
			run:   fenceRestart},
	}
}

// rising takes an identity whose fence has to be above the last one.
func (k *kit) rising(c once.Claim, last int64) once.Grant {
	k.Helper()
	g := k.take(c)
	if g.Fence <= last {
		k.Fatalf("fence %d after %d", g.Fence, last)
	}
	return g
}

func fenceReleases(k *kit) {
	var last int64
	for range 50 {
		g := k.rising(claim("a"), last)
		last = g.Fence
		k.release(g)
	}
}

func fenceTakeovers(k *kit) {
	var last int64
	for i := range 12 {
		c := claim("a")
		if i%3 == 0 {
			c = k.lapsing("a")
		}
		g := k.rising(c, last)
		last = g.Fence
		if i%3 == 0 {
			k.lapse()
		} else {
			k.lose(g)
		}
	}
}

func fenceExpiry(k *kit) {
	var last int64
	for i := range 4 {
		g := k.rising(k.brief("a"), last)
		last = g.Fence
		if i%2 == 0 {
			k.complete(g, kept("done"))
		} else {
			k.release(g)
		}
		k.expire()
	}
}

func fenceSweeps(k *kit) {
	var last int64
	for range 4 {
		for range 5 { // so that the fence is above what a clock alone would give
			g := k.rising(k.brief("a"), last)
			last = g.Fence
			k.release(g)
		}
		k.expire()
		k.sweepAll()
	}
}

func fenceDecisions(k *kit) {
	var last int64
	for range 4 {
		g := k.rising(claim("a"), last)
		k.lose(g)
		k.resolve(g.Identity, once.Resolution{Decision: once.RunAgain})
		g = k.rising(claim("a"), g.Fence)
		k.complete(g, kept("done"))
		k.resolve(g.Identity, once.Resolution{Decision: once.ReleaseDone})
		last = g.Fence
	}
}

func fenceRestart(k *kit) {
	var last int64
	for range 3 {
		for range 5 {
			g := k.rising(claim("a"), last)
			last = g.Fence
			k.release(g)
		}
		k.reopen()
	}
	g := k.done(k.brief("b"), "done")
	k.expire()
	if _, ok := k.s.(once.Sweeper); ok {
		k.sweepAll()
	}
	k.reopen()
	k.rising(claim("b"), g.Fence)
}
