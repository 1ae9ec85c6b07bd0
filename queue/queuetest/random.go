package queuetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

func randomCases() []Case {
	return []Case{
		{Name: "Random/AgainstAModel", Promise: "under any sequence of operations, kills " +
			"included, the store does what a small model in memory does", needs: steps | people,
			run: againstModel},
		{Name: "Random/Steps", Promise: "each row moves its task once, with its effect, whatever " +
			"fails, waits or is killed on the way", needs: steps, run: steppedAtRandom},
	}
}

// Bounds of the random run. SeedEnv repeats a run by its seed.
const (
	SeedEnv      = "QUEUETEST_SEED"
	randomSeeds  = 2
	randomOps    = 350
	slowOps      = 150 // of one walk, where a store is slow
	compareEvery = 50
	// walkNewAfter is the NewAfter of some names of a walk; time goes on by up to 40 s at once.
	walkNewAfter = time.Minute
)

func againstModel(k *kit) {
	first, err := strconv.ParseUint(os.Getenv(SeedEnv), 10, 64)
	if err != nil {
		first = uint64(time.Now().UnixNano())
	}
	seeds, ops := randomSeeds, randomOps
	if k.h.Slow {
		seeds, ops = 1, slowOps
	}
	for i := range seeds { // in one store: what a walk leaves behind is there in the next
		seed := first + uint64(i)
		w := &walk{kit: k, r: rand.New(rand.NewPCG(seed, 0)), prefix: fmt.Sprint(i, "/"),
			m: &model{now: k.h.Now()}, held: map[string]queue.Row{}}
		w.lane = fmt.Sprint("handler/random", i)
		for n := range ops {
			w.one()
			if n%compareEvery == 0 {
				w.compare()
			}
			if k.Failed() {
				k.Fatalf("after operation %d of seed %d; repeat with %s=%d. Operations: %v",
					n, seed, SeedEnv, first, w.log)
			}
		}
		w.compare()
		if k.Failed() {
			k.Fatalf("at the end of seed %d; repeat with %s=%d", seed, SeedEnv, first)
		}
	}
}

// walk is one random run.
type walk struct {
	*kit
	r      *rand.Rand
	m      *model
	prefix string
	lane   string
	held   map[string]queue.Row // rows in hand as the store gave them, by id
	stale  []queue.Grant
	log    []string
}

