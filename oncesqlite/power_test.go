package oncesqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/powercut"
	"github.com/oncekit/once/queue"
)

const (
	// cutsEnv is the number of power cuts of a run.
	cutsEnv = "ONCE_POWERCUTS"
	// defaultCuts is as many as a quick run has time for.
	defaultCuts = 25
	// cutArrivals is how many arrivals one load sends.
	cutArrivals = 24
)

// told is what a load was told before the power failed.
type told struct {
	mu       sync.Mutex
	accepted map[string]bool
	done     map[string]bool // settled or stepped, with an effect
	stepped  map[string]bool
}

func (a *told) add(m map[string]bool, name string) {
	a.mu.Lock()
	m[name] = true
	a.mu.Unlock()
}

// powerLoad works a store until its work is done or the power fails.
type powerLoad struct {
	s    *Store
	a    told
	sent chan struct{} // closed when nothing more comes in
}

// idle counts what was found to be idle since nothing more comes in.
func (l *powerLoad) idle(n int) int {
	select {
	case <-l.sent:
		return n + 1
	default:
		return 0
	}
}

// enough idle looks mean that all is worked, also what was to be tried again.
const enough = 5

func newLoad(s *Store) *powerLoad {
	return &powerLoad{s: s, sent: make(chan struct{}), a: told{accepted: map[string]bool{},
		done: map[string]bool{}, stepped: map[string]bool{}}}
}

func (l *powerLoad) run(ctx context.Context) {
	var senders, workers sync.WaitGroup
	for w := range 3 {
		senders.Go(func() { l.receive(ctx, w) })
	}
	workers.Go(func() { l.work(ctx) })
	workers.Go(func() { l.step(ctx) })
	senders.Wait()
	close(l.sent)
	workers.Wait()
}

// receive sends arrivals of handlers and of a flow, singly and in pairs, and repeats some.
func (l *powerLoad) receive(ctx context.Context, w int) {
	for i := range cutArrivals / 3 {
		a := callback(fmt.Sprint("handled ", w, "/", i))
		b := callback(fmt.Sprint("flow ", w, "/", i))
		b.Lane, b.Flow, b.Task, b.OrderKey = "flow", "transport", fmt.Sprint(w), fmt.Sprint(w)
		calls := [][]queue.Arrival{{a, b}, {a}}
		if i%2 == 0 {
			calls = [][]queue.Arrival{{a}, {b}, {b}}
		}
		for _, call := range calls {
			if _, err := l.s.Append(ctx, call); err != nil {
				return
			}
			for _, a := range call {
				l.a.add(l.a.accepted, string(a.Body))
			}
		}
	}
}

// work settles rows of the handlers, each with an effect; every fifth try is one that failed.
func (l *powerLoad) work(ctx context.Context) {
	for n, idle := 0, 0; idle < enough; {
		got, err := l.s.Lease(ctx, queue.LeaseRequest{Lane: testLane, Max: 4, For: time.Minute})
		if err != nil {
			return
		}
		if len(got.Rows) == 0 {
			idle = l.idle(idle)
			continue
		}
		sets := make([]queue.Settlement, len(got.Rows))
		for i, row := range got.Rows {
			name := string(row.Body)
			sets[i] = queue.Settlement{Grant: row.Grant(), State: queue.Done,
				Effects: []queue.Arrival{effectOf(name)}}
			if n++; n%5 == 0 {
				sets[i] = queue.Settlement{Grant: row.Grant(), State: queue.Pending, RetryIn: 1}
			}
		}
		for i, err := range l.s.Settle(ctx, sets) {
			if err != nil {
				return
			}
			if sets[i].State == queue.Done {
				l.a.add(l.a.done, string(got.Rows[i].Body))
			}
		}
	}
}

// step moves a task with each row of the flow.
func (l *powerLoad) step(ctx context.Context) {
	for idle := 0; idle < enough; {
		got, err := l.s.Step(ctx, queue.StepRequest{Lane: "flow", Max: 5,
			Decide: func(v queue.View, r queue.Row) (queue.Settlement, error) {
				task, err := v.Task(r.Flow, r.Task)
				if err != nil {
					return queue.Settlement{}, err
				}
				c := queue.TaskChange{Task: task, From: task.State, Event: r.Event}
				c.Task.State, c.Task.Fields = "moved", map[string]any{"n": task.Version + 1}
				c.Task.Taken, c.Task.Retention = map[string]queue.Taken{}, time.Hour
				return queue.Settlement{State: queue.Done, Tasks: []queue.TaskChange{c},
					Effects: []queue.Arrival{effectOf(string(r.Body))}}, nil
			},
			Settled: func(r queue.Row, _ queue.Settlement) { l.a.add(l.a.stepped, string(r.Body)) },
		})
		if err != nil {
			return
		}
		if got.Rows == 0 && !got.More {
			idle = l.idle(idle)
		}
	}
}

