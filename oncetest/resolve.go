package oncetest

import (
	"errors"
	"fmt"

	"github.com/oncekit/once"
)

func resolveCases() []Case {
	return []Case{
		{Name: "Resolve/RunAgain", Promise: "what is held runs again when a person says so",
			needs: resolves, run: resolveRunAgain},
		{Name: "Resolve/AnswerWith", Promise: "what is held is answered as a person says",
			needs: resolves, run: resolveAnswer},
		{Name: "Resolve/AnswerWithTombstone", Promise: "a person can say that it is done, " +
			"without an outcome", needs: resolves, run: resolveTombstone},
		{Name: "Resolve/AnswerWithNothingKnown", Promise: "unknown is no answer",
			needs: resolves, run: resolveUnknownAnswer},
		{Name: "Resolve/AnswerTooLarge", Promise: "an answer above the limit decides nothing",
			needs: resolves | limits, run: resolveTooLarge},
		{Name: "Resolve/ReleaseDone", Promise: "what is done runs again when a person says so",
			needs: resolves, run: resolveDone},
		{Name: "Resolve/LostUnderRetry", Promise: "a person may be faster than the next who asks",
			needs: resolves, run: resolveRetry},
		{Name: "Resolve/Lapsed", Promise: "a lease that ended can be decided about",
			needs: resolves, run: resolveLapsed},
		{Name: "Resolve/OtherStates", Promise: "a decision that isn't possible in the state " +
			"that the record is in changes nothing", needs: resolves, run: resolveStates},
		{Name: "Resolve/NotFound", Promise: "of what isn't there nothing is decided",
			needs: resolves, run: resolveNotFound},
		{Name: "Resolve/Fence", Promise: "a decision about what a person saw isn't applied to " +
			"what came later", needs: resolves | browses, run: resolveFence},
		{Name: "Resolve/Fingerprint", Promise: "a person's decision doesn't let a changed " +
			"request run", needs: resolves, run: resolveMismatch},
		{Name: "Resolve/Twice", Promise: "of many who decide at once one does",
			needs: resolves, run: resolveTwice},
		{Name: "Resolve/HeldNoMore", Promise: "after the decision the next attempt is under its " +
			"own claim", needs: resolves, run: resolveHeldNoMore},
	}
}

func (k *kit) decide(id once.Identity, r once.Resolution) error {
	return k.s.(once.Resolver).Resolve(k.ctx, id, r)
}

func (k *kit) resolve(id once.Identity, r once.Resolution) {
	k.Helper()
	if err := k.decide(id, r); err != nil {
		k.Fatalf("resolve: %v", err)
	}
}

// held makes a record that is held.
func (k *kit) held(name string) once.Grant {
	k.Helper()
	g := k.take(holding(claim(name)))
	k.lose(g)
	k.wantHeld(claim(name))
	return g
}

func resolveRunAgain(k *kit) {
	g := k.held("a")
	k.resolve(g.Identity, once.Resolution{Decision: once.RunAgain})
	k.wantState(g.Identity, once.Released)
	next := k.take(holding(claim("a")))
	if next.Attempt != 2 || next.Fence <= g.Fence {
		k.Errorf("granted %+v after %+v", next, g)
	}
	k.complete(next, kept("second"))
	k.wantReplay(claim("a"), kept("second"))
}

func resolveAnswer(k *kit) {
	g := k.held("a")
	o := once.Outcome{Data: pattern(300)}
	k.resolve(g.Identity, once.Resolution{Decision: once.AnswerWith, Outcome: o})
	k.wantReplay(claim("a"), o)
	k.wantState(g.Identity, once.Completed)
}

func resolveTombstone(k *kit) {
	g := k.held("a")
	o := once.Outcome{Kind: once.Tombstone}
	k.resolve(g.Identity, once.Resolution{Decision: once.AnswerWith, Outcome: o})
	k.wantReplay(claim("a"), o)
}

func resolveUnknownAnswer(k *kit) {
	g := k.held("a")
	k.unchanged("an answer of nothing", g.Identity, func() {
		err := k.decide(g.Identity, once.Resolution{
			Decision: once.AnswerWith, Outcome: once.Outcome{Kind: once.Unknown},
		})
		k.wantErr("answer with unknown", err, once.ErrState)
	})
	k.wantHeld(claim("a"))
}

func resolveTooLarge(k *kit) {
	g := k.held("a")
	k.unchanged("too large an answer", g.Identity, func() {
		err := k.decide(g.Identity, once.Resolution{
			Decision: once.AnswerWith, Outcome: once.Outcome{Data: make([]byte, k.h.MaxOutcome+1)},
		})
		k.wantErr("answer", err, once.ErrTooLarge)
	})
	k.wantHeld(claim("a"))
}

