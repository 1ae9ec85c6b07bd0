package oncetest

import (
	"github.com/oncekit/once"
)

func settleCases() []Case {
	return []Case{
		{Name: "Settle/CompleteTwice", Promise: "a completion that is repeated changes nothing",
			run: completeTwice},
		{Name: "Settle/OtherOutcomeLater", Promise: "the first outcome of an owner counts",
			run: otherOutcomeLater},
		{Name: "Settle/ReleaseTwice", Promise: "a release that is repeated changes nothing",
			run: releaseTwice},
		{Name: "Settle/UnknownTwice", Promise: "saying twice that an attempt was lost is as once",
			run: unknownTwice},
		{Name: "Settle/UnknownAfterCompletion", Promise: "what is completed doesn't become " +
			"unknown", run: unknownAfterCompletion},
		{Name: "Settle/LateCompletion", Promise: "an owner whose lease ended may complete while " +
			"nobody else has it", run: lateCompletion},
		{Name: "Settle/LateRelease", Promise: "an owner whose lease ended may give back while " +
			"nobody else has it", run: lateRelease},
		{Name: "Settle/LateCompletionOfHeld", Promise: "an owner alone can know: it may " +
			"complete what is held", run: lateCompletionOfHeld},
		{Name: "Settle/UnknownIsCompleted", Promise: "who said that nobody can know may still " +
			"find out", run: unknownIsCompleted},
		{Name: "Settle/UnknownIsReleased", Promise: "who said that nobody can know may find out " +
			"that nothing happened", run: unknownIsReleased},
		{Name: "Settle/NoSuchKind", Promise: "an outcome of a kind that there isn't ends nothing",
			run: noSuchKind},
	}
}

func completeTwice(k *kit) {
	g := k.done(claim("a"), "done")
	k.unchanged("a repeated completion", g.Identity, func() {
		k.complete(g, kept("done"))
		k.complete(g, kept("done"))
	})
	k.wantReplay(claim("a"), kept("done"))
	k.complete(g, kept("done"))
}

func otherOutcomeLater(k *kit) {
	g := k.done(claim("a"), "first")
	k.unchanged("another completion", g.Identity, func() {
		k.complete(g, kept("second"))
		k.complete(g, once.Outcome{Kind: once.Tombstone})
	})
	k.wantReplay(claim("a"), kept("first"))
}

func releaseTwice(k *kit) {
	g := k.take(claim("a"))
	k.release(g)
	k.unchanged("a repeated release", g.Identity, func() { k.release(g) })
	if next := k.take(claim("a")); next.Attempt != 2 {
		k.Errorf("granted %+v", next)
	}
}

func unknownTwice(k *kit) {
	g := k.take(claim("a"))
	k.lose(g)
	k.unchanged("a repeated loss", g.Identity, func() { k.lose(g) })
	k.wantTaken(claim("a"), g)
}

func unknownAfterCompletion(k *kit) {
	g := k.done(claim("a"), "done")
	k.unchanged("a loss after the end", g.Identity, func() { k.lose(g) })
	k.wantReplay(claim("a"), kept("done"))
}

func lateCompletion(k *kit) {
	g := k.take(k.lapsing("a"))
	k.lapse()
	k.complete(g, kept("late"))
	k.wantReplay(claim("a"), kept("late"))
	k.wantState(g.Identity, once.Completed)
}

func lateRelease(k *kit) {
	g := k.take(k.lapsing("a"))
	k.lapse()
	k.release(g)
	k.wantState(g.Identity, once.Released)
	if next := k.take(claim("a")); next.Attempt != 2 || next.Takeover {
		k.Errorf("granted %+v", next)
	}
}

func lateCompletionOfHeld(k *kit) {
	g := k.take(holding(k.lapsing("a")))
	k.lapse()
	k.wantHeld(claim("a"))
	k.complete(g, kept("late"))
	k.wantReplay(claim("a"), kept("late"))
	k.wantReplay(holding(claim("a")), kept("late"))
}

func unknownIsCompleted(k *kit) {
	g := k.take(holding(claim("a")))
	k.lose(g)
	k.wantHeld(claim("a"))
	k.complete(g, kept("found out"))
	k.wantReplay(claim("a"), kept("found out"))
}

func unknownIsReleased(k *kit) {
	g := k.take(holding(claim("a")))
	k.lose(g)
	k.wantHeld(claim("a"))
	k.release(g)
	if next := k.take(claim("a")); next.Attempt != 2 {
		k.Errorf("granted %+v", next)
	}
}

func noSuchKind(k *kit) {
	g := k.take(claim("a"))
	k.unchanged("an outcome of no kind", g.Identity, func() {
		if err := k.s.Complete(k.ctx, g, once.Outcome{Kind: once.Unknown + 1}); err == nil {
			k.Error("an outcome of no kind was taken")
		}
	})
	k.wantInFlight(claim("a"))
}