// cutConfig is a store on the disk that writes its WAL back and its index often.
func cutConfig(t *testing.T, d *powercut.Disk, synchronous string) Config {
	return Config{Path: "/once.db", VFS: d.Register(t), Readers: 1, CacheKiB: 512,
		Synchronous: synchronous, segmentRows: 16, checkpointPages: 8,
		forcePages: 12}
}

// loadUntilCut opens a store on a new disk, loads it, closes it, and returns what it was told
// before the power failed in the nth operation of the disk.
func loadUntilCut(t *testing.T, d *powercut.Disk, synchronous string, n int) *powerLoad {
	if n > 0 {
		d.CutAfter(n)
	}
	cfg := cutConfig(t, d, synchronous)
	defer vfs.Unregister(walVFSPrefix + cfg.VFS)
	s, err := Open(t.Context(), cfg)
	if err != nil {
		return newLoad(nil) // the cut came that early
	}
	l := newLoad(s)
	l.run(t.Context())
	closed := s.Close()
	select {
	case <-d.Off():
	default:
		if closed != nil {
			t.Errorf("close with power: %v", closed)
		}
	}
	return l
}

// missing opens what survived, and returns how many of the things that were told are not there. The
// error is that of a store that can't be opened or read, which says nothing of what is missing.
// A store that has everything is handed to check.
func missing(t *testing.T, left *powercut.Disk, l *powerLoad, synchronous string,
	check func(*Store)) (n int, err error) {
	cfg := cutConfig(t, left, synchronous)
	defer vfs.Unregister(walVFSPrefix + cfg.VFS)
	s, err := Open(t.Context(), cfg)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for name := range l.a.accepted {
		there, err := has(t, s, queue.Callback, identityOf(name))
		if err != nil {
			return 0, err
		}
		if there == "" {
			n++
		}
	}
	for _, m := range []map[string]bool{l.a.done, l.a.stepped} {
		for name := range m {
			row, err := has(t, s, queue.Callback, identityOf(name))
			if err != nil {
				return 0, err
			}
			effect, err := has(t, s, queue.Effect, identityOf("effect of "+name))
			if err != nil {
				return 0, err
			}
			if row != queue.Done || effect == "" {
				n++
			}
		}
	}
	if n == 0 {
		check(s)
	}
	return n, nil
}

// has returns the state of a row, nothing if the store answers that it isn't there.
func has(t *testing.T, s *Store, k queue.Kind, id once.Identity) (queue.State, error) {
	d, err := s.Row(t.Context(), k, id.ID())
	if errors.Is(err, once.ErrNotFound) {
		err = nil
	}
	return d.Row.State, err
}

// whole proves that settlements are there whole or not at all.
func whole(t *testing.T, s *Store) {
	t.Helper()
	done := scan(t, s, "SELECT count(*) FROM rows WHERE kind = 1 AND phase IS NULL")[0]
	effects := scan(t, s, "SELECT count(*) FROM rows WHERE kind = 2")[0]
	moves := scan(t, s, "SELECT coalesce(sum(version), 0) FROM tasks")[0]
	stepped := scan(t, s, "SELECT count(*) FROM rows WHERE kind = 1 AND phase IS NULL "+
		"AND flow = 'transport'")[0]
	lines := scan(t, s, "SELECT count(*) FROM history")[0]
	if done != effects || moves != stepped || lines != moves {
		t.Errorf("%d rows are done with %d effects; %d were stepped, %d moves, %d lines of history",
			done, effects, stepped, moves, lines)
	}
	if n := scan(t, s, "SELECT count(*) FROM rows WHERE phase = 3")[0]; n != 0 {
		t.Errorf("%d rows are in the hands of a process that is gone", n)
	}
}

