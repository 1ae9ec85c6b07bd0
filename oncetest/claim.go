package oncetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/oncekit/once"
)

func claimCases() []Case {
	return []Case{
		{Name: "Claim/New", Promise: "what nobody had is granted, as attempt 1", run: claimNew},
		{Name: "Claim/K01_InFlightBeforeTheWork", Promise: "from the claim on, not from the " +
			"completion on, everybody else is told that it is in flight", run: claimInFlight},
		{Name: "Claim/InFlightTellsRestAndAge", Promise: "who is refused is told how long the " +
			"lease runs and how old the attempt is", needs: clock, run: restAndAge},
		{Name: "Claim/Replay", Promise: "what is completed is answered with its outcome, again " +
			"and again", run: claimReplay},
		{Name: "Claim/ReplayTellsWhen", Promise: "a replay tells when the work ended",
			needs: clock | browses, run: replayTellsWhen},
		{Name: "Claim/Released", Promise: "what was given back is granted again, not as a " +
			"takeover", run: claimReleased},
		{Name: "Claim/SameOwnerSameGrant", Promise: "the lost answer to a claim is found by " +
			"asking again", run: sameOwner},
		{Name: "Claim/SameOwnerOfATakeover", Promise: "the lost answer to a takeover still says " +
			"that it is one", run: sameOwnerOfTakeover},
		{Name: "Claim/SameOwnerAfterItsEnd", Promise: "a claim repeated after the attempt ended " +
			"is judged as anybody's", run: sameOwnerAfterEnd},
		{Name: "Claim/K08_LapsedIsTakenOver", Promise: "an attempt whose owner is gone is in " +
			"flight until its lease ends, not until its retention does", run: lapsedIsTaken},
		{Name: "Claim/K12_NextProcessIsAnotherOwner", Promise: "a restarted node waits for the " +
			"end of its predecessor's lease, as anybody, and then gets it", run: nextProcess},
		{Name: "Claim/ManyTakeovers", Promise: "each lost attempt is followed by the next, " +
			"counted", run: manyTakeovers},
	}
}

func claimNew(k *kit) {
	g := k.take(claim("a"))
	if g.Attempt != 1 || g.Takeover {
		k.Errorf("first grant: %+v", g)
	}
	k.wantState(g.Identity, once.InFlight)
}

func claimInFlight(k *kit) {
	g := k.take(claim("a"))
	for range 3 {
		busy := k.wantInFlight(claim("a"))
		if busy.Rest <= 0 || busy.Rest > longLease || busy.Age < 0 || busy.Age > slack {
			k.Errorf("rest %s of %s, age %s", busy.Rest, longLease, busy.Age)
		}
	}
	k.complete(g, kept("done"))
}

func restAndAge(k *kit) {
	k.take(k.lapsing("a"))
	k.pass(4 * time.Minute) // of 10
	busy := k.wantInFlight(claim("a"))
	if busy.Rest > 6*time.Minute || busy.Rest < 6*time.Minute-slack {
		k.Errorf("rest %s, want 6m", busy.Rest)
	}
	if busy.Age < 4*time.Minute || busy.Age > 4*time.Minute+slack {
		k.Errorf("age %s, want 4m", busy.Age)
	}
}

func claimReplay(k *kit) {
	k.done(claim("a"), "the outcome")
	for range 3 {
		k.wantReplay(claim("a"), kept("the outcome"))
	}
	k.wantState(identity("a"), once.Completed)
}

func replayTellsWhen(k *kit) {
	g := k.take(claim("a"))
	began := k.record(g.Identity).ClaimedAt
	k.pass(7 * time.Minute)
	k.complete(g, kept(""))
	k.pass(time.Hour)
	var replay *once.ReplayError
	if err := k.refused(claim("a")); !errors.As(err, &replay) {
		k.Fatal(err)
	}
	took := replay.CompletedAt.Sub(began)
	if took < 7*time.Minute || took > 7*time.Minute+slack {
		k.Errorf("completed %s after it was claimed, want 7m", took)
	}
}

func claimReleased(k *kit) {
	g := k.take(claim("a"))
	for n := 2; n < 5; n++ {
		k.release(g)
		k.wantState(g.Identity, once.Released)
		next := k.take(claim("a"))
		if next.Attempt != n || next.Takeover || next.Fence <= g.Fence {
			k.Fatalf("after release of %+v: %+v, want attempt %d", g, next, n)
		}
		g = next
	}
}

func sameOwner(k *kit) {
	c := claim("a")
	g := k.take(c)
	for range 3 {
		if got := k.take(c); got != g {
			k.Fatalf("first %+v, then %+v", g, got)
		}
	}
	k.wantInFlight(claim("a"))
	if got := k.take(c); got != g {
		k.Fatalf("after another's claim %+v, first %+v", got, g)
	}
	k.complete(g, kept("done"))
	k.wantReplay(claim("a"), kept("done"))
}

func sameOwnerOfTakeover(k *kit) {
	first := k.take(k.lapsing("a"))
	k.lapse()
	c := claim("a")
	g := k.wantTaken(c, first)
	if got := k.take(c); got != g {
		k.Fatalf("first %+v, then %+v", g, got)
	}
}

func sameOwnerAfterEnd(k *kit) {
	c := claim("a")
	g := k.take(c)
	k.release(g)
	second := k.take(c)
	if second.Fence <= g.Fence || second.Attempt != 2 {
		k.Fatalf("after release of %+v: %+v", g, second)
	}
	k.complete(second, kept("done"))
	k.wantReplay(c, kept("done"))
}

func lapsedIsTaken(k *kit) {
	c := k.lapsing("a")
	if k.h.Advance != nil { // else the machine may be slower than the lease
		k.take(c)
		k.pass(c.Lease - time.Minute)
		k.wantInFlight(claim("a"))
		k.pass(time.Minute + time.Second)
		k.wantState(c.Identity, once.Lost)
		next := k.take(claim("a"))
		if !next.Takeover || next.Attempt != 2 {
			k.Errorf("took over with %+v", next)
		}
		return
	}
	g := k.take(c)
	k.lapse()
	k.wantTaken(claim("a"), g)
}

func nextProcess(k *kit) {
	c := k.lapsing("a") // the note, all that a node knows of itself, is the same
	g := k.take(c)
	if k.h.Advance != nil {
		k.wantInFlight(again(c))
	}
	k.lapse()
	next := k.wantTaken(again(c), g)
	k.wantErr("completion by the predecessor", k.s.Complete(k.ctx, g, kept("old")),
		once.ErrLeaseLost)
	k.complete(next, kept("new"))
	k.wantReplay(claim("a"), kept("new"))
}

func manyTakeovers(k *kit) {
	g := k.take(k.lapsing("a"))
	for range 5 {
		k.lapse()
		g = k.wantTaken(k.lapsing("a"), g)
	}
	k.complete(g, kept(fmt.Sprint(g.Attempt)))
	k.wantReplay(claim("a"), kept("6"))
}
