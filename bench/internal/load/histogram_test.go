package load

import (
	"testing"
	"time"
)

func TestQuantilesOfKnownValues(t *testing.T) {
	var h histogram
	for i := range 1000 {
		h.add(time.Duration(i+1) * time.Microsecond)
	}
	for q, want := range map[float64]time.Duration{
		.5: 500 * time.Microsecond, .99: 990 * time.Microsecond, .999: 999 * time.Microsecond,
		1: 1000 * time.Microsecond,
	} {
		got := h.quantile(q)
		if got < want || got > want+want/64 {
			t.Errorf("quantile %v is %v, want %v to within 1/64 above", q, got, want)
		}
	}
	if h.max != time.Millisecond {
		t.Errorf("the longest is %v, want 1ms", h.max)
	}
}

func TestQuantileOfFewValuesIsOneOfThem(t *testing.T) {
	var h histogram
	if got := h.quantile(.99); got != 0 {
		t.Errorf("without values it is %v, want 0", got)
	}
	h.add(3)
	h.add(63)
	for q, want := range map[float64]time.Duration{.5: 3, .51: 63, .99: 63} {
		if got := h.quantile(q); got != want {
			t.Errorf("quantile %v of 3 and 63 is %v, want %v", q, got, want)
		}
	}
}

func TestBucketsJoinWithoutGapOrOverlap(t *testing.T) {
	for i := range 2000 {
		top := upper(i)
		if bucket(top) != i || bucket(top+1) != i+1 {
			t.Fatalf("bucket %d ends at %d, which is in bucket %d; the next value is in %d", i, top,
				bucket(top), bucket(top+1))
		}
	}
}

func TestALatencyBeyondAllBucketsIsKept(t *testing.T) {
	var h histogram
	h.add(100 * time.Hour)
	if h.n != 1 || h.max != 100*time.Hour || h.quantile(.5) == 0 {
		t.Errorf("%d values, longest %v, median %v", h.n, h.max, h.quantile(.5))
	}
}
