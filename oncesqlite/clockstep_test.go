package oncesqlite

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// steppedClock is the machine's clock as it reads after somebody has set it: another time of day,
// with the monotonic reading that time.Now gave.
type steppedClock struct{ seconds atomic.Int64 }

func (c *steppedClock) now() time.Time { return setForward(time.Now(), c.seconds.Load()) }

// setForward changes the time of day of a reading alone, which the time package has no call for: in
// its first word the seconds begin at bit 30.
func setForward(t time.Time, seconds int64) time.Time {
	(*struct {
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&t)).wall += uint64(seconds) << 30
	return t
}

// step sets the clock forward, after making sure that the reading is what it should be.
func (c *steppedClock) step(t *testing.T, d time.Duration) {
	t.Helper()
	before := time.Now()
	after := setForward(before, int64(d.Seconds()))
	if after.Sub(before) != 0 || after.Round(0).Sub(before.Round(0)) != d {
		t.Fatalf("set forward by %v, the time of day moves by %v and the monotonic reading by %v",
			d, after.Round(0).Sub(before.Round(0)), after.Sub(before))
	}
	c.seconds.Add(int64(d.Seconds()))
}

func TestAStepOfTheMachinesClockEndsNoAttempt(t *testing.T) {
	var clock steppedClock
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db"), Now: clock.now})
	r := s.Records()
	g := mustClaim(t, r, claimOf("a"))
	clock.step(t, time.Hour)
	var busy *once.InFlightError
	if _, err := r.Claim(t.Context(), claimOf("a")); !errors.As(err, &busy) || busy.Rest <= 0 ||
		busy.Rest > 30*time.Second {
		t.Fatalf("a claim beside the first one: %v, rest %+v", err, busy)
	}
	if _, err := r.Sweep(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	got, err := r.Record(t.Context(), identityOf("a"))
	if left := got.LeaseEnd.Sub(clock.now()); err != nil || got.State != once.InFlight ||
		left <= 0 || left > 30*time.Second {
		t.Errorf("%s, a lease of %v: %v", got.State, left, err)
	}
	page, err := r.Records(t.Context(), once.RecordFilter{State: once.InFlight})
	if err != nil || len(page.Records) != 1 {
		t.Errorf("%d in flight: %v", len(page.Records), err)
	}
	if err := r.Renew(t.Context(), g, time.Minute); err != nil {
		t.Fatal(err)
	}
	clock.step(t, time.Hour)
	if _, err := r.Claim(t.Context(), claimOf("a")); !errors.As(err, &busy) {
		t.Fatalf("a claim after the renewal: %v", err)
	}
	mustComplete(t, r, g, "done")
	wantReplay(t, r, "a", "done")
	clock.step(t, 2*time.Hour) // a retention is a time of day
	mustClaim(t, r, claimOf("a"))
}

// Time that has passed ends a lease whatever the time of day is.
func TestALeaseEndsAfterTheTimeThatPassed(t *testing.T) {
	var clock steppedClock
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db"), Now: clock.now})
	c := claimOf("a")
	c.Lease = 20 * time.Millisecond
	mustClaim(t, s.Records(), c)
	clock.step(t, time.Hour)
	clock.step(t, -2*time.Hour)
	end := time.Now().Add(10 * time.Second)
	for {
		g, err := s.Records().Claim(t.Context(), claimOf("a"))
		if err == nil && g.Attempt == 2 && g.Takeover {
			return
		}
		var busy *once.InFlightError
		if !errors.As(err, &busy) || time.Now().After(end) {
			t.Fatalf("%+v, %v", g, err)
		}
	}
}

func TestAStepOfTheMachinesClockEndsNoWork(t *testing.T) {
	var clock steppedClock
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db"), Now: clock.now})
	mustAppend(t, s, callback("a"))
	row := mustLease(t, s, testLane, 1)[0]
	clock.step(t, time.Hour)
	mustAppend(t, s, callback("b")) // housekeeping comes with it
	mustAppend(t, s, callback("c"))
	if rows := mustLease(t, s, testLane, 5); len(rows) != 2 {
		t.Fatalf("%d rows are due beside the one in hand, want 2", len(rows))
	}
	mustSettle(t, s, row, queue.Settlement{State: queue.Done})
}
