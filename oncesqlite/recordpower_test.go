package oncesqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/powercut"
)

// recordLoad is what owners were told before the power failed.
type recordLoad struct {
	r  *Records
	mu sync.Mutex
	// What was told of a name, and the grant that it was told of.
	granted   map[string]once.Grant
	completed map[string]bool
	released  map[string]once.Grant
	lost      map[string]once.Grant
	freed     map[string]once.Grant
}

func newRecordLoad(s *Store) *recordLoad {
	l := &recordLoad{granted: map[string]once.Grant{}, completed: map[string]bool{},
		released: map[string]once.Grant{}, lost: map[string]once.Grant{},
		freed: map[string]once.Grant{}}
	if s != nil {
		l.r = s.Records()
	}
	return l
}

const (
	recordOwners = 3
	recordNames  = 10 // for each owner
)

func (l *recordLoad) run(ctx context.Context) {
	var wg sync.WaitGroup
	for w := range recordOwners {
		wg.Go(func() {
			for i := range recordNames {
				if err := l.work(ctx, fmt.Sprint(w, "/", i), i); err != nil {
					return // the power is off
				}
			}
		})
	}
	wg.Wait()
}

// told notes what an owner was told.
func (l *recordLoad) told(m map[string]once.Grant, name string, g once.Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m[name] = g
}

// work claims a name and ends the attempt in one of the ways.
func (l *recordLoad) work(ctx context.Context, name string, way int) error {
	g, err := l.r.Claim(ctx, claimOf(name))
	if err != nil {
		return err
	}
	l.told(l.granted, name, g)
	unknown := once.Outcome{Kind: once.Unknown}
	switch way % 5 {
	case 0:
		if err = l.r.Renew(ctx, g, time.Hour); err != nil {
			return err
		}
		err = l.r.Release(ctx, g)
		if err == nil {
			l.told(l.released, name, g)
		}
	case 1:
		if err = l.r.Complete(ctx, g, unknown); err == nil {
			l.told(l.lost, name, g)
		}
	case 2:
		if err = l.r.Complete(ctx, g, unknown); err != nil {
			return err
		}
		err = l.r.Resolve(ctx, g.Identity, once.Resolution{Decision: once.RunAgain})
		if err == nil {
			l.told(l.freed, name, g)
		}
	default:
		if err = l.r.Complete(ctx, g, once.Outcome{Data: []byte("of " + name)}); err != nil {
			return err
		}
		l.mu.Lock()
		l.completed[name] = true
		l.mu.Unlock()
		var replay *once.ReplayError
		if _, e := l.r.Claim(ctx, claimOf(name)); !errors.As(e, &replay) {
			err = e
		}
	}
	return err
}

// loadRecordsUntilCut loads a store on a new disk until the power fails in its nth operation.
func loadRecordsUntilCut(t *testing.T, d *powercut.Disk, synchronous string, n int) *recordLoad {
	if n > 0 {
		d.CutAfter(n)
	}
	cfg := cutConfig(t, d, synchronous)
	defer vfs.Unregister(walVFSPrefix + cfg.VFS)
	s, err := Open(t.Context(), cfg)
	if err != nil {
		return newRecordLoad(nil) // the cut came that early
	}
	l := newRecordLoad(s)
	l.run(t.Context())
	_ = s.Close() // the power may be off
	return l
}

