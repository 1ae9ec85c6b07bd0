package oncetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/oncekit/once"
)

// claimants is how many ask for one identity at the same moment.
const claimants = 100

func raceCases() []Case {
	return []Case{
		{Name: "Race/K03_New", Promise: "of many who ask for something new exactly one gets it, " +
			"and the others an answer, not a fault", run: raceNew},
		{Name: "Race/K04_SlowWinner", Promise: "a claim is never overwritten by one that looked " +
			"at the same time", run: raceSlowWinner},
		{Name: "Race/K15_Again", Promise: "exactly one, each time: the claim is atomic",
			run: raceMany},
		{Name: "Race/Released", Promise: "exactly one gets what was given back", run: raceReleased},
		{Name: "Race/Lapsed", Promise: "exactly one takes over a lease that ended",
			run: raceLapsed},
		{Name: "Race/Lost", Promise: "exactly one takes over a lost attempt", run: raceLost},
		{Name: "Race/Expired", Promise: "exactly one gets what is past its retention",
			run: raceExpired},
		{Name: "Race/Changed", Promise: "of two different requests under one new key only one " +
			"runs, and every one of the other kind is a mismatch", run: raceChanged},
		{Name: "Race/SameOwner", Promise: "one owner who asks many times at once has one grant",
			run: raceSameOwner},
		{Name: "Race/K23_DifferentKeys", Promise: "different keys never refuse each other",
			run: raceDifferent},
		{Name: "Race/CompleteAndTakeover", Promise: "either the late completion or the takeover " +
			"counts, never both", run: raceTakeover},
		{Name: "Race/CompleteAndRelease", Promise: "of an owner who completes and releases at " +
			"once, one counts", run: raceRelease},
		{Name: "Race/Replays", Promise: "many repeats at once all get the outcome",
			run: raceReplays},
	}
}

// together runs something many times at the same moment.
func together(n int, fn func(i int)) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	wg.Wait()
}

// rival makes claims from many goroutines; cases look at the answers afterwards.
func (k *kit) rival(n int, of func(i int) once.Claim) ([]once.Grant, []error) {
	grants, errs := make([]once.Grant, n), make([]error, n)
	together(n, func(i int) { grants[i], errs[i] = k.s.Claim(k.ctx, of(i)) })
	return grants, errs
}

// onlyOne lets many ask for an identity, and returns the grant of the one who got it.
func (k *kit) onlyOne(of func(i int) once.Claim) once.Grant {
	k.Helper()
	grants, errs := k.rival(claimants, of)
	var winner once.Grant
	n := 0
	for i, err := range errs {
		switch {
		case err == nil:
			winner = grants[i]
			n++
		case !errors.Is(err, once.ErrInFlight):
			k.Errorf("a loser was told: %v", err)
		}
	}
	if n != 1 {
		k.Fatalf("%d of %d got the identity", n, claimants)
	}
	return winner
}

func raceNew(k *kit) {
	g := k.onlyOne(func(int) once.Claim { return claim("a") })
	k.complete(g, kept("by the winner"))
	k.wantReplay(claim("a"), kept("by the winner"))
}

func raceSlowWinner(k *kit) {
	g := k.take(claim("a"))
	_, errs := k.rival(claimants, func(int) once.Claim { return claim("a") })
	for _, err := range errs {
		if !errors.Is(err, once.ErrInFlight) {
			k.Fatalf("answer while another has it: %v", err)
		}
	}
	k.complete(g, kept("first"))
	k.wantReplay(claim("a"), kept("first"))
}

func raceMany(k *kit) {
	for i := range 5 {
		name := fmt.Sprint("a", i)
		k.onlyOne(func(int) once.Claim { return claim(name) })
	}
}

func raceReleased(k *kit) {
	k.release(k.take(claim("a")))
	if g := k.onlyOne(func(int) once.Claim { return claim("a") }); g.Attempt != 2 {
		k.Errorf("granted %+v", g)
	}
}

func raceLapsed(k *kit) {
	k.take(k.lapsing("a"))
	k.lapse()
	g := k.onlyOne(func(int) once.Claim { return claim("a") })
	if g.Attempt != 2 || !g.Takeover {
		k.Errorf("granted %+v", g)
	}
}

