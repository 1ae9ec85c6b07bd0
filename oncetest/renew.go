package oncetest

import (
	"time"

	"github.com/oncekit/once"
)

func renewCases() []Case {
	return []Case{
		{Name: "Renew/K09_LongerThanTheLease", Promise: "an owner who renews keeps what it has " +
			"for as long as it takes", needs: renews | clock, run: renewLonger},
		{Name: "Renew/FromNow", Promise: "a renewed lease lasts from now, not from its old end",
			needs: renews | clock, run: renewFromNow},
		{Name: "Renew/SameGrant", Promise: "a renewal leaves the grant as it is",
			needs: renews,
			run:   renewSameGrant},
		{Name: "Renew/Unknown", Promise: "an attempt that was said to be lost isn't renewed",
			needs: renews, run: renewUnknown},
	}
}

func (k *kit) renew(g once.Grant, lease time.Duration) {
	k.Helper()
	if err := k.s.(once.Renewer).Renew(k.ctx, g, lease); err != nil {
		k.Fatalf("renew: %v", err)
	}
}

func renewLonger(k *kit) {
	g := k.take(k.lapsing("a"))
	for range 10 {
		k.pass(k.lease / 2)
		k.renew(g, k.lease)
		k.wantInFlight(claim("a"))
	}
	k.complete(g, kept("done"))
	k.wantReplay(claim("a"), kept("done"))
}

func renewFromNow(k *kit) {
	g := k.take(claim("a")) // an hour
	k.renew(g, k.lease)     // shorter
	if busy := k.wantInFlight(claim("a")); busy.Rest > k.lease {
		k.Errorf("rest %s of %s", busy.Rest, k.lease)
	}
	k.lapse()
	k.wantTaken(claim("a"), g)
}

func renewSameGrant(k *kit) {
	c := claim("a")
	g := k.take(c)
	k.renew(g, 2*longLease)
	k.renew(g, 2*longLease)
	if got := k.take(c); got != g {
		k.Errorf("granted %+v, then %+v", g, got)
	}
	if busy := k.wantInFlight(claim("a")); busy.Rest <= longLease {
		k.Errorf("rest %s of %s", busy.Rest, 2*longLease)
	}
	k.complete(g, kept("done"))
}

func renewUnknown(k *kit) {
	g := k.take(claim("a"))
	k.lose(g)
	k.wantOut(g, "complete", "complete unknown", "release")
	k.wantTaken(claim("a"), g)
}