// broken opens what survived and returns what is not as somebody was told. The error is that of a
// store that can't be opened.
func (l *recordLoad) broken(t *testing.T, left *powercut.Disk, synchronous string) (out []string,
	err error) {
	cfg := cutConfig(t, left, synchronous)
	defer vfs.Unregister(walVFSPrefix + cfg.VFS)
	s, err := Open(t.Context(), cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r := s.Records()
	for name, g := range l.granted {
		_, lost := l.lost[name]
		_, freed := l.freed[name]
		_, released := l.released[name]
		next, err := r.Claim(t.Context(), claimOf(name))
		var replay *once.ReplayError
		replayed := errors.As(err, &replay) && string(replay.Outcome.Data) == "of "+name
		switch {
		case l.completed[name]:
			if !replayed {
				out = append(out, fmt.Sprintf("%s was completed: %+v, %v", name, next, err))
			}
		case replayed: // it is in the file, and nobody was told
		case err != nil:
			return nil, err
		case next.Fence <= g.Fence || next.Attempt != 2:
			out = append(out, fmt.Sprintf("%s had %+v, then %+v", name, g, next))
		case released && next.Takeover:
			out = append(out, name+" was released and counts as lost")
		case lost && !next.Takeover:
			out = append(out, name+" was lost and counts as released")
		case freed && (next.Takeover || next.Fence <= g.Fence+1): // the decision took one
			out = append(out, fmt.Sprintf("%s was freed: %+v", name, next))
		}
	}
	if len(out) == 0 && synchronous == "FULL" {
		checkFile(t, s)
	}
	return out, nil
}

func TestI08_APowerCutLosesNoStepOfARecordThatWasTold(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	whole := powercut.NewDisk(0)
	l := loadRecordsUntilCut(t, whole, "FULL", 0)
	ops := whole.Ops()
	whole.Close()
	if len(l.granted) != recordOwners*recordNames {
		t.Fatalf("an undisturbed load: %d granted", len(l.granted))
	}
	told := 0
	for range cuts(t) {
		d := powercut.NewDisk(random.Uint64())
		at := 1 + random.IntN(ops)
		l := loadRecordsUntilCut(t, d, "FULL", at)
		left := d.Survive()
		broken, err := l.broken(t, left, "FULL")
		if err != nil || len(broken) > 0 {
			t.Errorf("cut in operation %d of %d: %v, %v", at, ops, broken, err)
		}
		told += len(l.granted) + len(l.completed)
		left.Close()
		d.Close()
	}
	if told == 0 {
		t.Error("nothing was told before any cut: nothing could be lost")
	}
}

// The same cuts of stores that never sync have to lose something of what was told.
func TestI08_APowerCutWithoutSyncsLosesAStepOfARecord(t *testing.T) {
	for n := range uint64(200) {
		d := powercut.NewDisk(n)
		l := loadRecordsUntilCut(t, d, "OFF", int(40+7*n))
		left := d.Survive()
		broken, err := l.broken(t, left, "OFF")
		left.Close()
		d.Close()
		if err == nil && len(broken) > 0 {
			return
		}
	}
	t.Error("nothing was lost in 200 power cuts: the simulated disk proves nothing")
}

func TestL01_ManyOwnersNeverMeetALockedDatabase(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db"), checkpointPages: 50})
	r := s.Records()
	end, ended := context.WithTimeout(t.Context(), writeFor(t))
	defer ended()
	var wg sync.WaitGroup
	var done atomic.Int64
	for w := range 50 {
		wg.Go(func() {
			for i := 0; end.Err() == nil; i++ {
				name := fmt.Sprint(w, "/", i)
				g, err := r.Claim(t.Context(), claimOf(name))
				if err == nil {
					err = r.Complete(t.Context(), g, once.Outcome{Data: []byte(name)})
				}
				if err != nil {
					t.Errorf("claim and complete: %v", err)
				}
				done.Add(1)
			}
		})
	}
	for range 5 {
		wg.Go(func() {
			for end.Err() == nil {
				_, err := r.Records(t.Context(), once.RecordFilter{Limit: 10})
				if err != nil {
					t.Errorf("page: %v", err)
				}
				if _, err := s.Sweep(t.Context(), 10); err != nil {
					t.Errorf("sweep: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if n := r.Counts()[once.Completed]; n != done.Load() || n == 0 {
		t.Errorf("%d are counted, %d were completed", n, done.Load())
	}
	checkFile(t, s)
}
