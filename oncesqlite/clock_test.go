package oncesqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/oncekit/once/queue"
)

func TestClockGoesOnWhenTheMachinesIsSetBack(t *testing.T) {
	wall, passed := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC), time.Duration(0)
	begun := time.Now() // its monotonic part is what time.Now gives
	c := &clock{source: func() time.Time { return wall.Add(passed) }}
	first := c.now()
	if first != wall.UnixMicro() {
		t.Fatalf("%d, want %d", first, wall.UnixMicro())
	}
	wall = wall.Add(-24 * time.Hour)
	if got := c.now(); got != first {
		t.Errorf("set back it is %d, want %d", got, first)
	}
	c.read = wall // as a monotonic reading has it: no time has passed
	for _, d := range []time.Duration{16 * time.Second, time.Hour} {
		passed = d
		got := time.Duration(c.now()-first) * time.Microsecond
		if got != d-d/16 {
			t.Errorf("%v after %v", got, d)
		}
	}
	wall = wall.Add(48 * time.Hour)
	if got, want := c.now(), wall.Add(passed).UnixMicro(); got != want {
		t.Errorf("caught up it is %d, want %d", got, want)
	}
	real := &clock{source: time.Now}
	real.start(begun.Add(time.Hour).UnixMicro())
	at := real.now()
	for deadline := begun.Add(10 * time.Second); real.now() == at; {
		if time.Now().After(deadline) {
			t.Fatal("it stands still behind the time that was given out before a restart")
		}
	}
}

func TestARetryIsDueInTimeThoughTheMachinesClockWasSetBack(t *testing.T) {
	clock := newClock()
	cfg := Config{Path: filepath.Join(t.TempDir(), "once.db"), Now: clock.now}
	s := openAt(t, cfg)
	mustAppend(t, s, callback("a"))
	row := mustLease(t, s, testLane, 1)[0]
	clock.advance(-24 * time.Hour)
	mustAppend(t, s, callback("b"))
	set := queue.Settlement{Grant: row.Grant(), State: queue.Pending, RetryIn: 15 * time.Second}
	if err := s.Settle(t.Context(), []queue.Settlement{set})[0]; err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, cfg)
	mustAppend(t, s, callback("c"))
	clock.advance(17 * time.Second)
	mustAppend(t, s, callback("d"))
	if rows := mustLease(t, s, testLane, 5); len(rows) != 4 {
		t.Errorf("%d rows are due, want 4", len(rows))
	}
}

// A row waits for what comes while the store is served: the time in which nobody did is no part of
// its limit, up to a minute.
func TestALimitThatEndedWhileNobodyServedTheStoreIsPutOff(t *testing.T) {
	clock := newClock()
	path := filepath.Join(t.TempDir(), "once.db")
	s := openAt(t, Config{Path: path, Now: clock.now})
	mustAppend(t, s, callback("waits"))
	mustSettle(t, s, mustLease(t, s, testLane, 1)[0], queue.Settlement{State: queue.Parked,
		Park: &queue.Park{Waits: []string{"x"}, Limit: 4 * time.Second}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	clock.advance(time.Hour)
	s = openAt(t, Config{Path: path, Now: clock.now})
	mustAppend(t, s, callback("other"))
	clock.advance(waitGrace - time.Second)
	mustAppend(t, s, callback("another"))
	if row := rowOf(t, s, queue.Callback, identityOf("waits")); row.State != queue.Parked {
		t.Errorf("within a minute after the start it is %s", row.State)
	}
	clock.advance(2 * time.Second)
	mustAppend(t, s, callback("last"))
	row := rowOf(t, s, queue.Callback, identityOf("waits"))
	if row.State != queue.Pending || !row.LimitPassed {
		t.Errorf("after it: %s, limit passed %v", row.State, row.LimitPassed)
	}
}
