package oncetest

import (
	"time"

	"github.com/oncekit/once"
)

func staleCases() []Case {
	return []Case{
		{Name: "Stale/K09_AfterATakeover", Promise: "an owner whose lease was taken over " +
			"completes, releases and renews nothing", run: staleTakeover},
		{Name: "Stale/K10_ReleaseFreesNobodyElse", Promise: "the release of an owner whose " +
			"lease ended leaves the next owner alone", run: staleRelease},
		{Name: "Stale/AfterRelease", Promise: "an owner who gave back can't complete or renew",
			run: staleReleased},
		{Name: "Stale/AfterCompletion", Promise: "an owner who completed can't release or renew",
			run: staleCompleted},
		{Name: "Stale/AfterTheNextReleased", Promise: "an earlier owner changes nothing of what " +
			"the later one gave back", run: staleNextReleased},
		{Name: "Stale/AfterTheNextCompleted", Promise: "an earlier owner changes nothing of " +
			"what the later one completed", run: staleNextCompleted},
		{Name: "Stale/AfterExpiry", Promise: "after the retention nobody owns anything",
			run: staleExpired},
		{Name: "Stale/AfterANewRecord", Promise: "an owner of a record that is past its " +
			"retention changes nothing of the new one", run: staleNewRecord},
		{Name: "Stale/RunAgain", Promise: "after a person lets it run again, the lost owner is " +
			"out", needs: resolves, run: func(k *kit) { k.staleResolved(once.RunAgain) }},
		{Name: "Stale/AnswerWith", Promise: "after a person gave the answer, the lost owner is " +
			"out", needs: resolves, run: func(k *kit) { k.staleResolved(once.AnswerWith) }},
		{Name: "Stale/ReleaseDone", Promise: "after a person freed what was done, its owner is " +
			"out", needs: resolves, run: staleReleaseDone},
		{Name: "Stale/WrongToken", Promise: "the right fence without the token is nothing",
			run: wrongToken},
		{Name: "Stale/WrongFence", Promise: "the right token without the fence is nothing",
			run: wrongFence},
		{Name: "Stale/NeverClaimed", Promise: "a grant of what isn't there is nothing",
			run: neverClaimed},
	}
}

// steps are what an owner can do.
func (k *kit) steps(g once.Grant) map[string]func() error {
	all := map[string]func() error{
		"complete": func() error { return k.s.Complete(k.ctx, g, kept("stale")) },
		"complete unknown": func() error {
			return k.s.Complete(k.ctx, g, once.Outcome{Kind: once.Unknown})
		},
		"release": func() error { return k.s.Release(k.ctx, g) },
	}
	if r, ok := k.s.(once.Renewer); ok {
		all["renew"] = func() error { return r.Renew(k.ctx, g, 50*time.Hour) }
	}
	return all
}

// wantOut tries every step with a grant that has lost its lease, but for those named.
func (k *kit) wantOut(g once.Grant, but ...string) {
	k.Helper()
	all := k.steps(g)
	for _, name := range but {
		delete(all, name)
	}
	for name, step := range all {
		k.unchanged(name+" by who has lost the lease", g.Identity, func() {
			k.wantErr(name, step(), once.ErrLeaseLost)
		})
	}
}

func staleTakeover(k *kit) {
	old := k.take(k.lapsing("a"))
	k.lapse()
	g := k.wantTaken(claim("a"), old)
	k.wantOut(old)
	k.wantInFlight(claim("a"))
	k.complete(g, kept("new"))
	k.wantOut(old)
	k.wantReplay(claim("a"), kept("new"))
}

func staleRelease(k *kit) {
	a := k.take(k.lapsing("k"))
	k.lapse()
	b := k.wantTaken(claim("k"), a)
	k.wantErr("release by A", k.s.Release(k.ctx, a), once.ErrLeaseLost)
	k.wantInFlight(claim("k")) // C, while B runs
	k.complete(b, kept("by B"))
	k.wantReplay(claim("k"), kept("by B"))
}

func staleReleased(k *kit) {
	g := k.take(claim("a"))
	k.release(g)
	k.wantOut(g, "release")
	if next := k.take(claim("a")); next.Attempt != 2 {
		k.Errorf("granted %+v", next)
	}
}

func staleCompleted(k *kit) {
	g := k.done(claim("a"), "done")
	k.wantOut(g, "complete", "complete unknown")
	k.wantReplay(claim("a"), kept("done"))
}

func staleNextReleased(k *kit) {
	old := k.take(k.lapsing("a"))
	k.lapse()
	k.release(k.wantTaken(claim("a"), old))
	k.wantOut(old)
	if next := k.take(claim("a")); next.Attempt != 3 {
		k.Errorf("granted %+v", next)
	}
}

func staleNextCompleted(k *kit) {
	old := k.take(claim("a"))
	k.release(old)
	k.done(claim("a"), "second")
	k.wantOut(old)
	k.wantReplay(claim("a"), kept("second"))
}

func staleExpired(k *kit) {
	done, freed := k.done(k.brief("a"), "old"), k.take(k.brief("b"))
	k.release(freed)
	k.expire()
	k.wantOut(done)
	k.wantOut(freed)
	for _, name := range []string{"a", "b"} {
		if g := k.take(claim(name)); g.Attempt != 1 {
			k.Errorf("granted %+v", g)
		}
	}
}

func staleNewRecord(k *kit) {
	old := k.done(k.brief("a"), "old")
	k.expire()
	g := k.take(claim("a"))
	k.wantOut(old)
	k.wantInFlight(claim("a"))
	k.complete(g, kept("new"))
	k.wantOut(old)
	k.wantReplay(claim("a"), kept("new"))
}

func (k *kit) staleResolved(d once.Decision) {
	k.Helper()
	lost, lapsed := k.take(claim("lost")), k.take(k.lapsing("lapsed"))
	k.lose(lost)
	k.lapse()
	for _, g := range []once.Grant{lost, lapsed} {
		k.resolve(g.Identity, once.Resolution{Decision: d, Outcome: kept("by a person")})
		k.wantOut(g)
	}
	if d == once.AnswerWith {
		k.wantReplay(claim("lost"), kept("by a person"))
		return
	}
	k.take(claim("lost"))
	k.wantOut(lost)
}

func staleReleaseDone(k *kit) {
	g := k.done(claim("a"), "old")
	k.resolve(g.Identity, once.Resolution{Decision: once.ReleaseDone})
	k.wantOut(g)
	next := k.take(claim("a"))
	k.wantOut(g)
	k.complete(next, kept("new"))
	k.wantReplay(claim("a"), kept("new"))
}

func wrongToken(k *kit) {
	g := k.take(claim("a"))
	bad := g
	bad.Owner = once.NewOwner()
	k.wantOut(bad)
	bad.Owner = g.Owner
	bad.Owner[15]++
	k.wantOut(bad)
	k.complete(g, kept("done"))
	k.wantOut(bad)
}

func wrongFence(k *kit) {
	g := k.take(claim("a"))
	for _, fence := range []int64{0, -1, g.Fence - 1, g.Fence + 1} {
		bad := g
		bad.Fence = fence
		k.wantOut(bad)
	}
	k.complete(g, kept("done"))
}

func neverClaimed(k *kit) {
	g := once.Grant{Identity: identity("a"), Owner: once.NewOwner(), Fence: 1, Attempt: 1}
	k.wantOut(g)
	if got := k.take(claim("a")); got.Attempt != 1 {
		k.Errorf("granted %+v", got)
	}
}
