package queuetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/oncekit/once/queue"
)

func waitCases() []Case {
	cases := []Case{
		{Name: "Wait/LeavesTheLine", Promise: "a parked row holds up nobody, least of all the " +
			"later rows of its key", run: parkedLeaves},
		{Name: "Wait/WokenGoesFirst", Promise: "a woken row is worked in the step that woke it, " +
			"ahead of later rows", run: wokenFirst},
		{Name: "Wait/AllOrFirst", Promise: "a wake makes all rows of its wait due, or the " +
			"earliest alone", run: allOrFirst},
		{Name: "Wait/VeryMany", Promise: "a wake of very many rows makes all of them due, and no " +
			"later row of their keys is worked before them", run: veryMany},
		{Name: "Wait/VeryManyOverARestart", Promise: "a wake of very many rows reaches all of " +
			"them though the process is killed or closed after it", run: veryManyOverRestart},
		{Name: "Wait/AnyOfSeveral", Promise: "a row that waits for several things is woken by " +
			"any of them, once", run: anyOfSeveral},
		{Name: "Wait/LimitPassed", Promise: "a row that waited to its limit is due and says so, " +
			"a woken one doesn't", run: limitPassed},
		{Name: "Wait/TurnIsKeptUntilWorked", Promise: "FirstWaiter names the earliest row that " +
			"waits, also while it is woken and not worked", run: turnKept},
		{Name: "Wait/TurnIsKeptOverAFailure", Promise: "a woken row whose decision fails keeps " +
			"its turn and its passed limit", run: turnKeptOverFailure},
		{Name: "Wait/TurnPassesOn", Promise: "discarding a woken row gives its turn to the next",
			needs: people, run: turnPasses},
		{Name: "Wait/WaitsOfAreParked", Promise: "WaitsOf tells what the task's parked rows wait " +
			"for, and nothing of others", run: waitsOf},
		{Name: "Wait/Owned", Promise: "Owned returns what the task owns in the order in which it " +
			"got it, without what is being freed", run: owned},
		{Name: "Wait/Busy", Promise: "Busy tells whether another row of the task is due, running " +
			"or waits for another try", run: busy},
		{Name: "Wait/OverARestart", Promise: "parked rows, their waits and limits outlive a kill",
			run: waitsOverRestart},
		{Name: "Wait/RetriedByAPerson", Promise: "a parked row that a person retries is due, " +
			"keeps its turn until it is worked, and waits no more then",
			needs: people, run: parkedRetried},
		{Name: "Wait/Counted", Promise: "a resource tells how many rows wait for it",
			run: waitersCounted},
	}
	for i := range cases {
		cases[i].needs |= steps
	}
	return cases
}

// park is a settlement that parks for an hour.
func park(waits ...string) queue.Settlement {
	return queue.Settlement{State: queue.Parked, Error: "waits",
		Park: &queue.Park{Waits: waits, Limit: hour}}
}

func (k *kit) wake(wait string, first bool) {
	k.Helper()
	k.change(queue.Settlement{Wake: []queue.Wake{{Wait: wait, First: first}}})
}

// change applies what a person changes.
func (k *kit) change(set queue.Settlement) {
	k.Helper()
	err := k.transactor().Transact(k.ctx, func(queue.View) (queue.Settlement, error) {
		return set, nil
	})
	if err != nil {
		k.Fatalf("transact: %v", err)
	}
}

// look reads through a view.
func (k *kit) look(fn func(queue.View) error) {
	k.Helper()
	err := k.transactor().Transact(k.ctx, func(v queue.View) (queue.Settlement, error) {
		return queue.Settlement{}, fn(v)
	})
	if err != nil {
		k.Fatalf("view: %v", err)
	}
}

func (k *kit) wantFirst(wait, name string) {
	k.Helper()
	want := int64(0)
	if name != "" {
		want = k.row(name).Seq
	}
	k.look(func(v queue.View) error {
		got, err := v.FirstWaiter(wait)
		if got != want {
			k.Errorf("first waiter is row %d, want %q (%d)", got, name, want)
		}
		return err
	})
}

