package oncetest

import (
	"time"

	"github.com/oncekit/once"
)

func unknownCases() []Case {
	return []Case{
		{Name: "Unknown/RetryRunsAgain", Promise: "what was lost under retry is run by the next " +
			"who asks", run: retryRuns},
		{Name: "Unknown/K11_HoldIsHeld", Promise: "what was lost under hold is run by nobody, " +
			"however often and late one asks", run: holdIsHeld},
		{Name: "Unknown/LapsedUnderHold", Promise: "a lease that ended under hold is held",
			run: lapsedUnderHold},
		{Name: "Unknown/TheLaterClaimHolds", Promise: "what was lost under retry is held if the " +
			"one who asks next says hold, and stays so", run: laterHolds},
		{Name: "Unknown/TheLaterClaimHoldsLapsed", Promise: "a lease that ended under retry is " +
			"held if the one who asks next says hold, and stays so", run: laterHoldsLapsed},
		{Name: "Unknown/HoldWhileInFlight", Promise: "who asks with hold during the attempt " +
			"doesn't decide what follows its loss", run: holdInFlight},
		{Name: "Unknown/HoldOfAnEarlierAttempt", Promise: "each attempt is lost under its own " +
			"claim", run: holdOfEarlier},
		{Name: "Unknown/TellsSince", Promise: "who is refused is told since when it is unknown",
			needs: clock | browses, run: unknownSince},
		{Name: "Unknown/NeverExpires", Promise: "what is in flight, unknown or held is never " +
			"forgotten",
			run: unknownStays},
		{Name: "Unknown/LostOrHeld", Promise: "people see what will be run again and what waits " +
			"for them", needs: browses, run: lostOrHeld},
	}
}

func retryRuns(k *kit) {
	g := k.take(claim("a"))
	k.lose(g)
	k.wantState(g.Identity, once.Lost)
	next := k.wantTaken(claim("a"), g)
	k.wantOut(g)
	k.complete(next, kept("second"))
	k.wantReplay(claim("a"), kept("second"))
}

func holdIsHeld(k *kit) {
	g := k.take(holding(claim("a")))
	k.lose(g)
	for range 3 {
		k.wantHeld(claim("a"))
		k.wantHeld(holding(claim("a")))
		k.pass(k.retention)
	}
	k.wantState(g.Identity, once.Held)
}

func lapsedUnderHold(k *kit) {
	g := k.take(holding(k.lapsing("a")))
	k.lapse()
	for range 3 {
		k.wantHeld(claim("a"))
	}
	k.wantState(g.Identity, once.Held)
}

func laterHolds(k *kit) {
	g := k.take(claim("a"))
	k.lose(g)
	k.wantHeld(holding(claim("a")))
	k.wantHeld(claim("a"))
	k.wantState(g.Identity, once.Held)
}

func laterHoldsLapsed(k *kit) {
	g := k.take(k.lapsing("a"))
	k.lapse()
	k.wantHeld(holding(claim("a")))
	k.wantHeld(claim("a"))
	k.wantState(g.Identity, once.Held)
}

func holdInFlight(k *kit) {
	g := k.take(claim("a"))
	k.wantInFlight(holding(claim("a")))
	k.lose(g)
	k.wantTaken(claim("a"), g)
}

func holdOfEarlier(k *kit) {
	g := k.take(holding(claim("a")))
	k.release(g)
	g = k.take(claim("a")) // retry
	k.lose(g)
	g = k.wantTaken(claim("a"), g)
	k.release(g)
	k.lose(k.take(holding(claim("a"))))
	k.wantHeld(claim("a"))
}

func unknownSince(k *kit) {
	g := k.take(holding(claim("lost")))
	k.take(holding(k.lapsing("lapsed"))) // 10m
	began := k.record(g.Identity).ClaimedAt
	k.pass(4 * time.Minute)
	k.lose(g)
	k.pass(20 * time.Minute)
	near := func(what string, since time.Time, want time.Duration) {
		if got := since.Sub(began); got < want || got > want+slack {
			k.Errorf("%s: unknown %s after it was claimed, want %s", what, got, want)
		}
	}
	near("lost", k.wantHeld(claim("lost")).Since, 4*time.Minute)
	near("lapsed", k.wantHeld(claim("lapsed")).Since, 10*time.Minute)
}

func unknownStays(k *kit) {
	lost := k.take(k.brief("lost"))
	k.lose(lost)
	k.lose(k.take(holding(k.brief("held"))))
	k.take(holding(k.brief("lapsed and held")))
	long := k.brief("in flight")
	long.Lease = 1000 * time.Hour // longer than it would be remembered
	k.take(long)
	k.pass(3 * k.retention)
	if _, ok := k.s.(once.Sweeper); ok {
		k.sweepAll()
	}
	for _, name := range []string{"lost", "held", "lapsed and held", "in flight"} {
		k.wantMismatch(changed(claim(name)))
	}
	k.wantHeld(claim("held"))
	k.wantHeld(claim("lapsed and held"))
	k.wantInFlight(claim("in flight"))
	k.wantTaken(claim("lost"), lost)
}

func lostOrHeld(k *kit) {
	k.lose(k.take(claim("lost")))
	k.lose(k.take(holding(claim("held"))))
	k.take(k.lapsing("lapsed"))
	k.take(holding(k.lapsing("lapsed and held")))
	k.take(claim("in flight"))
	k.lapse()
	for name, want := range map[string]once.RecordState{
		"lost": once.Lost, "lapsed": once.Lost, "held": once.Held, "lapsed and held": once.Held,
		"in flight": once.InFlight,
	} {
		r := k.record(identity(name))
		mayExpire := name == "lapsed" && !r.ExpiresAt.Before(r.LeaseEnd.Add(longRetention))
		if r.State != want || !r.ExpiresAt.IsZero() && !mayExpire {
			k.Errorf("%s is %s and expires at %s, want %s, never", name, r.State, r.ExpiresAt, want)
		}
	}
}
