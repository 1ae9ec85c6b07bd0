package oncesqlite

import (
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/powercut"
	"github.com/oncekit/once/queue"
)

func recalls(s *Store, name string) bool {
	a := callback(name)
	return s.Recall(a.Identity, a.Fingerprint, a.Peer)
}

func TestOnlyWhatIsDurableAndNotDeadIsRecalled(t *testing.T) {
	d := powercut.NewDisk(1)
	s := openAt(t, onDisk(t, d))
	if recalls(s, "a") {
		t.Error("recalled what never came")
	}
	held, release := holdSyncs(d)
	defer release()
	stored := make(chan struct{})
	go func() {
		defer close(stored)
		if _, err := s.Append(t.Context(), []queue.Arrival{callback("a")}); err != nil {
			t.Errorf("append: %v", err)
		}
	}()
	<-held
	if recalls(s, "a") {
		t.Error("recalled what is not flushed")
	}
	release()
	<-stored
	if !recalls(s, "a") {
		t.Error("not recalled although it is durable")
	}
	a := callback("a")
	if s.Recall(a.Identity, once.FingerprintRaw([]byte("other")), a.Peer) {
		t.Error("recalled with other content")
	}
	mustSettle(t, s, mustLease(t, s, testLane, 1)[0],
		queue.Settlement{State: queue.Dead, DeadCause: queue.CauseTransient, Error: "no"})
	if recalls(s, "a") {
		t.Error("recalled although it is dead: a repeat revives it")
	}
}

func TestARecalledRepeatIsCounted(t *testing.T) {
	clock := newClock()
	cfg := onDisk(t, powercut.NewDisk(1))
	cfg.Now = clock.now
	s := openAt(t, cfg)
	mustAppend(t, s, callback("a"))
	for range 5 {
		if !recalls(s, "a") {
			t.Fatal("not recalled")
		}
	}
	clock.advance(2 * time.Second)
	until(t, "5 duplicates", func() bool {
		return rowOf(t, s, queue.Callback, identityOf("a")).Duplicates == 5
	})
}

func TestAStoreThatIsClosedRecallsNothing(t *testing.T) {
	s, err := Open(t.Context(), onDisk(t, powercut.NewDisk(1)))
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, callback("a"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if recalls(s, "a") { // who would count it?
		t.Error("recalled after Close")
	}
}

// A reader sees what a transaction did before that is durable. Who saw that a row is gone, and
// sends its callback again, must not be told that it is known.
func TestWhatAReaderSeesGoneIsNotRecalled(t *testing.T) {
	d, clock := powercut.NewDisk(1), newClock()
	cfg := onDisk(t, d)
	cfg.Now = clock.now
	s := openAt(t, cfg)
	mustAppend(t, s, callback("a"))
	mustSettle(t, s, mustLease(t, s, testLane, 1)[0], queue.Settlement{State: queue.Done})
	clock.advance(2 * time.Hour)
	held, release := holdSyncs(d)
	defer release()
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		if n, err := s.Sweep(t.Context(), 10); n != 1 || err != nil {
			t.Errorf("swept %d, %v", n, err)
		}
	}()
	<-held
	if n := scan(t, s, "SELECT count(*) FROM rows")[0]; n != 0 {
		t.Fatalf("%d rows are seen, want none", n)
	}
	if recalls(s, "a") {
		t.Error("recalled although it is gone")
	}
	release()
	<-swept
}
