package oncesqlite

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekit/once/internal/powercut"
	"github.com/oncekit/once/queue"
)

// One callback that comes after many messages with a hundred each is not behind all of them.
func TestACallbackWaitsForOneLongMessageAtATime(t *testing.T) {
	const messages = 20
	d := powercut.NewDisk(1)
	s := openAt(t, onDisk(t, d))
	held, release := holdSyncs(d)
	defer release()
	errs := make(chan error, messages+2)
	send := func(name string, n int, told func()) {
		var as []queue.Arrival
		for i := range n {
			as = append(as, callback(fmt.Sprint(name, i)))
		}
		go func() {
			_, err := s.Append(t.Context(), as)
			told()
			errs <- err
		}()
	}
	send("first", 1, func() {})
	<-held
	var long, before atomic.Int64
	for i := range messages {
		send(fmt.Sprint("long", i, "/"), 100, func() { long.Add(1) })
	}
	// The writer has one in a transaction and may hold the next, whichever that is.
	waiting := func() int { return len(s.longOps) + len(s.ops) }
	until(t, "the others to wait", func() bool { return waiting() >= messages-2 })
	send("short", 1, func() { before.Store(long.Load()) })
	until(t, "the short one too", func() bool { return waiting() >= messages+1-2 })
	d.BeforeSync(nil)
	release()
	for range messages + 2 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if n := before.Load(); n > messages/2 {
		t.Errorf("%d of %d long messages were told before it", n, messages)
	}
}

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
