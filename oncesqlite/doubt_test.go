package oncesqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/powercut"
	"github.com/oncekit/once/queue"
)

// What nobody was told of because its flush failed is in the file all the same. What is remembered
// in memory has to agree with it: a row that died is revived by a repeat, one that was swept is
// new, and repeats are counted once.
func TestMemoryAgreesWithTheFileAfterAFlushThatFailed(t *testing.T) {
	d, clock := powercut.NewDisk(1), newClock()
	cfg := onDisk(t, d)
	cfg.Now = clock.now
	s := openAt(t, cfg)
	fails := func(what string, do func() error) {
		t.Helper()
		d.LoseSync("/once.db-wal")
		if err := do(); !errors.Is(err, once.ErrUnavailable) {
			t.Fatalf("%s: %v", what, err)
		}
		mustAppend(t, s, callback("after "+what)) // the store is well again
		mustSettle(t, s, mustLease(t, s, testLane, 1)[0], queue.Settlement{State: queue.Done})
	}

	mustAppend(t, s, callback("a"))
	row := mustLease(t, s, testLane, 1)[0]
	fails("dying", func() error {
		return s.Settle(t.Context(), []queue.Settlement{{Grant: row.Grant(), State: queue.Dead,
			DeadCause: queue.CauseTransient, Error: "no"}})[0]
	})
	if r := mustAppend(t, s, callback("a"))[0]; !r.Revived {
		t.Errorf("a repeat of the dead row: %+v, want it revived", r)
	}
	mustSettle(t, s, mustLease(t, s, testLane, 1)[0], queue.Settlement{State: queue.Done})
	mustAppend(t, s, callback("a"), callback("a"))

	clock.advance(2 * notesDelay)
	fails("counting", func() error {
		_, err := s.Append(t.Context(), []queue.Arrival{callback("b")})
		return err
	})
	mustSettle(t, s, mustLease(t, s, testLane, 1)[0], queue.Settlement{State: queue.Done}) // b's
	clock.advance(2 * notesDelay)
	until(t, "every repeat to be counted", func() bool { return s.notes.len() == 0 })
	mustAppend(t, s, callback("c"))
	if n := rowOf(t, s, queue.Callback, identityOf("a")).Duplicates; n != 3 {
		t.Errorf("%d duplicates, 3 came", n)
	}

	clock.advance(2 * time.Hour)
	fails("sweeping", func() error {
		_, err := s.Sweep(t.Context(), 100)
		return err
	})
	if r := mustAppend(t, s, callback("a"))[0]; r.Outcome != queue.Accepted {
		t.Errorf("a callback whose identity is forgotten is told %q", r.Outcome)
	}
	checkFile(t, s)
}

// While a hole in the WAL is mended the power fails: no part of what is behind the hole may have
// come into the database file.
func TestAPowerCutBesideTheMendingOfTheWALDamagesNothing(t *testing.T) {
	many := func(name string) (as []queue.Arrival) {
		for i := range 600 {
			as = append(as, callback(fmt.Sprint(name, i)))
		}
		return as
	}
	for seed := range uint64(16) {
		d := powercut.NewDisk(seed)
		s, err := Open(t.Context(), onDisk(t, d))
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, s, many("base")...)
		if err := s.Close(); err != nil { // all is in the database file
			t.Fatal(err)
		}
		vfs.Unregister(walVFSPrefix + s.cfg.VFS)
		if s, err = Open(t.Context(), onDisk(t, d)); err != nil {
			t.Fatal(err)
		}
		mustAppend(t, s, callback("before"))
		d.LoseSync("/once.db-wal")
		if _, err = s.Append(t.Context(), many("doubt")); !errors.Is(err, once.ErrUnavailable) {
			t.Fatalf("append: %v", err)
		}
		d.CutAfter(int(1 + seed)) // in one of the operations of the mending, or after it
		_, told := s.Append(context.Background(), []queue.Arrival{callback("after")})
		left := d.Survive()
		_ = s.Close() // the power is off
		vfs.Unregister(walVFSPrefix + s.cfg.VFS)

		s, err = Open(t.Context(), onDisk(t, left))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		checkFile(t, s)
		names := []string{"base0", "base599", "before"}
		if told == nil {
			names = append(names, "after")
		}
		for _, name := range names {
			if rowOf(t, s, queue.Callback, identityOf(name)).Seq == 0 {
				t.Errorf("seed %d: %s is lost", seed, name)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		left.Close()
		d.Close()
	}
}

// While the WAL may have a hole nothing of it is written back, neither beside the writer nor by it.
func TestNothingBehindAHoleIsWrittenBack(t *testing.T) {
	d := powercut.NewDisk(1)
	s := openAt(t, onDisk(t, d))
	mustAppend(t, s, callback("before"))
	d.LoseSync("/once.db-wal")
	_, err := s.Append(t.Context(), []queue.Arrival{callback("doubt")})
	if !errors.Is(err, once.ErrUnavailable) {
		t.Fatalf("append: %v", err)
	}
	writes := func() int { return d.Counts("/once.db").Writes }
	before := writes()
	c := s.writeBack(nil)
	if n := writes() - before; n > 0 {
		t.Errorf("%d pages were written behind the hole", n)
	}
	mustAppend(t, s, callback("after")) // mends it
	c = s.writeBack(c)
	if writes() == before {
		t.Error("nothing is written back after the hole was mended")
	}
	if c != nil {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	}
}

// The second attempt at a segment finds other rows than the first one, since some were swept or
// given another event, and so has other blocks.
func TestNothingOfASegmentThatWasBegunIsLeftInIt(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db"), segmentRows: 64})
	task := func(i int) string { return fmt.Sprint("task", i) }
	left := blocksOf(postingsOf([]entry{{termOf(task(5)), 1000}, {termOf(task(9)), 1001}}))
	if err := s.do(t.Context(), &op{run: func(x *txn) error {
		return x.writeBlocks(1, left)
	}}); err != nil {
		t.Fatal(err)
	}
	var as []queue.Arrival
	for i := range 64 {
		a := callback(fmt.Sprint("row", i))
		a.Task = task(i)
		as = append(as, a)
	}
	mustAppend(t, s, as...)
	until(t, "the segment", func() bool {
		return scan(t, s, "SELECT count(*) FROM segments")[0] == 1
	})
	for i := range 64 {
		page, err := s.Rows(t.Context(), queue.RowQuery{Kind: queue.Callback, Task: task(i),
			Limit: 2})
		if err != nil || len(page.Rows) != 1 {
			t.Errorf("%d rows of %s, want 1, %v", len(page.Rows), task(i), err)
		}
	}
}

// Past their bound, repeats are written at once: it is passed by no more than a transaction brings.
func TestRepeatsThatWaitToBeCountedAreBounded(t *testing.T) {
	const part = 300 // more than a transaction writes of those that wait
	s := openAt(t, onDisk(t, powercut.NewDisk(1)))
	var as []queue.Arrival
	for i := range 3 * part {
		as = append(as, callback(fmt.Sprint(i)))
	}
	mustAppend(t, s, as...)
	for i := range maxNotes {
		s.notes.add(int64(10*part+i), s.clock.now(), "") // rows that were swept
	}
	s.known.clear()
	for i := 0; i < len(as); i += part {
		mustAppend(t, s, as[i:i+part]...)
	}
	if n := s.notes.len(); n > maxNotes+part {
		t.Errorf("%d repeats wait, the bound is %d", n, maxNotes)
	}
	if n := scan(t, s, "SELECT count(*) FROM receipts")[0]; n == 0 {
		t.Error("none was written at once")
	}
}
