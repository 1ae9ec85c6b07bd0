package oncesqlite

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/oncekit/once"
)

// claimOf is a claim of a name, with a lease of 30 s and a retention of an hour.
func claimOf(name string) once.Claim {
	return once.Claim{
		Identity: identityOf(name), Fingerprint: once.FingerprintRaw([]byte(name)),
		Owner: once.NewOwner(), Lease: 30 * time.Second, Retention: time.Hour,
	}
}

func mustClaim(t testing.TB, r *Records, c once.Claim) once.Grant {
	t.Helper()
	g, err := r.Claim(t.Context(), c)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return g
}

func mustComplete(t testing.TB, r *Records, g once.Grant, data string) {
	t.Helper()
	if err := r.Complete(t.Context(), g, once.Outcome{Data: []byte(data)}); err != nil {
		t.Fatalf("complete: %v", err)
	}
}

// wantReplay claims a name and wants the outcome that is kept for it.
func wantReplay(t testing.TB, r *Records, name, data string) {
	t.Helper()
	_, err := r.Claim(t.Context(), claimOf(name))
	var replay *once.ReplayError
	if !errors.As(err, &replay) || string(replay.Outcome.Data) != data {
		t.Fatalf("claim %s: %v, want the replay of %q", name, err, data)
	}
}

// mustWrite changes the file as nothing in the store would.
func mustWrite(t *testing.T, s *Store, query string, args ...any) {
	t.Helper()
	err := s.do(t.Context(), &op{run: func(t *txn) error { return t.c.exec(query, args...) }})
	if err != nil {
		t.Fatal(err)
	}
	s.records.outcomes.clear()
}

// recordsAt opens a store on a clock that stands still.
func recordsAt(t *testing.T, cfg Config) (*Store, *Records, *fakeClock) {
	t.Helper()
	clock := newClock()
	if cfg.Path == "" {
		cfg.Path = filepath.Join(t.TempDir(), "once.db")
	}
	cfg.Now = clock.now
	s := openAt(t, cfg)
	return s, s.Records(), clock
}

func TestAFirstClaimIsGrantedAndARepeatIsReplayed(t *testing.T) {
	_, r, _ := recordsAt(t, Config{})
	g := mustClaim(t, r, claimOf("a"))
	if g.Attempt != 1 || g.Takeover || g.Fence < newClock().now().UnixMicro() {
		t.Errorf("grant %+v", g)
	}
	var busy *once.InFlightError
	if _, err := r.Claim(t.Context(), claimOf("a")); !errors.As(err, &busy) ||
		busy.Rest != 30*time.Second || busy.Age != 0 {
		t.Errorf("a claim meanwhile: %v", err)
	}
	mustComplete(t, r, g, "done")
	wantReplay(t, r, "a", "done")
	mustComplete(t, r, g, "done") // its answer was lost
	if err := r.Release(t.Context(), g); !errors.Is(err, once.ErrLeaseLost) {
		t.Errorf("release of what is completed: %v", err)
	}
}

// Whether a replay comes from memory or from the file, what is asked for is compared first.
func TestF10_AChangedRequestIsRefusedFromMemoryAndFromTheFile(t *testing.T) {
	for name, kib := range map[string]int{"memory": 0, "file": -1} {
		t.Run(name, func(t *testing.T) {
			_, r, _ := recordsAt(t, Config{ReplayKiB: kib})
			mustComplete(t, r, mustClaim(t, r, claimOf("a")), "done")
			wantReplay(t, r, "a", "done")
			if known := r.outcomes.get(identityOf("a")) != nil; known != (kib == 0) {
				t.Fatalf("known in memory: %v", known)
			}
			changed := claimOf("a")
			changed.Fingerprint = once.FingerprintRaw([]byte("something else"))
			if _, err := r.Claim(t.Context(), changed); !errors.Is(err, once.ErrMismatch) {
				t.Errorf("a changed request: %v", err)
			}
		})
	}
}

