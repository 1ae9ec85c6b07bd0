package oncesqlite

import (
	"testing"
	"time"
)

func TestATransactionIsAboutAsLongAsAFlush(t *testing.T) {
	for took, want := range map[time.Duration]int{
		0: 96, time.Millisecond: 96, 10 * time.Millisecond: 400, time.Second: 1024,
	} {
		s := &Store{}
		s.flusher.took.Store(int64(took))
		if got := s.batchSize(); got != want {
			t.Errorf("after a flush of %v: up to %d operations, want %d", took, got, want)
		}
	}
}

func TestAStepHasTwiceTheTimeOfTheOthersWithinBounds(t *testing.T) {
	for others, want := range map[time.Duration]time.Duration{
		0: 300 * time.Microsecond, time.Millisecond: 2 * time.Millisecond,
		time.Second: 3 * time.Millisecond,
	} {
		if got := stepTime(others); got != want {
			t.Errorf("others had %v: a step may take %v, want %v", others, got, want)
		}
	}
}