func parkedLeaves(k *kit) {
	k.append(ofTask("early", "T"), ofTask("b", "T"), ofTask("c", "T"))
	k.wantNames("decided", k.stepAll(func(_ queue.View, r queue.Row) (queue.Settlement, error) {
		if r.Key[0] == "early" {
			return park("task/f/T"), nil
		}
		return queue.Settlement{State: queue.Done}, nil
	}), "early", "b", "c")
	got := k.row("early")
	if got.State != queue.Parked || !reflect.DeepEqual(got.Waits, []string{"task/f/T"}) ||
		got.NextAt.Sub(k.h.Now().Add(hour)).Abs() > time.Millisecond || got.Error != "waits" {
		k.Errorf("parked as %+v", got)
	}
	k.wantNames("nothing is due", k.stepAll(done))
	k.wantCounts()
}

func wokenFirst(k *kit) {
	wait := queue.WaitTask(flow, "T")
	k.append(ofTask("waits", "T"))
	k.stepAll(always(park(wait)))
	k.append(ofTask("mover", "T"), ofTask("later", "T"), ofTask("other", "U"))
	k.wantNames("decided", k.stepAll(func(_ queue.View, r queue.Row) (queue.Settlement, error) {
		set := queue.Settlement{State: queue.Done}
		if r.Key[0] == "mover" {
			set.Wake = []queue.Wake{{Wait: wait}}
		}
		return set, nil
	}), "mover", "waits", "later", "other")
	if got := k.row("waits"); len(got.Waits) != 0 {
		k.Errorf("still waits for %v", got.Waits)
	}
	k.wantCounts()
}

// parked parks rows of tasks of the same names.
func (k *kit) parked(wait string, rows ...string) {
	k.Helper()
	for _, name := range rows {
		k.append(ofTask(name, name))
	}
	k.stepAll(always(park(wait)))
}

func allOrFirst(k *kit) {
	wait := queue.WaitResource("lift", "L1")
	k.parked(wait, "a", "b", "c", "d")
	k.wake(wait, true)
	k.wantNames("first", k.stepAll(done), "a")
	k.wake("resource/lift/L2", false)
	k.wantNames("another wait", k.stepAll(done))
	k.wake(wait, false)
	k.wantNames("all", k.stepAll(done), "b", "c", "d")
	k.wake(wait, false)
	k.wantNames("nobody", k.stepAll(done))
	k.wantCounts()
}

// parkMany parks rows of three tasks in turn, and returns their names by task.
func (k *kit) parkMany(n int, wait string) map[string][]string {
	k.Helper()
	byTask := map[string][]string{}
	var rows []queue.Arrival
	for i := range n {
		name, task := fmt.Sprint("many", i), fmt.Sprint("T", i%3)
		rows = append(rows, ofTask(name, task))
		byTask[task] = append(byTask[task], name)
	}
	for part := range slices.Chunk(rows, 100) {
		k.append(part...)
	}
	k.stepAll(always(park(wait)))
	return byTask
}

func veryMany(k *kit) {
	wait := queue.WaitTask(flow, "T0")
	want := k.parkMany(1000, wait)
	k.append(ofTask("mover", "T0"))
	want["T0"] = append([]string{"mover"}, want["T0"]...)
	for task := range want {
		name := "later of " + task
		k.append(ofTask(name, task))
		want[task] = append(want[task], name)
	}
	got, worked := map[string][]string{}, 0
	fn := func(_ queue.View, r queue.Row) (queue.Settlement, error) {
		set := queue.Settlement{State: queue.Done}
		if r.Key[0] == "mover" {
			set.Wake = []queue.Wake{{Wait: wait}}
		}
		return set, nil
	}
	k.settled("all are worked", func() bool {
		for _, r := range k.stepAll(fn) {
			got[r.Task] = append(got[r.Task], r.Key[0])
			worked++
		}
		return worked == 1000+1+len(want)
	})
	if !reflect.DeepEqual(got, want) {
		k.Errorf("worked %v, want %v", got, want)
	}
	k.wantFirst(wait, "")
	k.wantCounts()
}

func veryManyOverRestart(k *kit) {
	wait := queue.WaitTask(flow, "T0")
	for _, clean := range []bool{false, true} {
		k.parkMany(1000, wait) // the second time the same rows, which are due
		k.wake(wait, false)
		k.reopen(clean)
		k.settled("no row is parked any more", func() bool {
			got, err := k.b.Counts(k.ctx)
			parked := queue.RowCount{Kind: queue.Callback, Source: source, State: queue.Parked}
			return err == nil && got.Rows[parked] == 0
		})
		k.wantCounts()
	}
}

