package onceredis_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/onceredis"
)

// Each step leaves its key with the expiry of the state that it made. Times are those of claimOf: a
// lease of a minute, a retention of an hour and its 16th.
func TestEachStepLeavesTheExpiryOfItsState(t *testing.T) {
	t.Parallel()
	const kept = time.Hour + time.Hour/16
	s, server := single(t, onceredis.Config{MayForget: true})
	lives := func(step, name string, want time.Duration) {
		t.Helper()
		ms, err := strconv.ParseInt(server.Do("PTTL", s.Key(claimOf(name).Identity)), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		got := time.Duration(ms) * time.Millisecond
		if want == 0 && ms != -1 || want != 0 && (got > want || got < want-10*time.Second) {
			t.Errorf("%s: the key lives for %v, want %v (0: it has no expiry)", step, got, want)
		}
	}
	holding := func(name string) once.Claim {
		c := claimOf(name)
		c.OnUnknown = once.Hold
		return c
	}
	unknown := once.Outcome{Kind: once.Unknown}

	g := claim(t, s, claimOf("retry"))
	lives("claimed", "retry", time.Minute+kept)
	want(t, "renew", s.Renew(t.Context(), g, 5*time.Minute), nil)
	lives("renewed", "retry", 5*time.Minute+kept)
	want(t, "lose", s.Complete(t.Context(), g, unknown), nil)
	lives("unknown", "retry", 0)
	g = claim(t, s, claimOf("retry"))
	lives("taken over", "retry", time.Minute+kept)
	want(t, "release", s.Release(t.Context(), g), nil)
	lives("released", "retry", kept)
	complete(t, s, claim(t, s, claimOf("retry")), "done")
	lives("completed", "retry", kept)

	g = claim(t, s, holding("hold"))
	lives("claimed to hold", "hold", 0)
	want(t, "renew", s.Renew(t.Context(), g, 5*time.Minute), nil)
	lives("renewed to hold", "hold", 0)
	complete(t, s, g, "done")
	lives("completed", "hold", kept)

	claim(t, s, claimOf("held later"))
	s.Advance(2 * time.Minute)
	id := claimOf("held later").Identity
	r, err := s.Record(t.Context(), id)
	if err != nil || r.State != once.Lost || r.ExpiresAt.Sub(r.LeaseEnd) != kept {
		t.Errorf("lost: %+v, %v, want it to expire %v after its lease", r, err, kept)
	}
	_, err = s.Claim(t.Context(), holding("held later"))
	want(t, "claim of what was lost", err, once.ErrUnknown)
	lives("held by who came later", "held later", 0)
	again := once.Resolution{Decision: once.RunAgain}
	want(t, "run again", s.Resolve(t.Context(), id, again), nil)
	lives("resolved", "held later", kept)
}

// The fence has the server's time as its floor, and its own past too.
func TestFencesRiseWhenTheServersClockIsSetBack(t *testing.T) {
	t.Parallel()
	s, _ := single(t, onceredis.Config{})
	first := claim(t, s, claimOf("a"))
	want(t, "release", s.Release(t.Context(), first), nil)
	s.Advance(-10 * time.Minute)
	g := claim(t, s, claimOf("a"))
	if g.Fence != first.Fence+1 {
		t.Errorf("fence %d after %d, want the next number", g.Fence, first.Fence)
	}
	complete(t, s, g, "done")
	freed := once.Resolution{Decision: once.ReleaseDone}
	want(t, "resolve", s.Resolve(t.Context(), g.Identity, freed), nil)
	if r, err := s.Record(t.Context(), g.Identity); err != nil || r.Fence != g.Fence+1 {
		t.Errorf("after a decision: fence %d after %d, %v, want the next number", r.Fence, g.Fence,
			err)
	}
}