func raceLost(k *kit) {
	k.lose(k.take(claim("a")))
	g := k.onlyOne(func(int) once.Claim { return claim("a") })
	if g.Attempt != 2 || !g.Takeover {
		k.Errorf("granted %+v", g)
	}
}

func raceExpired(k *kit) {
	k.done(k.brief("a"), "old")
	k.expire()
	if g := k.onlyOne(func(int) once.Claim { return claim("a") }); g.Attempt != 1 {
		k.Errorf("granted %+v", g)
	}
}

func raceChanged(k *kit) {
	_, errs := k.rival(claimants, func(i int) once.Claim {
		if i%2 == 0 {
			return claim("a")
		}
		return changed(claim("a"))
	})
	won := -1
	for i, err := range errs {
		if err == nil && won >= 0 {
			k.Fatal("two got the identity")
		}
		if err == nil {
			won = i
		}
	}
	if won < 0 {
		k.Fatal("nobody got the identity")
	}
	for i, err := range errs {
		want := once.ErrInFlight
		if i%2 != won%2 {
			want = once.ErrMismatch
		}
		if i != won && !errors.Is(err, want) {
			k.Errorf("a loser was told %v, want %v", err, want)
		}
	}
}

func raceSameOwner(k *kit) {
	c := claim("a")
	grants, errs := k.rival(20, func(int) once.Claim { return c })
	for i, err := range errs {
		if err != nil || grants[i] != grants[0] {
			k.Fatalf("%+v and %+v, %v", grants[0], grants[i], err)
		}
	}
}

func raceDifferent(k *kit) {
	grants, errs := k.rival(claimants, func(i int) once.Claim { return claim(fmt.Sprint(i)) })
	for _, err := range errs {
		if err != nil {
			k.Fatalf("a key of its own was refused: %v", err)
		}
	}
	together(claimants, func(i int) {
		if err := k.s.Complete(k.ctx, grants[i], kept(fmt.Sprint(i))); err != nil {
			k.Errorf("complete: %v", err)
		}
	})
	for i := range claimants {
		k.wantReplay(claim(fmt.Sprint(i)), kept(fmt.Sprint(i)))
	}
}

func raceTakeover(k *kit) {
	const rounds = 20
	old := make([]once.Grant, rounds)
	for i := range rounds {
		old[i] = k.take(k.lapsing(fmt.Sprint(i)))
	}
	k.lapse()
	completed, taken := make([]error, rounds), make([]error, rounds)
	together(2*rounds, func(i int) {
		if n := i / 2; i%2 == 0 {
			completed[n] = k.s.Complete(k.ctx, old[n], kept("late"))
		} else {
			_, taken[n] = k.s.Claim(k.ctx, claim(fmt.Sprint(n)))
		}
	})
	for i := range rounds {
		var replay *once.ReplayError
		switch {
		case completed[i] == nil && errors.As(taken[i], &replay):
		case errors.Is(completed[i], once.ErrLeaseLost) && taken[i] == nil:
		default:
			k.Errorf("completion: %v, takeover: %v", completed[i], taken[i])
		}
	}
}

func raceRelease(k *kit) {
	for i := range 10 {
		g := k.take(claim(fmt.Sprint(i)))
		var errs [2]error
		together(2, func(n int) {
			if n == 0 {
				errs[0] = k.s.Complete(k.ctx, g, kept("done"))
			} else {
				errs[1] = k.s.Release(k.ctx, g)
			}
		})
		switch {
		case errs[0] == nil && errors.Is(errs[1], once.ErrLeaseLost):
			k.wantReplay(claim(fmt.Sprint(i)), kept("done"))
		case errors.Is(errs[0], once.ErrLeaseLost) && errs[1] == nil:
			k.take(claim(fmt.Sprint(i)))
		default:
			k.Fatalf("complete: %v, release: %v", errs[0], errs[1])
		}
	}
}

func raceReplays(k *kit) {
	k.done(claim("a"), "the outcome")
	_, errs := k.rival(claimants, func(int) once.Claim { return claim("a") })
	for _, err := range errs {
		var replay *once.ReplayError
		if !errors.As(err, &replay) || string(replay.Outcome.Data) != "the outcome" {
			k.Fatalf("a repeat was told %v", err)
		}
	}
}