func (w *walk) note(format string, args ...any) {
	if len(w.log) > 40 {
		w.log = w.log[1:]
	}
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

// one does one operation to the store and the model.
func (w *walk) one() {
	w.m.notice()
	switch n := w.r.IntN(100); {
	case n < 30:
		w.receive()
	case n < 50:
		w.takeSome()
	case n < 75:
		w.settleOne()
	case n < 78:
		w.settleStale()
	case n < 81:
		w.renewAll()
	case n < 89:
		w.advance()
	case n < 93:
		w.person()
	case n < 97:
		w.wakeSome()
	case n < 99:
		w.sweepAll()
	default:
		w.restart()
	}
}

func (w *walk) receive() {
	old := len(w.m.rows)
	if old > 0 && w.r.IntN(3) == 0 {
		w.receiveRow(w.r.IntN(old))
		return
	}
	w.receiveRow(old)
}

// receiveRow lets the nth row of the model arrive once more, or a new one.
func (w *walk) receiveRow(n int) {
	name := fmt.Sprint(w.prefix, n)
	key := []string{"", "A", "B", "C"}[n%4]
	version, replace := 1+w.r.IntN(8)/7, w.r.IntN(3) == 0
	a := arrival(name, version)
	a.Lane, a.OrderKey, a.ReplaceDead, a.Retention = w.lane, key, replace, 1e6*hour
	if n%5 < 2 {
		a.NewAfter = walkNewAfter
	}
	m, outcome, revived := w.m.receive(name, key, version, replace, a.NewAfter)
	w.note("receive %s version %d, new after %v: %s", name, version, a.NewAfter, outcome)
	got := w.append(a)[0]
	id := a.Identity.ID()
	if !got.Identity.IsZero() {
		id = got.Identity.ID()
	}
	if m.id == "" {
		m.id = id
	}
	if got.Outcome != outcome || got.Revived != revived || id != m.id {
		w.Errorf("receive %s: %+v of %s, want %s of %s, revived %v", name, got, id, outcome, m.id,
			revived)
	}
	if w.m.rowOf(id) != m {
		w.Errorf("receive %s: two callbacks have the id %s", name, id)
	}
}

func (w *walk) takeSome() {
	r := queue.LeaseRequest{Lane: w.lane, Max: 1 + w.r.IntN(4), For: time.Minute, MaxLost: maxLost}
	rows := w.leaseBy(r).Rows
	want := []string{}
	for _, row := range w.m.lease(r.Max, r.For) {
		want = append(want, row.name)
	}
	w.note("lease %d: %v", r.Max, want)
	w.wantNames("lease", rows, want...)
	for _, row := range rows {
		m := w.m.rowOf(row.ID())
		if m != nil && (row.Attempt != m.attempt || row.Lost != m.lost || row.Fence <= m.fence ||
			row.LimitPassed != m.passed) {
			w.Errorf("leased %+v, the model has %+v", row, m)
		}
		if m != nil {
			m.fence = row.Fence
		}
		if old, ok := w.held[row.ID()]; ok {
			w.stale = append(w.stale, old.Grant())
		}
		w.held[row.ID()] = row
	}
}

// running returns a row in hand; nil if there is none.
func (w *walk) running() *modelRow {
	var rows []*modelRow
	for _, r := range w.m.rows {
		if r.state == queue.Running {
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return rows[w.r.IntN(len(rows))]
}

func (w *walk) outcome() queue.Settlement {
	pause := time.Duration(1+w.r.IntN(50)) * time.Second
	block := w.r.IntN(4) == 0
	causes := []queue.Cause{queue.CauseTransient, queue.CausePermanent, queue.CauseIllegal}
	return []queue.Settlement{
		{State: queue.Done}, {State: queue.Done}, {State: queue.Stale}, {State: queue.Unrouted},
		{State: queue.Pending, RetryIn: pause}, {State: queue.Pending, RetryIn: pause},
		{State: queue.Pending, NotTried: true},
		{State: queue.Pending, NotTried: true, RetryIn: pause},
		{State: queue.Dead, DeadCause: causes[w.r.IntN(len(causes))], Block: block},
		{State: queue.Held, Block: block}, {State: queue.Discarded},
		{State: queue.Parked, Park: &queue.Park{Limit: 2 * pause,
			Waits: []string{w.wait(w.r.IntN(3)), w.wait(3)}}},
	}[w.r.IntN(12)]
}

// wait returns one of four waits of this walk: rows of an earlier one may still be parked, and a
// wake goes to the first row in the whole store.
func (w *walk) wait(n int) string {
	if n == 3 {
		return queue.WaitResource("lift", w.prefix)
	}
	return queue.WaitTask("f", fmt.Sprint(w.prefix, n))
}

func (w *walk) settleOne() {
	m := w.running()
	if m == nil {
		return
	}
	set := w.outcome()
	row := w.held[m.id]
	set.Grant = row.Grant()
	w.note("settle %s as %s, not tried %v", m.name, set.State, set.NotTried)
	if err := w.settle(set)[0]; err != nil {
		w.Errorf("settle %s as %s: %v", m.name, set.State, err)
	}
	w.m.settle(m, &set)
	w.stale = append(w.stale, set.Grant)
}

func (w *walk) settleStale() {
	if len(w.stale) == 0 {
		return
	}
	g := w.stale[w.r.IntN(len(w.stale))]
	w.wantErr("settle under an old grant",
		w.settle(queue.Settlement{Grant: g, State: queue.Done})[0], once.ErrLeaseLost)
}

func (w *walk) renewAll() {
	for id, row := range w.held {
		m := w.m.rowOf(id)
		alive := m.state == queue.Running && m.fence == row.Fence
		err := w.s.Renew(w.ctx, []queue.Grant{row.Grant()}, time.Minute)[0]
		if alive != (err == nil) {
			w.Errorf("renew %s: %v, the model has %+v", m.name, err, m)
		}
		if alive {
			m.next = w.m.now.Add(time.Minute)
		}
	}
	w.note("renew")
}

func (w *walk) advance() {
	d := time.Duration(1+w.r.IntN(40)) * time.Second
	w.note("advance %v", d)
	w.h.Advance(d)
	w.m.now = w.m.now.Add(d)
}

func (w *walk) person() {
	if len(w.m.rows) == 0 {
		return
	}
	m := w.m.rows[w.r.IntN(len(w.m.rows))]
	allowed := []queue.State{queue.Parked, queue.Unrouted, queue.Dead, queue.Held}
	retry := w.r.IntN(2) == 0
	var err error
	if retry {
		err = w.operator().Retry(w.ctx, queue.Callback, m.id, byAnn, nil)
	} else {
		allowed = append(allowed, queue.Pending)
		err = w.operator().Discard(w.ctx, queue.Callback, m.id, byAnn, nil)
	}
	w.note("person on %s (%s), retry %v: %v", m.name, m.state, retry, err)
	if ok := slices.Contains(allowed, m.state); ok != (err == nil) {
		w.Errorf("person on %s, which is %s: %v", m.name, m.state, err)
	} else if !ok {
		return
	}
	if retry {
		w.m.makeDue(m)
		return
	}
	w.m.giveUp(m, queue.Discarded)
}

func (w *walk) wakeSome() {
	wait := w.wait(w.r.IntN(4))
	first := w.r.IntN(2) == 0
	w.note("wake %s, first %v", wait, first)
	w.wake(wait, first)
	w.m.wake(wait, first)
}

func (w *walk) restart() {
	clean := w.r.IntN(2) == 0
	if !clean {
		// What a store that is killed knows of the time is when it accepted something last. Limits
		// of waits don't run while it is away.
		w.receiveRow(len(w.m.rows))
	}
	w.note("restart, clean %v", clean)
	w.reopen(clean)
	w.m.kill()
	for _, row := range w.held {
		w.stale = append(w.stale, row.Grant())
	}
	clear(w.held)
}

// compare holds every row, the counters and the pages to the model.
func (w *walk) compare() {
	w.m.notice()
	w.sweepAll() // a commit, in which the store notices the time too
	for _, m := range w.m.rows {
		got := w.byID(m.id).Row
		same := got.State == m.state && got.Attempt == m.attempt && got.Lost == m.lost &&
			got.DeadCause == m.cause && got.Conflicts == m.conflict &&
			got.LimitPassed == m.passed && (!m.renews || got.Duplicates == m.repeats) &&
			string(got.Body) == fmt.Sprint(m.name, " ", []int{m.version})
		if !same {
			w.Errorf("stored %+v\nthe model has %+v", got, *m)
		}
	}
	w.wantCounts()
}

// steppedAtRandom lets a flow of a few tasks meet failures, waits, conflicts and kills, and holds
// what came of it against what has to be true of any order of events.
func steppedAtRandom(k *kit) {
	seed, err := strconv.ParseUint(os.Getenv(SeedEnv), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	r := rand.New(rand.NewPCG(seed, 1))
	const rows, tasks = 120, 5
	calm := false
	fn := func(v queue.View, row queue.Row) (queue.Settlement, error) {
		task, err := v.Task(flow, row.Task)
		if err != nil {
			return queue.Settlement{}, err
		}
		n := r.IntN(10)
		if calm {
			n = 9
		}
		switch n {
		case 0:
			return queue.Settlement{}, errors.New("a field is missing")
		case 1:
			return park(queue.WaitTask(flow, row.Task)), nil
		case 2:
			return queue.Settlement{State: queue.Pending, RetryIn: time.Second}, nil
		}
		set := queue.Settlement{State: queue.Done,
			Effects: []queue.Arrival{effect("effect of " + row.Key[0])},
			Wake:    []queue.Wake{{Wait: queue.WaitTask(flow, row.Task), First: r.IntN(2) == 0}}}
		c := queue.TaskChange{Task: task, From: task.State, Event: row.Event, Callback: row.ID()}
		c.Task.State = fmt.Sprint("after ", task.Version+1)
		if n == 3 {
			c.Task.Version++ // as if it had been changed in between
		}
		c.Task.Fields = map[string]any{"n": task.Version + 1}
		c.Task.Taken, c.Task.Retention = map[string]queue.Taken{}, hour
		if have, ok := task.Fields["n"]; ok && have != any(task.Version) {
			k.Errorf("task %s at version %d has n = %v", row.Task, task.Version, have)
		}
		set.Tasks = []queue.TaskChange{c}
		return set, nil
	}
	for n := range rows {
		k.append(ofTask(fmt.Sprint("row", n), fmt.Sprint("T", n%tasks)))
		switch r.IntN(6) {
		case 0:
			k.h.Advance(time.Second)
		case 1, 2:
			k.step(1+r.IntN(8), fn)
		}
		if r.IntN(30) == 0 {
			k.reopen(r.IntN(2) == 0)
		}
	}
	calm = true
	for range 5 {
		k.h.Advance(2 * hour)
		k.stepAll(fn)
	}
	stepped(k, rows, tasks)
	if k.Failed() {
		k.Fatalf("repeat with %s=%d", SeedEnv, seed)
	}
}

// stepped proves that each row moved its task once.
func stepped(k *kit, rows, tasks int) {
	k.Helper()
	seen := map[string]int{}
	for n := range tasks {
		task, lines := k.task(fmt.Sprint("T", n))
		if int(task.Version) != rows/tasks || len(lines) != rows/tasks ||
			task.State != fmt.Sprint("after ", rows/tasks) {
			k.Errorf("task %s: version %d, state %s, %d lines", task.ID, task.Version, task.State,
				len(lines))
		}
		for _, l := range lines {
			seen[l.Callback]++
		}
	}
	for n := range rows {
		name := fmt.Sprint("row", n)
		k.wantState(name, queue.Done)
		if seen[idOf(name)] != 1 {
			k.Errorf("%s moved its task %d times", name, seen[idOf(name)])
		}
	}
	if effects := k.all(queue.RowQuery{Kind: queue.Effect, Limit: 500}); len(effects) != rows {
		k.Errorf("%d effects of %d rows", len(effects), rows)
	}
	k.wantCounts()
}
