package queue

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestAPausedLaneTriesOneRowAtEachProbeAndLeavesTheOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(5, "work")
		var gate Gate
		var mu sync.Mutex
		var tried []time.Duration // until the refusal ends
		begun, refusing := time.Now(), true
		stop := running(t, s, Worker{
			Concurrency: 4, Changed: gate.Changed(),
			Limit: func() int { return gate.Limit(4) },
			Attempt: func(context.Context, Row) Settlement {
				probe, err := gate.Begin()
				if err != nil {
					t.Errorf("a row was taken for nothing: %v", err)
					return Settlement{State: Pending, NotTried: true, RetryIn: time.Second}
				}
				at := time.Since(begun)
				time.Sleep(time.Second) // all of a batch are under way
				mu.Lock()
				defer mu.Unlock()
				if refusing {
					tried = append(tried, at)
					gate.End(probe, Refused, "401", time.Minute)
					return Settlement{State: Pending, NotTried: true, RetryIn: time.Second}
				}
				gate.End(probe, Admitted, "", time.Minute)
				return Settlement{State: Done}
			},
		}, Config{})
		time.Sleep(3*time.Minute + 30*time.Second)
		mu.Lock()
		refusing = false
		mu.Unlock()
		// Those that were under way when it began, then one a minute after the
		// answer of the one before.
		want := []time.Duration{0, 0, 0, 0, 61 * time.Second, 122 * time.Second, 183 * time.Second}
		if !slices.Equal(tried, want) {
			t.Errorf("tried at %v, want %v", tried, want)
		}
		time.Sleep(time.Minute)
		if n := s.count(Done); n != 5 || gate.Pauses() != 1 {
			t.Errorf("%d of 5 rows are done after %d pauses", n, gate.Pauses())
		}
		stop()
	})
}

func TestAGateTellsOnceThatAPauseBeganAndEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		end := func(probe bool, v Verdict) string {
			began, ended := g.End(probe, v, "401", time.Minute)
			return map[[2]bool]string{{true, false}: "began", {false, true}: "ended"}[[2]bool{
				began, ended}]
		}
		begin := func() bool {
			probe, err := g.Begin()
			if err != nil {
				t.Fatal(err)
			}
			return probe
		}
		check := func(what, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: a pause %q, want %q", what, got, want)
			}
		}
		first, second, third := begin(), begin(), begin()
		check("an admission while open", end(third, Admitted), "")
		check("a refusal", end(first, Refused), "began")
		check("a refusal of what was under way", end(second, Refused), "")
		if _, err := g.Begin(); err == nil || err.Error() != "paused: 401" {
			t.Errorf("a row was tried in a pause: %v", err)
		}
		for _, v := range []Verdict{Refused, Unsaid} {
			time.Sleep(time.Minute)
			probe := begin()
			if _, err := g.Begin(); err == nil || g.Limit(16) != 0 {
				t.Error("a second row was tried beside the probe")
			}
			check("a probe that was not admitted", end(probe, v), "")
		}
		time.Sleep(time.Minute)
		check("a probe that was admitted", end(begin(), Admitted), "ended")
		if p, paused := g.Paused(); paused || p.Reason != "" || g.Limit(16) != 16 {
			t.Errorf("after the pause: %+v, limit %d", p, g.Limit(16))
		}
		if g.Resume() {
			t.Error("a pause was ended that was none")
		}
	})
}

func TestAPauseThatWasEndedWhileItIsProbedDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		g.End(false, Refused, "401", time.Second)
		time.Sleep(time.Second)
		probe, err := g.Begin()
		if err != nil || !probe {
			t.Fatalf("probe %v, %v", probe, err)
		}
		g.Resume()
		if began, ended := g.End(probe, Unsaid, "", time.Minute); began || ended {
			t.Errorf("began %v, ended %v", began, ended)
		}
		if p, paused := g.Paused(); paused {
			t.Errorf("it is paused again: %+v", p)
		}
	})
}