// usable proves that the store goes on where it was: all that is left is worked.
func usable(t *testing.T, s *Store) {
	t.Helper()
	l := newLoad(s)
	close(l.sent)
	l.work(t.Context())
	l.step(t.Context())
	until(t, "all rows to be done", func() bool {
		l.work(t.Context())
		return scan(t, s, "SELECT count(*) FROM rows WHERE kind = 1 AND phase IS NOT NULL")[0] == 0
	})
	if r := mustAppend(t, s, callback("after the cut"))[0]; r.Outcome != queue.Accepted {
		t.Errorf("a new arrival: %s", r.Outcome)
	}
	whole2 := scan(t, s, "SELECT count(*) FROM rows WHERE kind = 2")[0]
	if done := scan(t, s, "SELECT count(*) FROM rows WHERE kind = 1 AND phase IS NULL")[0]; done !=
		whole2 {
		t.Errorf("%d rows are done with %d effects", done, whole2)
	}
}

func cuts(t *testing.T) int {
	text := os.Getenv(cutsEnv)
	if text == "" {
		return defaultCuts
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is no number of cuts", cutsEnv, text)
	}
	return n
}

// operations returns how many operations of the disk an undisturbed load takes.
func operations(t *testing.T, synchronous string) int {
	d := powercut.NewDisk(0)
	defer d.Close()
	l := loadUntilCut(t, d, synchronous, 0)
	if len(l.a.accepted) != 2*cutArrivals || len(l.a.stepped) != cutArrivals {
		t.Fatalf("an undisturbed load: %d accepted, %d stepped", len(l.a.accepted),
			len(l.a.stepped))
	}
	return d.Ops()
}

// cut is one power cut, and what was found after it.
type cut struct {
	at, of  int // the operation of the disk that it came in, and how many a whole load takes
	early   bool
	late    bool
	told    int
	missing int
	err     error
}

// cutOnce loads a store on a new disk, cuts the power at a random point and looks at what is left.
func cutOnce(t *testing.T, synchronous string, r *rand.Rand, operations int,
	check func(*Store)) cut {
	d := powercut.NewDisk(r.Uint64())
	defer d.Close()
	c := cut{at: 1 + r.IntN(operations), of: operations}
	l := loadUntilCut(t, d, synchronous, c.at)
	select {
	case <-d.Off():
		c.early = l.s == nil
	default:
		c.late = true
	}
	c.told = len(l.a.accepted)
	left := d.Survive()
	defer left.Close()
	c.missing, c.err = missing(t, left, l, synchronous, check)
	return c
}

// eachCut cuts the power of stores with one setting of synchronous until more says no.
func eachCut(t *testing.T, synchronous string, check func(*Store), more func(cut) bool) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for n := operations(t, synchronous); more(cutOnce(t, synchronous, r, n, check)); {
		continue
	}
}

func TestI08_APowerCutLosesNothingThatWasTold(t *testing.T) {
	n, early, late, told := 0, 0, 0, 0
	sound := func(s *Store) {
		checkFile(t, s)
		whole(t, s)
		usable(t, s)
	}
	eachCut(t, "FULL", sound, func(c cut) bool {
		if c.missing > 0 || c.err != nil {
			t.Errorf("cut in operation %d of %d: %d are missing, %v", c.at, c.of, c.missing, c.err)
		}
		if c.early {
			early++
		}
		if c.late {
			late++
		}
		n, told = n+1, told+c.told
		return n < cuts(t) && !t.Failed()
	})
	t.Logf("%d cuts: %d while opening, %d after the end; %d arrivals told", n, early, late, told)
	if told == 0 {
		t.Error("nothing was told before any cut: nothing could be lost")
	}
}

// The same cuts of stores that never sync have to lose something of what was told; a file that
// can't be read any more is not counted as that.
func TestI08_APowerCutWithoutSyncsLosesSomethingThatWasTold(t *testing.T) {
	const enoughCuts = 200 // most of them lose something
	n, broken, lost := 0, 0, 0
	eachCut(t, "OFF", func(*Store) {}, func(c cut) bool {
		n++
		switch {
		case c.err != nil:
			broken++
		case c.missing > 0:
			lost++
		}
		return lost == 0 && n < enoughCuts
	})
	t.Logf("%d cuts: %d stores can't be read, %d lost something", n, broken, lost)
	if lost == 0 {
		t.Errorf("nothing was lost in %d power cuts: the simulated disk proves nothing", n)
	}
}
