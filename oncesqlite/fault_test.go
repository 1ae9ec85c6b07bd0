package oncesqlite

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/powercut"
	"github.com/oncekit/once/queue"
)

// onDisk returns the configuration of a store on a simulated disk.
func onDisk(t *testing.T, d *powercut.Disk) Config {
	name := d.Register(t)
	t.Cleanup(func() { vfs.Unregister(walVFSPrefix + name) })
	return Config{Path: "/once.db", VFS: name, Readers: 1}
}

// faults are the ways in which a disk refuses to be written.
var faults = map[string]func(*powercut.Disk){
	"disk full": func(d *powercut.Disk) { d.FailWrites(sqlite3.FULL) },
	"I/O error": func(d *powercut.Disk) { d.FailWrites(sqlite3.IOERR) },
	"disk gone": func(d *powercut.Disk) {
		d.FailWrites(sqlite3.IOERR)
		d.FailReads(sqlite3.IOERR)
	},
	"disk locked": func(d *powercut.Disk) { d.FailWrites(sqlite3.READONLY) },
}

func TestADiskThatFailsIsToldAndSurvived(t *testing.T) {
	for name, fail := range faults {
		t.Run(name, func(t *testing.T) {
			d := powercut.NewDisk(1)
			s := openAt(t, onDisk(t, d))
			mustAppend(t, s, callback("before"), callback("in hand"))
			rows := mustLease(t, s, testLane, 1)
			fail(d)
			for i := range 5 {
				_, err := s.Append(t.Context(), []queue.Arrival{callback(fmt.Sprint("lost", i))})
				if !errors.Is(err, once.ErrUnavailable) {
					t.Fatalf("append: %v", err)
				}
			}
			set := queue.Settlement{Grant: rows[0].Grant(), State: queue.Done,
				Effects: []queue.Arrival{effectOf("before")}}
			if err := s.Settle(t.Context(), []queue.Settlement{set})[0]; !errors.Is(err,
				once.ErrUnavailable) {
				t.Fatalf("settle: %v", err)
			}
			if _, err := s.Lease(t.Context(), queue.LeaseRequest{Lane: testLane, Max: 1,
				For: time.Minute}); !errors.Is(err, once.ErrUnavailable) {
				t.Fatalf("lease: %v", err)
			}
			if err := s.Ping(t.Context()); !errors.Is(err, once.ErrUnavailable) {
				t.Errorf("ping: %v", err)
			}
			d.Heal()
			for i := range 5 { // nothing was acknowledged, so nothing is known
				r := mustAppend(t, s, callback(fmt.Sprint("lost", i)))[0]
				if r.Outcome != queue.Accepted {
					t.Errorf("after the fault: %s", r.Outcome)
				}
			}
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("ping after the fault: %v", err)
			}
			if err := s.Settle(t.Context(), []queue.Settlement{set})[0]; err != nil {
				t.Errorf("the same settlement after the fault: %v", err)
			}
			if got := mustLease(t, s, testLane, 10); len(got) != 6 {
				t.Errorf("%d rows are due, want 6", len(got))
			}
			checkFile(t, s)
		})
	}
}

func TestASyncThatFailsIsNoAcknowledgement(t *testing.T) {
	d := powercut.NewDisk(1)
	cfg := onDisk(t, d)
	s := openAt(t, cfg)
	mustAppend(t, s, callback("a"))
	rows := mustLease(t, s, testLane, 1)
	d.BeforeSync(func(string, int) { d.FailWrites(sqlite3.IOERR) })
	if _, err := s.Append(t.Context(), []queue.Arrival{callback("b")}); !errors.Is(err,
		once.ErrUnavailable) {
		t.Fatalf("append: %v", err)
	}
	d.BeforeSync(nil)
	d.Heal()
	// Whether b is in the file nobody knows. Either way the next answer is true, and b is worked
	// once.
	mustAppend(t, s, callback("b"))
	mustSettle(t, s, rows[0], queue.Settlement{State: queue.Done})
	if got := mustLease(t, s, testLane, 10); len(got) != 1 || string(got[0].Body) != "b" {
		t.Errorf("leased %d rows", len(got))
	}
	checkFile(t, s)
}

