package oncetest

import (
	"time"

	"github.com/oncekit/once"
)

// Retention is counted from the later of the last arrival and the end of the work. A store may
// remember a sixteenth of it longer, so that it needs no write for each repeat.
func retentionCases() []Case {
	return []Case{
		{Name: "Retention/B08_JudgedByTheClock", Promise: "what is past its retention is " +
			"absent, whether or not it was swept", run: expiredIsAbsent},
		{Name: "Retention/NotShorter", Promise: "an outcome is remembered until its retention " +
			"ends", needs: clock, run: notShorter},
		{Name: "Retention/FromTheEndOfTheWork", Promise: "work that took long is remembered " +
			"from its end on", needs: clock, run: fromTheEnd},
		{Name: "Retention/FromTheLastArrival", Promise: "each repeat makes it last",
			needs: clock, run: fromLastArrival},
		{Name: "Retention/ManyArrivals", Promise: "many repeats in a short time don't wear it " +
			"out", needs: clock, run: manyArrivals},
		{Name: "Retention/Released", Promise: "the fingerprint of what was given back is kept " +
			"until the retention ends", needs: clock, run: releasedKeeps},
		{Name: "Retention/Tombstone", Promise: "a tombstone is remembered as an outcome is",
			needs: clock, run: tombstoneKeeps},
		{Name: "Retention/OfTheLatestClaim", Promise: "the claim that was granted says how long",
			needs: clock, run: latestClaims},
		{Name: "Retention/LateCompletion", Promise: "what was completed late is remembered from " +
			"then on", needs: clock, run: lateCompletionKept},
		{Name: "Retention/ExpiresAt", Promise: "people see when a record may be forgotten",
			needs: clock | browses, run: expiresAt},
		{Name: "Retention/NotFound", Promise: "what is past its retention isn't shown",
			needs: browses, run: expiredNotShown},
	}
}

func expiredIsAbsent(k *kit) {
	k.done(k.brief("done"), "old")
	k.release(k.take(k.brief("released")))
	k.complete(k.take(k.brief("tombstone")), once.Outcome{Kind: once.Tombstone})
	k.expire()
	for _, name := range []string{"done", "released", "tombstone"} {
		g := k.take(claim(name))
		if g.Attempt != 1 || g.Takeover {
			k.Errorf("%s: granted %+v", name, g)
		}
		k.wantInFlight(claim(name))
	}
}

// nearly passes all of a retention but a moment.
func (k *kit) nearly() { k.pass(k.retention - time.Minute) }

func notShorter(k *kit) {
	k.done(k.brief("a"), "done")
	k.nearly()
	k.wantReplay(k.brief("a"), kept("done"))
}

func fromTheEnd(k *kit) {
	c := k.brief("a")
	c.Lease = 100 * k.retention
	g := k.take(c)
	k.pass(3 * k.retention)
	k.complete(g, kept("done"))
	k.nearly()
	k.wantReplay(k.brief("a"), kept("done"))
	k.expire()
	k.take(claim("a"))
}

func fromLastArrival(k *kit) {
	k.done(k.brief("a"), "done")
	for range 5 {
		k.nearly()
		k.wantReplay(k.brief("a"), kept("done"))
	}
	k.expire()
	k.take(claim("a"))
}

func manyArrivals(k *kit) {
	k.done(k.brief("a"), "done")
	for range 40 { // each too early to be worth a write
		k.pass(k.retention / 100)
		k.wantReplay(k.brief("a"), kept("done"))
	}
	k.nearly()
	k.wantReplay(k.brief("a"), kept("done"))
	k.expire()
	k.take(claim("a"))
}

func releasedKeeps(k *kit) {
	g := k.take(k.brief("a"))
	k.pass(k.lease / 2)
	k.release(g)
	k.nearly()
	k.wantMismatch(changed(claim("a")))
	next := k.take(k.brief("a"))
	if next.Attempt != 2 {
		k.Errorf("granted %+v", next)
	}
	k.release(next)
	k.expire()
	if g := k.take(changed(claim("a"))); g.Attempt != 1 {
		k.Errorf("granted %+v", g)
	}
}

func tombstoneKeeps(k *kit) {
	o := once.Outcome{Kind: once.Tombstone}
	k.complete(k.take(k.brief("a")), o)
	for range 3 {
		k.nearly()
		k.wantReplay(k.brief("a"), o)
	}
}

func latestClaims(k *kit) {
	k.release(k.take(k.brief("a")))
	c := claim("a")
	c.Retention = 4 * k.retention
	k.done(c, "done")
	k.pass(4*k.retention - time.Minute)
	k.wantReplay(k.brief("a"), kept("done"))
}

func lateCompletionKept(k *kit) {
	g := k.take(k.brief("a"))
	k.pass(k.retention / 2) // its lease has ended long ago
	k.complete(g, kept("late"))
	k.nearly()
	k.wantReplay(k.brief("a"), kept("late"))
}

func expiresAt(k *kit) {
	g := k.take(k.brief("a"))
	k.pass(time.Minute)
	k.complete(g, kept("done"))
	r := k.record(g.Identity)
	keeps := r.ExpiresAt.Sub(r.FinishedAt)
	if keeps < k.retention || keeps > k.retention+k.retention/16+slack {
		k.Errorf("expires %s after its end, want %s, at most a sixteenth more", keeps, k.retention)
	}
	if took := r.FinishedAt.Sub(r.ClaimedAt); took < time.Minute || took > time.Minute+slack {
		k.Errorf("took %s, want 1m", took)
	}
	k.pass(k.retention / 2)
	k.wantReplay(k.brief("a"), kept("done"))
	later := k.record(g.Identity).ExpiresAt
	if later.Sub(r.FinishedAt) < k.retention+k.retention/2 {
		k.Errorf("after a repeat it expires at %s, before at %s", later, r.ExpiresAt)
	}
}

func expiredNotShown(k *kit) {
	k.done(k.brief("a"), "old")
	k.expire()
	b := k.s.(once.Browser)
	_, err := b.Record(k.ctx, identity("a"))
	k.wantErr("record", err, once.ErrNotFound)
	if all := k.all(once.RecordFilter{}); len(all) != 0 {
		k.Errorf("%d records are shown", len(all))
	}
}