func TestAReplayIsNotTheReadersToChange(t *testing.T) {
	_, r, _ := recordsAt(t, Config{})
	data := []byte("done")
	g := mustClaim(t, r, claimOf("a"))
	if err := r.Complete(t.Context(), g, once.Outcome{Data: data}); err != nil {
		t.Fatal(err)
	}
	copy(data, "xxxx")
	for range 2 {
		_, err := r.Claim(t.Context(), claimOf("a"))
		var replay *once.ReplayError
		if !errors.As(err, &replay) || string(replay.Outcome.Data) != "done" {
			t.Fatalf("replay: %v", err)
		}
		copy(replay.Outcome.Data, "yyyy")
	}
}

// A long outcome is read by another connection than the one that writes, and is not kept in memory.
func TestALongOutcomeIsReplayedWhole(t *testing.T) {
	_, r, _ := recordsAt(t, Config{})
	for _, size := range []int{maxCached, maxCached + 1, 3 << 20} {
		name := string(rune('a' + size%26))
		data := bytes.Repeat([]byte("0123456789abcde\n"), size/16+1)[:size]
		g := mustClaim(t, r, claimOf(name))
		if err := r.Complete(t.Context(), g, once.Outcome{Data: data}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, err := r.Claim(t.Context(), claimOf(name))
			var replay *once.ReplayError
			if !errors.As(err, &replay) || !bytes.Equal(replay.Outcome.Data, data) {
				t.Fatalf("replay of %d bytes: %v", size, err)
			}
		}
		if known := r.outcomes.get(identityOf(name)) != nil; known != (size <= maxCached) {
			t.Errorf("%d bytes are in memory: %v", size, known)
		}
	}
}

func TestAnOutcomeAboveTheLimitChangesNothing(t *testing.T) {
	_, r, _ := recordsAt(t, Config{MaxOutcome: 100})
	g := mustClaim(t, r, claimOf("a"))
	err := r.Complete(t.Context(), g, once.Outcome{Data: make([]byte, 101)})
	if !errors.Is(err, once.ErrTooLarge) {
		t.Fatalf("complete: %v", err)
	}
	if _, err := r.Claim(t.Context(), claimOf("a")); !errors.Is(err, once.ErrInFlight) {
		t.Errorf("afterwards: %v", err)
	}
	if err := r.Complete(t.Context(), g, once.Outcome{Kind: once.Tombstone}); err != nil {
		t.Errorf("a tombstone: %v", err)
	}
}

// A replay counts as an arrival, also one of many that write nothing.
func TestRetentionCountsFromTheLastArrival(t *testing.T) {
	for name, kib := range map[string]int{"memory": 0, "file": -1} {
		t.Run(name, func(t *testing.T) {
			s, r, clock := recordsAt(t, Config{ReplayKiB: kib})
			mustComplete(t, r, mustClaim(t, r, claimOf("a")), "done")
			last := func() int64 { return scan(t, s, "SELECT last_at FROM records")[0] }
			first := last()
			clock.advance(time.Hour/touchPart - time.Microsecond)
			wantReplay(t, r, "a", "done")
			if last() != first {
				t.Error("a replay soon after the end of the work was written")
			}
			clock.advance(time.Hour - time.Microsecond) // after that arrival
			wantReplay(t, r, "a", "done")
			if last() == first {
				t.Error("a replay much later was not written")
			}
			clock.advance(time.Hour + time.Hour/sparePart)
			if g := mustClaim(t, r, claimOf("a")); g.Attempt != 1 || g.Takeover {
				t.Errorf("past its retention: %+v", g)
			}
		})
	}
}