// A lease whose commit failed was told to nobody. If it is in the file all the same the row must
// not stay running for ever; a settlement that is in the file must not be applied twice.
func TestWhatACommitLeftInDoubtIsSettled(t *testing.T) {
	for _, what := range []string{"lease", "settle", "retry"} {
		t.Run(what, func(t *testing.T) {
			d := powercut.NewDisk(1)
			s := openAt(t, onDisk(t, d))
			mustAppend(t, s, callback("a"))
			var row queue.Row
			if what != "lease" {
				row = mustLease(t, s, testLane, 1)[0]
			}
			// The write is in the file, its sync fails: SQLite finds it when it looks again.
			d.BeforeSync(func(string, int) { d.FailWrites(sqlite3.IOERR) })
			set := queue.Settlement{Grant: row.Grant(), State: queue.Done,
				Effects: []queue.Arrival{effectOf("a")}}
			if what == "retry" {
				set.State, set.RetryIn = queue.Pending, time.Millisecond
			}
			var err error
			if what == "lease" {
				_, err = s.Lease(t.Context(), queue.LeaseRequest{Lane: testLane, Max: 1,
					For: time.Hour})
			} else {
				err = s.Settle(t.Context(), []queue.Settlement{set})[0]
			}
			if !errors.Is(err, once.ErrUnavailable) {
				t.Fatalf("%s: %v", what, err)
			}
			d.BeforeSync(nil)
			d.Heal()
			if what != "lease" {
				err = s.Settle(t.Context(), []queue.Settlement{set})[0]
				if err != nil && !errors.Is(err, once.ErrLeaseLost) {
					t.Errorf("settle again: %v", err)
				}
				if n := scan(t, s, "SELECT count(*) FROM rows WHERE kind = 2")[0]; n != 1 {
					t.Errorf("%d effects", n)
				}
			}
			if what != "settle" {
				until(t, "the row to be due", func() bool {
					return len(mustLease(t, s, testLane, 1)) == 1
				})
			}
			checkFile(t, s)
		})
	}
}

// After a flush that failed Linux takes what it covered for written. What is committed later would
// stand behind a hole in the WAL, and be lost with it in a power cut.
func TestWhatIsToldAfterAFlushThatFailedSurvivesAPowerCut(t *testing.T) {
	for seed := range uint64(20) {
		d := powercut.NewDisk(seed)
		s, err := Open(t.Context(), onDisk(t, d))
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, s, callback("before"))
		d.LoseSync("/once.db-wal")
		_, err = s.Append(t.Context(), []queue.Arrival{callback("in doubt")})
		if !errors.Is(err, once.ErrUnavailable) {
			t.Fatalf("append: %v", err)
		}
		mustAppend(t, s, callback("after"))
		left := d.Survive()
		_ = s.Close() // the power is off
		s = openAt(t, onDisk(t, left))
		for _, name := range []string{"before", "after"} {
			if rowOf(t, s, queue.Callback, identityOf(name)).Seq == 0 {
				t.Errorf("seed %d: %q is lost", seed, name)
			}
		}
	}
}

// holdSyncs lets every sync of a disk wait until the release, and tells when one does.
func holdSyncs(d *powercut.Disk) (held <-chan struct{}, release func()) {
	hold, h := make(chan struct{}), make(chan struct{}, 1)
	d.BeforeSync(func(string, int) {
		select {
		case h <- struct{}{}:
		default:
		}
		<-hold
	})
	return h, sync.OnceFunc(func() { close(hold) })
}

// The transactions that were made while a flush failed are not told either, and what they changed
// in memory is taken back.
func TestWhatIsMadeWhileAFlushFailsIsNotTold(t *testing.T) {
	d := powercut.NewDisk(1)
	s := openAt(t, onDisk(t, d))
	mustAppend(t, s, callback("a"), callback("b"))
	row := mustLease(t, s, testLane, 1)[0]
	held, release := holdSyncs(d)
	defer release()
	d.LoseSync("/once.db-wal")
	errs := make(chan error, 2)
	go func() {
		errs <- s.Settle(t.Context(), []queue.Settlement{{Grant: row.Grant(),
			State: queue.Done}})[0]
	}()
	<-held
	go func() {
		_, err := s.Lease(t.Context(), queue.LeaseRequest{Lane: testLane, Max: 1, For: time.Hour})
		errs <- err
	}()
	until(t, "the second commit", func() bool { return len(s.flusher.committed) == 1 })
	d.BeforeSync(nil)
	release()
	for range 2 {
		if err := <-errs; !errors.Is(err, once.ErrUnavailable) {
			t.Errorf("told %v", err)
		}
	}
	until(t, "b to be due", func() bool { return len(mustLease(t, s, testLane, 1)) == 1 })
	err := s.Settle(t.Context(), []queue.Settlement{{Grant: row.Grant(), State: queue.Done}})[0]
	if err != nil && !errors.Is(err, once.ErrLeaseLost) {
		t.Errorf("settle again: %v", err)
	}
	checkFile(t, s)
}

