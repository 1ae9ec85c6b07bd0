package oncetest

import (
	"time"

	"github.com/oncekit/once"
)

func mismatchCases() []Case {
	return []Case{
		{Name: "Mismatch/K05_InFlight", Promise: "a changed request is told so at once, while " +
			"the first one runs", run: mismatchInFlight},
		{Name: "Mismatch/F02_Completed", Promise: "a changed request never runs under an old " +
			"key, and never gets the old outcome", run: mismatchCompleted},
		{Name: "Mismatch/Tombstone", Promise: "a changed request is told so where the outcome " +
			"was not kept", run: mismatchTombstone},
		{Name: "Mismatch/Released", Promise: "a key that was given back is still one request's",
			run: mismatchReleased},
		{Name: "Mismatch/Lost", Promise: "a changed request doesn't run in place of a lost " +
			"attempt", run: mismatchLost},
		{Name: "Mismatch/Lapsed", Promise: "a changed request doesn't take over a lease that " +
			"ended", run: mismatchLapsed},
		{Name: "Mismatch/Held", Promise: "a changed request under a held key is a mismatch, not " +
			"an unknown outcome", run: mismatchHeld},
		{Name: "Mismatch/SameOwner", Promise: "the token of an owner doesn't excuse a changed " +
			"request", run: mismatchSameOwner},
		{Name: "Mismatch/F10_OnEveryWay", Promise: "the fingerprint is compared on each repeat, " +
			"also on the way that a replay takes", run: mismatchEveryWay},
		{Name: "Mismatch/EachByteCounts", Promise: "fingerprints that differ in one byte of " +
			"their 33, the version first, are different ones", run: mismatchBytes},
		{Name: "Mismatch/HoldsNothing", Promise: "a changed request that would hold an unknown " +
			"outcome doesn't", run: mismatchHoldsNothing},
		{Name: "Mismatch/ProlongsNothing", Promise: "changed requests don't keep a record alive",
			needs: clock, run: mismatchProlongs},
		{Name: "Mismatch/AfterTheRetention", Promise: "what is past its retention has no " +
			"fingerprint", run: mismatchExpired},
	}
}

// mismatched claims with another fingerprint, which changes nothing.
func (k *kit) mismatched(name string) {
	k.Helper()
	k.unchanged("a changed request", identity(name), func() {
		for range 2 {
			k.wantMismatch(changed(claim(name)))
		}
		k.wantMismatch(holding(changed(claim(name))))
	})
}

func mismatchInFlight(k *kit) {
	g := k.take(claim("a"))
	k.mismatched("a")
	k.wantInFlight(claim("a"))
	k.complete(g, kept("first"))
	k.wantReplay(claim("a"), kept("first"))
}

func mismatchCompleted(k *kit) {
	k.done(claim("a"), "first")
	k.mismatched("a")
	k.wantReplay(claim("a"), kept("first"))
}

func mismatchTombstone(k *kit) {
	k.complete(k.take(claim("a")), once.Outcome{Kind: once.Tombstone})
	k.mismatched("a")
	k.wantReplay(claim("a"), once.Outcome{Kind: once.Tombstone})
}

func mismatchReleased(k *kit) {
	k.release(k.take(claim("a")))
	k.mismatched("a")
	if g := k.take(claim("a")); g.Attempt != 2 {
		k.Errorf("granted %+v", g)
	}
}

func mismatchLost(k *kit) {
	g := k.take(claim("a"))
	k.lose(g)
	k.mismatched("a")
	k.wantTaken(claim("a"), g)
}

func mismatchLapsed(k *kit) {
	g := k.take(k.lapsing("a"))
	k.lapse()
	k.mismatched("a")
	k.wantTaken(claim("a"), g)
}

func mismatchHeld(k *kit) {
	k.lose(k.take(holding(claim("a"))))
	k.mismatched("a")
	k.wantHeld(claim("a"))
	k.mismatched("a")
}

func mismatchSameOwner(k *kit) {
	c := claim("a")
	g := k.take(c)
	bad := c
	bad.Fingerprint = other
	k.wantMismatch(bad)
	if got := k.take(c); got != g {
		k.Errorf("then %+v, first %+v", got, g)
	}
	k.complete(g, kept(""))
	k.wantMismatch(bad)
}

func mismatchEveryWay(k *kit) {
	k.done(claim("a"), "first")
	for range 4 { // also from whatever the store remembers by now
		k.wantReplay(claim("a"), kept("first"))
		k.wantMismatch(changed(claim("a")))
	}
}

func mismatchBytes(k *kit) {
	c := claim("a")
	k.done(c, "first")
	for i := range c.Fingerprint {
		bad := again(c)
		bad.Fingerprint[i] ^= 1
		k.wantMismatch(bad)
	}
	k.wantReplay(again(c), kept("first"))
}

func mismatchHoldsNothing(k *kit) {
	g := k.take(claim("a"))
	k.lose(g)
	k.wantMismatch(holding(changed(claim("a"))))
	k.wantTaken(claim("a"), g)
}

func mismatchProlongs(k *kit) {
	k.done(k.brief("a"), "first")
	k.pass(k.retention - time.Hour)
	k.wantMismatch(changed(claim("a")))
	k.pass(time.Hour + k.retention/8)
	if g := k.take(changed(claim("a"))); g.Attempt != 1 {
		k.Errorf("granted %+v", g)
	}
}

func mismatchExpired(k *kit) {
	k.done(k.brief("a"), "first")
	k.release(k.take(k.brief("b")))
	k.expire()
	for _, name := range []string{"a", "b"} {
		g := k.take(changed(claim(name)))
		if g.Attempt != 1 || g.Takeover {
			k.Errorf("%s: granted %+v", name, g)
		}
		k.wantMismatch(claim(name))
	}
}
