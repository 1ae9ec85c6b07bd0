package oncesqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/powercut"
	"github.com/oncekit/once/queue"
)

// manyWait is what the rows of these tests wait for.
const manyWait = "task/f/many"

// commits calls a function in the goroutine that writes before each commit.
type commits struct{ fn atomic.Pointer[func()] }

func (c *commits) probe(p Point) {
	if fn := c.fn.Load(); fn != nil && p == PointCommit {
		(*fn)()
	}
}

func (c *commits) call(fn func()) { c.fn.Store(&fn) }

// drops notes at each commit how many rows are parked in what it commits.
func (c *commits) drops(t *testing.T, s *Store) func() []int64 {
	var mu sync.Mutex
	var parked []int64
	c.call(func() {
		n, err := s.w.int("SELECT count(*) FROM rows WHERE phase = 4")
		if err != nil {
			t.Errorf("count what is parked: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		parked = append(parked, n)
	})
	return func() []int64 {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(parked)
	}
}

// hold lets the goroutine that writes wait before a commit, after some that it lets through.
func (c *commits) hold(through int) (held <-chan struct{}, release func()) {
	h, released := make(chan struct{}), make(chan struct{})
	c.call(func() {
		if through--; through < 0 {
			c.fn.Store(nil)
			close(h)
			<-released
		}
	})
	return h, sync.OnceFunc(func() { close(released) })
}

// ofTask returns a row of a task, ordered by it.
func ofTask(name, task string) queue.Arrival {
	a := callback(name)
	a.Lane, a.Flow, a.Task, a.OrderKey = "flow", "f", task, task
	return a
}

// stepBy works what is due of the lane "flow".
func stepBy(t *testing.T, s *Store, decide func(queue.Row) queue.Settlement) {
	t.Helper()
	for {
		got, err := s.Step(t.Context(), queue.StepRequest{Lane: "flow", Max: maxStep,
			Decide: func(_ queue.View, r queue.Row) (queue.Settlement, error) {
				return decide(r), nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		if !got.More {
			return
		}
	}
}

func parkIt(queue.Row) queue.Settlement {
	return queue.Settlement{State: queue.Parked,
		Park: &queue.Park{Waits: []string{manyWait}, Limit: time.Hour}}
}

func endIt(queue.Row) queue.Settlement { return queue.Settlement{State: queue.Done} }

// park parks n rows that are named by their numbers, of several tasks in turn.
func parkMany(t *testing.T, s *Store, n int, tasks ...string) {
	t.Helper()
	var as []queue.Arrival
	for i := range n {
		as = append(as, ofTask(fmt.Sprint(i), tasks[i%len(tasks)]))
	}
	for part := range slices.Chunk(as, 500) {
		mustAppend(t, s, part...)
	}
	stepBy(t, s, parkIt)
	if got := countPhase(t, s, phaseParked); got != n {
		t.Fatalf("%d rows are parked, want %d", got, n)
	}
}

func countPhase(t *testing.T, s *Store, p phase) int {
	t.Helper()
	return int(scan(t, s, fmt.Sprint("SELECT count(*) FROM rows WHERE phase = ", int64(p)))[0])
}

func wakeMany(t *testing.T, s *Store) {
	t.Helper()
	err := s.Transact(t.Context(), func(queue.View) (queue.Settlement, error) {
		return queue.Settlement{Wake: []queue.Wake{{Wait: manyWait}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// nothingLeft checks that no wake, wait or line is left.
func nothingLeft(t *testing.T, s *Store) {
	t.Helper()
	for _, table := range []string{"wakes", "waits", "lines"} {
		if n := scan(t, s, "SELECT count(*) FROM "+table)[0]; n != 0 {
			t.Errorf("%d entries are left in %s", n, table)
		}
	}
	checkFile(t, s)
}

// inParts checks that no commit woke more than the bound.
func inParts(t *testing.T, before int64, parked []int64) {
	t.Helper()
	for _, n := range parked {
		if before-n > wakesPerCommit {
			t.Errorf("a transaction woke %d rows, want %d at most", before-n, wakesPerCommit)
		}
		before = n
	}
}

func TestAWakeOfVeryManyRowsHappensInParts(t *testing.T) {
	c := &commits{}
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db"), Probe: c.probe})
	parkMany(t, s, 2000, "T")
	parked := c.drops(t, s)
	begun := time.Now()
	wakeMany(t, s)
	until(t, "all rows to be due", func() bool { return countPhase(t, s, phaseReady) == 2000 })
	if took := time.Since(begun); took > 4*time.Second { // with idle ticks between it were 7
		t.Errorf("it took %v", took)
	}
	inParts(t, 2000, parked())
	checkFile(t, s)
	stepBy(t, s, endIt)
	nothingLeft(t, s)
}

func TestAWakeGoesOnAfterAKill(t *testing.T) {
	c := &commits{}
	dir := t.TempDir()
	cfg := Config{Path: filepath.Join(dir, "once.db"), Probe: c.probe}
	s := openAt(t, cfg)
	parkMany(t, s, 2000, "T")
	held, release := c.hold(1) // the first part is committed, the second is not
	t.Cleanup(release)
	wakeMany(t, s)
	<-held
	next := cfg
	c2 := &commits{}
	next.Path, next.Probe = filepath.Join(dir, "killed.db"), c2.probe
	copyStore(t, cfg.Path, next.Path)

	again := openAt(t, next)
	parked := c2.drops(t, again)
	until(t, "all rows to be due", func() bool { return countPhase(t, again, phaseReady) == 2000 })
	if got := parked(); len(got) < 3 {
		t.Errorf("parked at each commit: %v; want the rest in parts", got)
	}
	inParts(t, 2000-wakesPerCommit, parked())
	checkFile(t, again)
}

func TestAWakeGoesOnAfterAClose(t *testing.T) {
	c := &commits{}
	cfg := Config{Path: filepath.Join(t.TempDir(), "once.db"), Probe: c.probe}
	s := openAt(t, cfg)
	parkMany(t, s, 1000, "T")
	wakeMany(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, cfg)
	until(t, "all rows to be due", func() bool { return countPhase(t, s, phaseReady) == 1000 })
	stepBy(t, s, endIt)
	nothingLeft(t, s)
}

func TestAWakeThatIsUndoneLeavesNothing(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	parkMany(t, s, 1000, "T")
	mustAppend(t, s, ofTask("mover", "T"))
	stepBy(t, s, func(r queue.Row) queue.Settlement {
		return queue.Settlement{State: queue.Done, Wake: []queue.Wake{{Wait: manyWait}},
			Then: func(queue.View, queue.Row) queue.Settlement {
				task := queue.Task{Flow: "f", ID: "T", Version: 7} // there is none
				return queue.Settlement{Tasks: []queue.TaskChange{{Task: task}}}
			}}
	})
	stillParked(t, s, 1000)
}

// stillParked checks that nothing of a wake is left, neither in the file nor in memory.
func stillParked(t *testing.T, s *Store, n int) {
	t.Helper()
	if got := countPhase(t, s, phaseParked); got != n {
		t.Errorf("%d rows are parked, want %d", got, n)
	}
	if got := scan(t, s, "SELECT count(*) FROM wakes")[0]; got != 0 {
		t.Errorf("%d wakes are remembered", got)
	}
	lines := int(scan(t, s, "SELECT count(*) FROM lines WHERE seq IN "+
		"(SELECT seq FROM rows WHERE phase = 4)")[0])
	if lines != 0 {
		t.Errorf("%d parked rows are in line", lines)
	}
	err := s.do(t.Context(), &op{run: func(tx *txn) error {
		all, err := tx.c.int("SELECT count(*) FROM lines")
		if in := s.inLine[s.lanes["flow"]]; in != int(all) {
			t.Errorf("%d rows are in line, and %d are known of", all, in)
		}
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	checkFile(t, s)
}

func TestAWakeThatCantBeWrittenLeavesNothing(t *testing.T) {
	d := powercut.NewDisk(1)
	s := openAt(t, onDisk(t, d))
	parkMany(t, s, 1000, "T")
	d.FailWrites(sqlite3.FULL)
	err := s.Transact(t.Context(), func(queue.View) (queue.Settlement, error) {
		return queue.Settlement{Wake: []queue.Wake{{Wait: manyWait}}}, nil
	})
	if !errors.Is(err, once.ErrUnavailable) {
		t.Errorf("a wake on a full disk: %v", err)
	}
	d.Heal()
	mustAppend(t, s, ofTask("after", "U"))
	stillParked(t, s, 1000)
	wakeMany(t, s)
	until(t, "all rows to be due", func() bool { return countPhase(t, s, phaseReady) == 1001 })
	stepBy(t, s, endIt)
	nothingLeft(t, s)
}

// Many steps share the transaction in which the first rows are woken: they come past them all.
func TestNothingOvertakesTheRowsThatAWakeHasLeft(t *testing.T) {
	for _, tasks := range [][]string{{"A"}, {"A", "B"}, {"A", "B", "C", "D", "E"}} {
		t.Run(fmt.Sprint(len(tasks), " keys"), func(t *testing.T) {
			c := &commits{}
			cfg := Config{Path: filepath.Join(t.TempDir(), "once.db"), Probe: c.probe}
			s := openAt(t, cfg)
			const rows = 1000
			parkMany(t, s, rows, tasks...)
			mustAppend(t, s, ofTask("mover", "A"))
			want := map[string][]string{"A": {"mover"}}
			for i := range rows {
				task := tasks[i%len(tasks)]
				want[task] = append(want[task], fmt.Sprint(i))
			}
			for i := range 50 {
				name, task := fmt.Sprint("later", i), tasks[i%len(tasks)]
				mustAppend(t, s, ofTask(name, task))
				want[task] = append(want[task], name)
			}
			got := map[string][]string{}
			decide := func(r queue.Row) queue.Settlement {
				got[r.Task] = append(got[r.Task], string(r.Body))
				set := endIt(r)
				if string(r.Body) == "mover" {
					set.Wake = []queue.Wake{{Wait: manyWait}}
				}
				return set
			}
			stepTogether(t, s, c, 6, decide)
			until(t, "all rows to be done", func() bool {
				stepBy(t, s, decide)
				return scan(t, s, "SELECT count(*) FROM waits")[0] == 0
			})
			for task := range want {
				if fmt.Sprint(got[task]) != fmt.Sprint(want[task]) {
					t.Errorf("task %s: worked %v\nwant %v", task, got[task], want[task])
				}
			}
			nothingLeft(t, s)
		})
	}
}

// stepTogether makes several steps in one transaction.
func stepTogether(t *testing.T, s *Store, c *commits, n int,
	decide func(queue.Row) queue.Settlement) {
	t.Helper()
	var wg sync.WaitGroup
	defer wg.Wait()
	held, release := c.hold(0)
	defer release()
	wg.Go(func() {
		_, err := s.Append(context.Background(), []queue.Arrival{callback("hold")})
		if err != nil {
			t.Error(err)
		}
	})
	<-held
	for range n {
		wg.Go(func() {
			_, err := s.Step(context.Background(), queue.StepRequest{Lane: "flow", Max: maxStep,
				Decide: func(_ queue.View, r queue.Row) (queue.Settlement, error) {
					return decide(r), nil
				}})
			if err != nil {
				t.Error(err)
			}
		})
	}
	until(t, "the steps to be handed over", func() bool { return len(s.ops) == n })
}

func TestARowThatParksAgainKeepsNobodyOfItsWakeAsleep(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	const rows = 1000
	parkMany(t, s, rows, "T")
	wakeMany(t, s)
	worked := map[string]int{}
	until(t, "the wake to be through", func() bool {
		stepBy(t, s, func(r queue.Row) queue.Settlement {
			worked[string(r.Body)]++
			return parkIt(r)
		})
		return scan(t, s, "SELECT count(*) FROM wakes")[0] == 0 && len(worked) == rows
	})
	for name, n := range worked {
		if n != 1 {
			t.Errorf("row %s was woken %d times by one wake", name, n)
		}
	}
	stillParked(t, s, rows)
}

func TestAnotherWakeBeforeTheFirstIsThrough(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	const rows = 1000
	parkMany(t, s, rows, "T")
	wakeMany(t, s)
	worked, ended := map[string]int{}, 0
	until(t, "all to be through", func() bool {
		stepBy(t, s, func(r queue.Row) queue.Settlement {
			name := string(r.Body)
			if worked[name]++; worked[name] == 1 && r.Seq%2 == 1 {
				return parkIt(r) // it needs the next one
			}
			ended++
			set := endIt(r)
			set.Wake = []queue.Wake{{Wait: manyWait}}
			return set
		})
		return ended == rows
	})
	nothingLeft(t, s)
}

func TestWhatLeavesItsWaitOtherwiseIsNotWoken(t *testing.T) {
	c := &commits{}
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db"), Probe: c.probe})
	const rows = 1500
	parkMany(t, s, rows, "T")
	held, release := c.hold(1) // the first part is committed, the second is not
	defer release()
	wakeMany(t, s)
	<-held
	const next = 3 * wakesPerCommit // after the part of the transaction that acts
	var wg sync.WaitGroup
	by := queue.Action{Name: "x", Actor: "ann", Reason: "test"}
	for n, act := range map[int]func(string) error{
		next: func(id string) error {
			return s.Discard(context.Background(), queue.Callback, id, by, nil)
		},
		next + 1: func(id string) error {
			return s.Retry(context.Background(), queue.Callback, id, by, nil)
		},
		rows - 1: func(id string) error {
			return s.Discard(context.Background(), queue.Callback, id, by, nil)
		},
	} {
		wg.Go(func() {
			if err := act(identityOf(fmt.Sprint(n)).ID()); err != nil {
				t.Errorf("row %d: %v", n, err)
			}
		})
	}
	until(t, "the actions to be handed over", func() bool { return len(s.ops) == 3 })
	release()
	wg.Wait()
	until(t, "the rest to be due", func() bool { return countPhase(t, s, phaseParked) == 0 })
	checkFile(t, s)
	var got []string
	stepBy(t, s, func(r queue.Row) queue.Settlement {
		got = append(got, string(r.Body))
		return endIt(r)
	})
	if len(got) != rows-2 {
		t.Errorf("%d rows were worked, want %d", len(got), rows-2)
	}
	nothingLeft(t, s)
}

// What is due stays so while the file is missed.
func TestAWakeGoesOnWhenTheFileIsBack(t *testing.T) {
	c := &commits{}
	var looks atomic.Int64
	path := filepath.Join(t.TempDir(), "once.db")
	s := openAt(t, Config{Path: path, Probe: c.probe, Now: func() time.Time {
		looks.Add(1)
		return time.Now()
	}})
	parkMany(t, s, 1000, "T")
	held, release := c.hold(1)
	defer release()
	wakeMany(t, s)
	<-held
	move(t, path, path+".away")
	before := looks.Load()
	release()
	until(t, "the file to be missed", s.present.gone.Load)
	<-time.After(mendEvery)
	if n := looks.Load() - before; n > 20 {
		t.Errorf("the time was looked at %d times: the writer does not pause", n)
	}
	move(t, path+".away", path)
	until(t, "all rows to be due", func() bool { return countPhase(t, s, phaseReady) == 1000 })
	checkFile(t, s)
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}