func TestFencesRiseOverSweepsAndRestarts(t *testing.T) {
	s, r, clock := recordsAt(t, Config{})
	path := s.cfg.Path
	g := mustClaim(t, r, claimOf("a"))
	for range 3 { // a fence far ahead of the clock, as after many quick changes of hands
		if err := r.Release(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		next := mustClaim(t, r, claimOf("a"))
		if next.Fence <= g.Fence {
			t.Fatalf("fence %d after %d", next.Fence, g.Fence)
		}
		g = next
	}
	mustComplete(t, r, g, "done")
	mustWrite(t, s, "UPDATE records SET fence = fence + 100000000000")
	ahead := scan(t, s, "SELECT fence FROM records")[0]
	clock.advance(2 * time.Hour)
	if n, err := s.Sweep(t.Context(), 100); n != 1 || err != nil {
		t.Fatalf("sweep: %d, %v", n, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, r, _ = recordsAt(t, Config{Path: path}) // its clock stands before the first one's
	if next := mustClaim(t, r, claimOf("a")); next.Fence <= ahead {
		t.Errorf("fence %d after a sweep and a restart, was %d", next.Fence, ahead)
	}
}

func TestLossesOfAnEarlierProcessFollowAtOnce(t *testing.T) {
	s, r, clock := recordsAt(t, Config{})
	retried, held := mustClaim(t, r, claimOf("retried")), claimOf("held")
	held.OnUnknown = once.Hold
	g := mustClaim(t, r, held)
	mustComplete(t, r, mustClaim(t, r, claimOf("done")), "done")
	left := Config{Path: filepath.Join(t.TempDir(), "killed.db")}
	copyStore(t, s.cfg.Path, left.Path)
	clock.advance(time.Second)
	s, r, _ = recordsAt(t, left)
	if n := r.Counts(); n[once.Lost] != 1 || n[once.Held] != 1 || n[once.InFlight] != 0 ||
		n[once.Completed] != 1 {
		t.Errorf("counts %v", n)
	}
	next := mustClaim(t, r, claimOf("retried"))
	if !next.Takeover || next.Attempt != 2 || next.Fence <= retried.Fence {
		t.Errorf("taken over: %+v", next)
	}
	if _, err := r.Claim(t.Context(), claimOf("held")); !errors.Is(err, once.ErrUnknown) {
		t.Errorf("claim of what is held: %v", err)
	}
	if err := r.Renew(t.Context(), g, time.Minute); !errors.Is(err, once.ErrLeaseLost) {
		t.Errorf("renew: %v", err)
	}
	mustComplete(t, r, g, "after all") // the owner alone can know
	wantReplay(t, r, "held", "after all")
	wantReplay(t, r, "done", "done")
	checkFile(t, s)
}

// What a sweep writes about leases that ended changes nothing for anybody.
func TestALeaseThatEndedIsTheSameBeforeAndAfterASweep(t *testing.T) {
	for name, sweep := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			s, r, clock := recordsAt(t, Config{})
			a, b := claimOf("a"), claimOf("b")
			b.OnUnknown = once.Hold
			ga, gb := mustClaim(t, r, a), mustClaim(t, r, b)
			ended := newClock().now().Add(30 * time.Second)
			clock.advance(time.Minute)
			if sweep {
				if n, err := s.Sweep(t.Context(), 10); n != 0 || err != nil {
					t.Fatalf("sweep: %d, %v", n, err)
				}
				n := r.Counts()
				if n[once.Lost] != 1 || n[once.Held] != 1 || n[once.InFlight] != 0 {
					t.Errorf("counts %v", n)
				}
			}
			if got := mustClaim(t, r, a); got != ga {
				t.Errorf("the same owner's claim: %+v, want %+v", got, ga)
			}
			for state, id := range map[once.RecordState]once.Identity{
				once.Lost: a.Identity, once.Held: b.Identity,
			} {
				page, err := r.Records(t.Context(), once.RecordFilter{State: state})
				if err != nil || len(page.Records) != 1 || page.Records[0].Identity != id ||
					!page.Records[0].FinishedAt.IsZero() {
					t.Errorf("%s: %+v, %v", state, page.Records, err)
				}
			}
			_, err := r.Claim(t.Context(), claimOf("b"))
			var unknown *once.UnknownError
			if !errors.As(err, &unknown) || !unknown.Since.Equal(ended) {
				t.Errorf("claim of b: %v", err)
			}
			for _, g := range []once.Grant{ga, gb} {
				if err := r.Renew(t.Context(), g, time.Minute); err != nil {
					t.Errorf("renew: %v", err)
				}
			}
			if n := r.Counts(); n[once.InFlight] != 2 || n[once.Lost] != 0 || n[once.Held] != 0 {
				t.Errorf("counts %v", n)
			}
			if _, err := r.Claim(t.Context(), claimOf("b")); !errors.Is(err, once.ErrInFlight) {
				t.Errorf("claim of b: %v", err)
			}
		})
	}
}