func TestRepeatsAreCountedThoughTheDiskFails(t *testing.T) {
	d := powercut.NewDisk(1)
	clock := newClock()
	cfg := onDisk(t, d)
	cfg.Now = clock.now
	s := openAt(t, cfg)
	mustAppend(t, s, callback("a"))
	repeat := func(n int) {
		for range n {
			if r := mustAppend(t, s, callback("a"))[0]; r.Outcome != queue.Duplicate {
				t.Fatalf("repeat: %s", r.Outcome)
			}
		}
	}
	repeat(100)
	d.FailWrites(sqlite3.FULL)
	repeat(1) // it needs no write of its own: the first is durable
	clock.advance(time.Second)
	for range 3 {
		if _, err := s.Append(t.Context(), []queue.Arrival{callback("b")}); err == nil {
			t.Fatal("append on a full disk: no error")
		}
		repeat(10)
	}
	d.Heal()
	clock.advance(time.Second)
	until(t, "131 duplicates", func() bool {
		return rowOf(t, s, queue.Callback, identityOf("a")).Duplicates == 131
	})
}

func TestPingKnowsOfAFullDiskAlsoWhenIdle(t *testing.T) {
	d := powercut.NewDisk(1)
	clock := newClock()
	cfg := onDisk(t, d)
	cfg.Now = clock.now
	s := openAt(t, cfg)
	d.FailWrites(sqlite3.FULL)
	clock.advance(time.Minute)
	// Transactions of the store's own that write nothing.
	s.Renew(t.Context(), nil, time.Minute)
	clock.advance(time.Minute)
	if err := s.Ping(t.Context()); !errors.Is(err, once.ErrUnavailable) {
		t.Errorf("ping: %v", err)
	}
	d.Heal()
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("ping after the fault: %v", err)
	}
}

func TestNoReplyLeavesBeforeTheSyncOfItsBatch(t *testing.T) {
	d := powercut.NewDisk(1)
	s := openAt(t, onDisk(t, d))
	mustAppend(t, s, callback("a"))
	row := mustLease(t, s, testLane, 1)[0]
	calls := map[string]func() error{
		"append": func() error {
			_, err := s.Append(t.Context(), []queue.Arrival{callback("b")})
			return err
		},
		"conflict": func() error {
			other := callback("a")
			other.Fingerprint = once.FingerprintRaw([]byte("other"))
			_, err := s.Append(t.Context(), []queue.Arrival{other})
			return err
		},
		"settle": func() error {
			return s.Settle(t.Context(), []queue.Settlement{{Grant: row.Grant(),
				State: queue.Done}})[0]
		},
		"reject": func() error {
			return s.Reject(t.Context(), queue.Rejected{Source: "robots", Outcome: queue.Invalid})
		},
	}
	for name, call := range calls {
		syncing, goOn := make(chan string), make(chan struct{})
		d.BeforeSync(func(file string, _ int) {
			select {
			case syncing <- file:
				<-goOn
			case <-goOn:
			}
		})
		answered := make(chan error, 1)
		go func() { answered <- call() }()
		if file := <-syncing; file != "/once.db-wal" {
			t.Errorf("%s: the first sync is of %s", name, file)
		}
		select {
		case err := <-answered:
			t.Errorf("%s was answered (%v) before its sync", name, err)
		case <-time.After(50 * time.Millisecond):
		}
		close(goOn)
		if err := <-answered; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		d.BeforeSync(nil)
	}
}

func TestManyAcknowledgementsShareOneSync(t *testing.T) {
	d := powercut.NewDisk(1)
	s := openAt(t, onDisk(t, d))
	mustAppend(t, s, callback("first"))
	before := d.Counts("/once.db-wal").Syncs
	held, let := holdSyncs(d)
	defer let() // else a failure would wait for ever
	const n = 200
	errs := make(chan error, n+3)
	send := func(name string) {
		_, err := s.Append(t.Context(), []queue.Arrival{callback(name)})
		errs <- err
	}
	go send("the one whose sync is held")
	<-held
	go send("one that is committed meanwhile")
	until(t, "the second commit", func() bool { return len(s.flusher.committed) == 1 })
	go send("one that waits for its turn")
	for i := range n {
		go send(fmt.Sprint(i))
	}
	until(t, "all of them to wait", func() bool { return len(s.ops) >= n })
	let()
	for range n + 3 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if syncs := d.Counts("/once.db-wal").Syncs - before; syncs > 10 {
		t.Errorf("%d syncs for %d acknowledgements", syncs, n+3)
	}
}

func TestARepeatOfWhatIsDurableNeedsNoSync(t *testing.T) {
	d := powercut.NewDisk(1)
	s := openAt(t, onDisk(t, d))
	mustAppend(t, s, callback("a"))
	goOn := make(chan struct{})
	d.BeforeSync(func(string, int) { <-goOn })
	defer close(goOn)
	for range 10 { // each would wait for ever
		if r := mustAppend(t, s, callback("a"))[0]; r.Outcome != queue.Duplicate || r.Seq != 1 {
			t.Fatalf("receipt %+v", r)
		}
	}
}