func resolveDone(k *kit) {
	g := k.done(claim("a"), "first")
	k.resolve(g.Identity, once.Resolution{Decision: once.ReleaseDone})
	k.wantState(g.Identity, once.Released)
	next := k.take(claim("a"))
	if next.Attempt != 2 || next.Fence <= g.Fence {
		k.Errorf("granted %+v after %+v", next, g)
	}
	k.complete(next, kept("second"))
	k.wantReplay(claim("a"), kept("second"))
}

func resolveRetry(k *kit) {
	g := k.take(claim("a"))
	k.lose(g)
	k.resolve(g.Identity, once.Resolution{Decision: once.AnswerWith, Outcome: kept("found")})
	k.wantReplay(claim("a"), kept("found"))
}

func resolveLapsed(k *kit) {
	a, b := k.take(k.lapsing("a")), k.take(holding(k.lapsing("b")))
	k.lapse()
	k.resolve(a.Identity, once.Resolution{Decision: once.AnswerWith, Outcome: kept("found")})
	k.resolve(b.Identity, once.Resolution{Decision: once.RunAgain})
	k.wantReplay(claim("a"), kept("found"))
	k.take(claim("b"))
}

func resolveStates(k *kit) {
	k.take(claim("in flight"))
	k.done(claim("completed"), "done")
	k.release(k.take(claim("released")))
	k.held("held")
	possible := map[string]bool{
		fmt.Sprint("completed", once.ReleaseDone): true,
		fmt.Sprint("held", once.RunAgain):         true,
		fmt.Sprint("held", once.AnswerWith):       true,
	}
	for _, name := range []string{"in flight", "completed", "released", "held"} {
		for _, d := range []once.Decision{0, once.RunAgain, once.AnswerWith, once.ReleaseDone, 77} {
			if possible[fmt.Sprint(name, d)] {
				continue
			}
			what := fmt.Sprintf("decision %d about what is %s", d, name)
			k.unchanged(what, identity(name), func() {
				err := k.decide(identity(name), once.Resolution{Decision: d, Outcome: kept("no")})
				k.wantErr(what, err, once.ErrState)
			})
		}
	}
}

func resolveNotFound(k *kit) {
	for _, d := range []once.Decision{once.RunAgain, once.AnswerWith, once.ReleaseDone} {
		err := k.decide(identity("a"), once.Resolution{Decision: d, Outcome: kept("no")})
		k.wantErr("of nothing", err, once.ErrNotFound)
	}
	k.done(k.brief("b"), "old")
	k.expire()
	err := k.decide(identity("b"), once.Resolution{Decision: once.ReleaseDone})
	k.wantErr("of what is past its retention", err, once.ErrNotFound)
	if g := k.take(claim("a")); g.Attempt != 1 {
		k.Errorf("granted %+v", g)
	}
}

func resolveFence(k *kit) {
	g := k.held("a")
	seen := k.record(g.Identity).Fence
	for _, fence := range []int64{seen - 1, seen + 1} {
		k.unchanged("a decision about another fence", g.Identity, func() {
			err := k.decide(g.Identity, once.Resolution{Decision: once.RunAgain, Fence: fence})
			k.wantErr("with another fence", err, once.ErrState)
		})
	}
	k.resolve(g.Identity, once.Resolution{Decision: once.RunAgain, Fence: seen})
	next := k.take(holding(claim("a")))
	k.lose(next)
	err := k.decide(g.Identity, once.Resolution{Decision: once.RunAgain, Fence: seen})
	k.wantErr("with the fence of before", err, once.ErrState)
	k.wantHeld(claim("a"))
}

func resolveMismatch(k *kit) {
	g := k.held("a")
	k.resolve(g.Identity, once.Resolution{Decision: once.RunAgain})
	k.wantMismatch(changed(claim("a")))
	k.done(claim("b"), "done")
	k.resolve(identity("b"), once.Resolution{Decision: once.ReleaseDone})
	k.wantMismatch(changed(claim("b")))
}

func resolveTwice(k *kit) {
	g := k.held("a")
	errs := make([]error, 10)
	together(len(errs), func(i int) {
		errs[i] = k.decide(g.Identity, once.Resolution{
			Decision: once.AnswerWith, Outcome: kept(fmt.Sprint(i)),
		})
	})
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won >= 0:
			k.Fatal("two decided")
		case err == nil:
			won = i
		case !errors.Is(err, once.ErrState):
			k.Errorf("the others were told: %v", err)
		}
	}
	k.wantReplay(claim("a"), kept(fmt.Sprint(won)))
}

func resolveHeldNoMore(k *kit) {
	g := k.held("a")
	k.resolve(g.Identity, once.Resolution{Decision: once.RunAgain})
	next := k.take(claim("a")) // under retry
	k.lose(next)
	k.wantTaken(claim("a"), next)
}
