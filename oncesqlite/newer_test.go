package oncesqlite

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/powercut"
	"github.com/oncekit/once/queue"
)

// renewable is a callback whose repeats are new after ten minutes.
func renewable(name string) queue.Arrival {
	a := callback(name)
	a.NewAfter, a.Retention = 10*time.Minute, 24*time.Hour
	return a
}

// A repeat counts from when the store has it, not from when that is flushed: the next transaction
// is made meanwhile.
func TestARepeatThatIsNotFlushedCountsAsTheLastArrival(t *testing.T) {
	d, clock := powercut.NewDisk(1), newClock()
	cfg := onDisk(t, d)
	cfg.Now = clock.now
	var commits atomic.Int64
	cfg.Probe = func(p Point) {
		if p == PointCommit {
			commits.Add(1)
		}
	}
	s := openAt(t, cfg)
	mustAppend(t, s, renewable("x"))
	clock.advance(10 * time.Minute)
	held, release := holdSyncs(d)
	defer release()
	outcomes := make(chan queue.Outcome, 2)
	send := func() {
		rs, err := s.Append(t.Context(), []queue.Arrival{renewable("x")})
		if err != nil {
			t.Errorf("append: %v", err)
			rs = []queue.Receipt{{}}
		}
		outcomes <- rs[0].Outcome
	}
	go send()
	until(t, "the repeat is being flushed", func() bool {
		select {
		case <-held:
			return true
		default:
			return false
		}
	})
	clock.advance(time.Second)
	before := commits.Load()
	go send()
	until(t, "the next transaction is made", func() bool { return commits.Load() > before })
	release()
	for range 2 {
		if o := <-outcomes; o != queue.Duplicate {
			t.Errorf("a repeat is %s", o)
		}
	}
}

// What failed leaves nothing behind: the repeat is new when the disk is back, once.
func TestARepeatThatIsNewAndCanNotBeStoredIsNewLater(t *testing.T) {
	for name, fail := range faults {
		t.Run(name, func(t *testing.T) {
			d, clock := powercut.NewDisk(1), newClock()
			cfg := onDisk(t, d)
			cfg.Now = clock.now
			s := openAt(t, cfg)
			mustAppend(t, s, renewable("x"))
			clock.advance(11 * time.Minute)
			fail(d)
			if _, err := s.Append(t.Context(), []queue.Arrival{renewable("x")}); err == nil {
				t.Fatal("it was acknowledged")
			}
			d.Heal()
			var last queue.Receipt
			until(t, "the store is back", func() bool {
				rs, err := s.Append(t.Context(), []queue.Arrival{renewable("x")})
				if err == nil {
					last = rs[0]
				}
				return err == nil
			})
			again := mustAppend(t, s, renewable("x"))[0]
			if last.Identity.IsZero() || again.Outcome != queue.Duplicate ||
				again.Identity != last.Identity {
				t.Errorf("receipts %+v, then %+v", last, again)
			}
			// Of a commit that failed nobody knows whether it is in the file.
			if n := scan(t, s, "SELECT count(*) FROM rows")[0]; n != 2 {
				t.Errorf("%d rows", n)
			}
		})
	}
}

// The first row knows the newest one, or that one is not there, wherever the power fails.
func TestANewCallbackAndItsPlaceAreThereTogetherAfterAPowerCut(t *testing.T) {
	load := func(t *testing.T, d *powercut.Disk, after int) (told []once.Identity) {
		clock := newClock()
		cfg := cutConfig(t, d, "")
		defer vfs.Unregister(walVFSPrefix + cfg.VFS)
		cfg.Now = clock.now
		if after > 0 {
			d.CutAfter(after)
		}
		s, err := Open(t.Context(), cfg)
		if err != nil {
			return nil
		}
		for range 12 {
			rs, err := s.Append(t.Context(), []queue.Arrival{renewable("x")})
			if err != nil {
				break
			}
			if rs[0].Outcome == queue.Accepted {
				told = append(told, rs[0].Identity)
			}
			clock.advance(11 * time.Minute)
		}
		_ = s.Close() // the power may be gone
		return told
	}
	d := powercut.NewDisk(1)
	if n := len(load(t, d, 0)); n != 12 {
		t.Fatalf("an undisturbed load: %d callbacks", n)
	}
	ops := d.Ops()
	d.Close()
	for cut := 1; cut <= ops; cut += max(ops/40, 1) {
		d := powercut.NewDisk(uint64(cut))
		told := load(t, d, cut)
		left := d.Survive()
		cfg := cutConfig(t, left, "")
		s, err := Open(t.Context(), cfg)
		if err != nil {
			if len(told) > 0 {
				t.Errorf("cut at %d: %v", cut, err)
			}
			continue
		}
		for _, id := range told {
			if id.IsZero() {
				id = identityOf("x")
			}
			rowOf(t, s, queue.Callback, id)
		}
		newest := scan(t, s, "SELECT max(seq) FROM rows")[0]
		if r := mustAppend(t, s, callback("x"))[0]; len(told) > 0 && (r.Seq != newest ||
			r.Outcome != queue.Duplicate) {
			t.Errorf("cut at %d, %d told: a repeat is %+v, the newest row %d", cut, len(told), r,
				newest)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		vfs.Unregister(walVFSPrefix + cfg.VFS)
		left.Close()
		d.Close()
	}
}