func anyOfSeveral(k *kit) {
	k.append(ofTask("x", "T"))
	k.stepAll(always(park("task/f/T", "resource/lift/L1")))
	k.change(queue.Settlement{Wake: []queue.Wake{{Wait: "resource/lift/L1"}, {Wait: "task/f/T"}}})
	k.wantNames("woken", k.stepAll(always(park("task/f/U"))), "x")
	k.wake("task/f/T", false)
	k.wantNames("an old wait", k.stepAll(done))
	k.wake("task/f/U", false)
	k.wantNames("the new wait", k.stepAll(done), "x")
}

func limitPassed(k *kit) {
	k.parked("task/f/T", "slow")
	k.h.Advance(30 * time.Minute)
	k.parked("task/f/U", "quick")
	k.wake("task/f/U", false)
	for _, r := range k.stepAll(done) {
		if r.LimitPassed || len(r.Waits) != 1 {
			k.Errorf("woken as %+v", r)
		}
	}
	k.h.Advance(30 * time.Minute)
	rows := k.stepAll(always(park("task/f/T")))
	if len(rows) != 1 || !rows[0].LimitPassed || !reflect.DeepEqual(rows[0].Waits,
		[]string{"task/f/T"}) {
		k.Fatalf("at its limit: %+v", rows)
	}
	if got := k.row("slow"); got.LimitPassed || got.State != queue.Parked {
		k.Errorf("parked again as %+v", got)
	}
	k.wantNames("its limit begins anew", k.stepAll(done))
	k.h.Advance(hour)
	if rows := k.stepAll(done); len(rows) != 1 || !rows[0].LimitPassed {
		k.Errorf("at its second limit: %+v", rows)
	}
	if got := k.row("slow"); got.LimitPassed {
		k.Error("the ended row says that its limit passed")
	}
	k.wantCounts()
}

func turnKept(k *kit) {
	wait := queue.WaitResource("lift", "L1")
	k.wantFirst(wait, "")
	k.parked(wait, "a", "b")
	k.wantFirst(wait, "a")
	k.wake(wait, true)
	k.wantFirst(wait, "a")
	k.stepAll(done)
	k.wantFirst(wait, "b")
	k.h.Advance(hour)
	k.append(ofTask("c", "c")) // a commit in which the limit of b is noticed
	k.wantFirst(wait, "b")
	k.stepAll(done)
	k.wantFirst(wait, "")
}

func turnKeptOverFailure(k *kit) {
	wait := queue.WaitResource("lift", "L1")
	k.parked(wait, "a", "b")
	fail := func(queue.View, queue.Row) (queue.Settlement, error) {
		return queue.Settlement{}, errors.New("the disk hiccups")
	}
	k.wake(wait, true)
	k.wantNames("fails", k.stepAll(fail), "a")
	k.wantFirst(wait, "a")
	k.h.Advance(hour)
	rows := k.stepAll(fail)
	k.wantNames("a again, b at its limit", rows, "a", "b")
	k.h.Advance(time.Minute)
	rows = k.stepAll(done)
	k.wantNames("both again", rows, "a", "b")
	if len(rows) == 2 && (rows[0].LimitPassed || !rows[1].LimitPassed) {
		k.Errorf("limits passed: %v, %v", rows[0].LimitPassed, rows[1].LimitPassed)
	}
	k.wantFirst(wait, "")
	k.wantCounts()
}

func turnPasses(k *kit) {
	wait := queue.WaitResource("lift", "L1")
	k.parked(wait, "a", "b", "c")
	if err := k.operator().Discard(k.ctx, queue.Callback, idOf("a"), byAnn, nil); err != nil {
		k.Fatal(err)
	}
	k.wantNames("a parked one has no turn yet", k.stepAll(done))
	k.wake(wait, true)
	if err := k.operator().Discard(k.ctx, queue.Callback, idOf("b"), byAnn, nil); err != nil {
		k.Fatal(err)
	}
	k.wantNames("the next", k.stepAll(done), "c")
	k.wantCounts()
}

func waitsOf(k *kit) {
	k.append(ofTask("a", "T"), ofTask("b", "T"), ofTask("c", "U"))
	k.stepAll(func(_ queue.View, r queue.Row) (queue.Settlement, error) {
		return park("resource/lift/"+r.Key[0], "task/f/T"), nil
	})
	want := func(task string, want ...string) {
		k.Helper()
		k.look(func(v queue.View) error {
			got, err := v.WaitsOf(flow, task)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				k.Errorf("task %s waits for %v, want %v", task, got, want)
			}
			return err
		})
	}
	want("T", "resource/lift/a", "task/f/T", "resource/lift/b", "task/f/T")
	want("U", "resource/lift/c", "task/f/T")
	want("none")
	k.wake("resource/lift/a", false)
	want("T", "resource/lift/b", "task/f/T")
	k.stepAll(done)
	want("T", "resource/lift/b", "task/f/T")
}

