package queue

import (
	"testing"
	"time"
)

func TestBackoffBoundsDoubleUpToTheirCap(t *testing.T) {
	b := Backoff{Base: time.Second, Cap: 10 * time.Second}
	for n, want := range map[int]time.Duration{-1: time.Second, 0: time.Second, 1: time.Second,
		2: 2 * time.Second, 3: 4 * time.Second, 4: 8 * time.Second, 5: 10 * time.Second,
		6: 10 * time.Second, 1000: 10 * time.Second, 1 << 40: 10 * time.Second} {
		if got := b.Bound(n); got != want {
			t.Errorf("bound %d is %v, want %v", n, got, want)
		}
	}
	for _, c := range []struct {
		b    Backoff
		n    int
		want time.Duration
	}{
		{Backoff{}, 1, 500 * time.Millisecond}, {Backoff{}, 3, 2 * time.Second},
		{Backoff{}, 99, time.Minute},
		{Backoff{Base: time.Hour}, 1, time.Minute}, // never above the cap
		{Backoff{Base: 1 << 61, Cap: 1 << 62}, 50, 1 << 62},
	} {
		if got := c.b.Bound(c.n); got != c.want {
			t.Errorf("%+v: bound %d is %v, want %v", c.b, c.n, got, c.want)
		}
	}
}

func TestD10_JitterSpreadsWhatFailedTogether(t *testing.T) {
	const rows, seconds = 10_000, 60
	b := Backoff{Base: time.Second, Cap: seconds * time.Second}
	var perSecond [seconds]int
	for range rows {
		d := b.Jitter(20)
		if d <= 0 || d > seconds*time.Second {
			t.Fatalf("jitter %v", d)
		}
		perSecond[(d-1)/time.Second]++
	}
	for s, n := range perSecond {
		if n >= 2*rows/seconds || n < rows/seconds/2 {
			t.Errorf("second %d: %d of %d rows", s, n, rows)
		}
	}
}