func owned(k *kit) {
	at := k.h.Now()
	res := func(name, task string, after time.Duration, freeing int) queue.Resource {
		return queue.Resource{Kind: "lift", Name: name, Flow: flow, Task: task, Freeing: freeing,
			SinceAt: at.Add(after), Fence: 1}
	}
	k.change(queue.Settlement{Resources: []queue.Resource{res("z", "T", 0, 0),
		res("a", "T", time.Second, 0), res("gone", "T", 0, 2), res("other", "U", 0, 0),
		res("m", "T", 2*time.Second, 0), {Kind: "lift", Name: "free", Fence: 1}}})
	k.look(func(v queue.View) error {
		got, err := v.Owned(flow, "T")
		var names []string
		for _, r := range got {
			names = append(names, r.Name)
		}
		if fmt.Sprint(names) != "[z a m]" {
			k.Errorf("owns %v", names)
		}
		if none, err2 := v.Owned(flow, ""); len(none) != 0 || err2 != nil {
			k.Errorf("no task owns %v, %v", none, err2)
		}
		return err
	})
}

func busy(k *kit) {
	k.append(ofTask("x", "T"), ofTask("other", "U"))
	x := k.row("x").Seq
	want := func(what string, except int64, want bool) {
		k.Helper()
		k.look(func(v queue.View) error {
			got, err := v.Busy(flow, "T", except)
			if got != want {
				k.Errorf("%s: busy is %v", what, got)
			}
			return err
		})
	}
	want("one due", 0, true)
	want("itself alone", x, false)
	k.stepAll(func(_ queue.View, r queue.Row) (queue.Settlement, error) {
		return queue.Settlement{State: queue.Pending, RetryIn: hour}, nil
	})
	want("one waits for another try", 0, true)
	k.append(ofTask("y", "T"))
	want("another behind it", x, true)
	k.h.Advance(hour)
	k.stepAll(func(_ queue.View, r queue.Row) (queue.Settlement, error) {
		if r.Key[0] == "x" {
			return park("task/f/T"), nil
		}
		return queue.Settlement{State: queue.Done}, nil
	})
	want("one parked, one done", 0, false)
	k.append(ofTask("z", "T"))
	k.stepAll(always(queue.Settlement{State: queue.Dead, DeadCause: queue.CauseIllegal}))
	want("one dead", 0, false)
}

func waitsOverRestart(k *kit) {
	k.parked("task/f/T", "a", "b")
	k.parked("resource/lift/L1", "c")
	k.reopen(false)
	k.wantFirst("resource/lift/L1", "c")
	k.wake("resource/lift/L1", true)
	k.wantNames("woken", k.stepAll(done), "c")
	k.h.Advance(hour)
	rows := k.stepAll(done)
	k.wantNames("at their limits", rows, "a", "b")
	for _, r := range rows {
		if !r.LimitPassed {
			k.Errorf("%v came without its flag", r.Key)
		}
	}
	k.wantCounts()
}

func parkedRetried(k *kit) {
	k.parked("resource/lift/L1", "a", "b")
	if err := k.operator().Retry(k.ctx, queue.Callback, idOf("a"), byAnn, nil); err != nil {
		k.Fatal(err)
	}
	k.wantFirst("resource/lift/L1", "a")
	rows := k.stepAll(done)
	k.wantNames("retried", rows, "a")
	if len(rows) == 1 && (len(rows[0].Waits) != 1 || rows[0].LimitPassed) {
		k.Errorf("retried as %+v", rows[0])
	}
	k.wantFirst("resource/lift/L1", "b")
	k.wantCounts()
}

func waitersCounted(k *kit) {
	k.change(queue.Settlement{Resources: []queue.Resource{
		{Kind: "lift", Name: "L1", Flow: flow, Task: "T", Fence: 1, SinceAt: k.h.Now()}}})
	k.parked("resource/lift/L1", "a", "b", "c")
	page, err := k.b.Resources(k.ctx, queue.ResourceQuery{Limit: 10})
	if err != nil || len(page.Resources) != 1 || page.Resources[0].Waiting != 3 {
		k.Errorf("resources %+v, %v", page, err)
	}
}
