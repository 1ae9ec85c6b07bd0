package queuetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

func sweepCases() []Case {
	return []Case{
		{Name: "Sweep/I21_IdentityOutlivesThePayload", Promise: "after KeepBody the payload " +
			"goes, and its repeats are still duplicates", run: identityOutlives},
		{Name: "Sweep/I11_I21_RepeatsMinutesAndDaysLater", Promise: "a repeat five minutes and a " +
			"second later, and on each of the days of a sender's schedule, is a duplicate while " +
			"the retention lasts, and new afterwards", run: repeatsLater},
		{Name: "Sweep/CountsFromTheEndOfTheWork", Promise: "retention counts from the end of the " +
			"work where that is later", run: countsFromEnd},
		{Name: "Sweep/CountsFromTheLastArrival", Promise: "retention counts from the last " +
			"arrival where that is later, also one that is not written yet",
			run: countsFromArrival},
		{Name: "Sweep/ForgottenIsNew", Promise: "after its retention an identity is new again, " +
			"and nothing is left of the old row", run: forgottenIsNew},
		{Name: "Sweep/UnfinishedIsNeverSwept", Promise: "pending, running, parked, dead and held " +
			"rows stay for ever", run: unfinishedStays},
		{Name: "Sweep/FinishedStatesGo", Promise: "done, stale, unrouted, expired and discarded " +
			"rows go after their retention", run: finishedGoes},
		{Name: "Sweep/SmallSteps", Promise: "a sweep removes no more than it was asked for, and " +
			"says so while more is due", run: smallSteps},
		{Name: "Sweep/NumbersAreNotUsedAgain", Promise: "the number of a swept row is never " +
			"given to another, also over a restart", run: numbersOnce},
		{Name: "Sweep/RevivedKeepsItsRow", Promise: "a row that a person makes due again is not " +
			"swept by its old plan", needs: people, run: revivedIsKept},
	}
}

// done appends a row and ends it.
func (k *kit) done(a queue.Arrival) {
	k.Helper()
	k.append(a)
	r := request(1)
	r.Lane = a.Lane
	k.end(k.leaseBy(r).Rows[0], queue.Settlement{State: queue.Done})
}

func identityOutlives(k *kit) {
	a := arrival("x", 1)
	a.KeepBody = hour
	k.done(a)
	k.append(arrival("x", 2))
	k.h.Advance(hour - time.Second)
	k.sweepAll()
	if got := k.row("x"); got.Body == nil {
		k.Fatal("the body went too early")
	}
	k.h.Advance(2 * time.Second)
	k.sweepAll()
	d := k.detail(queue.Callback, "x")
	if d.Row.Body != nil || d.Row.Meta != nil {
		k.Error("the payload is still there")
	}
	if len(d.Arrivals) != 1 || d.Arrivals[0].Body != nil {
		k.Errorf("the conflict's payload is still there: %+v", d.Arrivals)
	}
	k.h.Advance(20 * hour)
	if got := k.receive(a); got != queue.Duplicate {
		k.Errorf("its repeat: %s", got)
	}
	if got := k.receive(arrival("x", 3)); got != queue.Conflict {
		k.Errorf("other content: %s", got)
	}
	k.wantCounts()
}

func repeatsLater(k *kit) {
	a := arrival("x")
	a.Retention = 16 * 24 * hour
	k.done(a)
	begun := k.h.Now()
	for _, at := range []time.Duration{5*time.Minute + time.Second, 25 * hour, 3 * 24 * hour,
		15 * 24 * hour} {
		k.h.Advance(at - k.h.Now().Sub(begun))
		k.sweepAll()
		if got := k.receive(a); got != queue.Duplicate {
			k.Errorf("after %v: %s", at, got)
		}
	}
	// The last repeat counts: its retention begins with it.
	k.h.Advance(16*24*hour + time.Second)
	k.sweepAll()
	if got := k.receive(a); got != queue.Accepted {
		k.Errorf("after its retention: %s", got)
	}
	k.wantCounts()
}

func countsFromEnd(k *kit) {
	k.append(arrival("x"))
	k.h.Advance(72 * hour)
	k.end(k.take("x"), queue.Settlement{State: queue.Done})
	k.h.Advance(24*hour - time.Second)
	k.sweepAll()
	k.wantState("x", queue.Done)
	k.h.Advance(2 * time.Second)
	k.sweepAll()
	if _, err := k.b.Row(k.ctx, queue.Callback, idOf("x")); !errors.Is(err, once.ErrNotFound) {
		k.Errorf("after its retention: %v", err)
	}
}

func countsFromArrival(k *kit) {
	k.done(arrival("x"))
	for range 3 { // a sender that never stops
		k.h.Advance(23 * hour)
		if got := k.receive(arrival("x")); got != queue.Duplicate {
			k.Fatalf("repeat within the retention: %s", got)
		}
		k.h.Advance(hour + time.Second)
		k.sweepAll()
	}
	if got := k.receive(arrival("x")); got != queue.Duplicate {
		k.Errorf("repeat: %s", got)
	}
	k.h.Advance(24*hour + time.Second)
	k.sweepAll()
	if got := k.receive(arrival("x")); got != queue.Accepted {
		k.Errorf("after the retention: %s", got)
	}
}

func forgottenIsNew(k *kit) {
	k.done(arrival("x", 1))
	k.append(arrival("x", 1), arrival("x", 2))
	old := k.row("x")
	k.h.Advance(25 * hour)
	if n := k.sweepAll(); n == 0 {
		k.Fatal("nothing was swept")
	}
	k.wantCounts()
	r := k.append(arrival("x", 2))[0]
	if r.Outcome != queue.Accepted || r.Seq <= old.Seq {
		k.Errorf("receipt %+v after seq %d", r, old.Seq)
	}
	d := k.detail(queue.Callback, "x")
	if len(d.Arrivals) != 0 || len(d.Attempts) != 0 || d.Row.Conflicts != 0 || d.Row.Attempt != 0 {
		k.Errorf("of the old row is left: %+v", d)
	}
	k.wantCounts()
}

func unfinishedStays(k *kit) {
	k.append(arrival("pending"))
	k.end(k.take("pending"), queue.Settlement{State: queue.Pending, RetryIn: 10000 * hour})
	for _, c := range []queue.Cause{queue.CauseTransient, queue.CausePermanent, queue.CausePoison} {
		k.dead(arrival(string(c)), c)
	}
	k.append(arrival("held"))
	k.end(k.take("held"), queue.Settlement{State: queue.Held})
	k.append(arrival("parked"))
	k.end(k.take("parked"), queue.Settlement{State: queue.Parked,
		Park: &queue.Park{Waits: []string{queue.WaitTask(flow, "T")}, Limit: 10000 * hour}})
	k.append(arrival("running"))
	r := request(1)
	r.For = 10000 * hour
	k.leaseBy(r)
	k.h.Advance(9000 * hour)
	k.sweepAll()
	if rows := k.all(queue.RowQuery{Kind: queue.Callback}); len(rows) != 7 {
		k.Errorf("left: %v", names(rows))
	}
	k.wantState("running", queue.Running)
	k.wantState("parked", queue.Parked)
	k.wantCounts()
}

func finishedGoes(k *kit) {
	for _, s := range []queue.State{queue.Done, queue.Stale, queue.Unrouted, queue.Discarded} {
		k.append(arrival(string(s)))
		k.end(k.take(string(s)), queue.Settlement{State: s})
	}
	k.append(effect("late"))
	r := request(1)
	r.Lane = "effect/plc"
	k.end(k.leaseBy(r).Rows[0], queue.Settlement{State: queue.Expired})
	u := arrival("never routed")
	u.State = queue.Unrouted
	k.append(u)
	k.h.Advance(25 * hour)
	k.sweepAll()
	for _, kind := range []queue.Kind{queue.Callback, queue.Effect} {
		if rows := k.all(queue.RowQuery{Kind: kind}); len(rows) != 0 {
			k.Errorf("left: %v", names(rows))
		}
	}
	k.wantCounts()
}

func smallSteps(k *kit) {
	for i := range 25 {
		k.done(arrival(fmt.Sprint(i)))
	}
	k.h.Advance(25 * hour)
	for _, want := range []int{15, 5, 0, 0} {
		n, err := k.s.Sweep(k.ctx, 10)
		if err != nil {
			k.Fatal(err)
		}
		left := len(k.all(queue.RowQuery{Kind: queue.Callback}))
		if left != want || n > 10 || n < 10 && left > 0 {
			k.Errorf("removed %d, %d are left, want %d", n, left, want)
		}
	}
	if _, err := k.s.Sweep(k.ctx, 0); err == nil {
		k.Error("a sweep of nothing is no error")
	}
}

func numbersOnce(k *kit) {
	k.done(arrival("a"))
	k.done(arrival("b"))
	last := k.row("b").Seq
	k.h.Advance(25 * hour)
	k.sweepAll()
	for i, clean := range []bool{true, false} {
		k.reopen(clean)
		seq := k.append(arrival(fmt.Sprint("new", i)))[0].Seq
		if seq <= last {
			k.Errorf("seq %d was used before (last %d)", seq, last)
		}
		last = seq
	}
}

func revivedIsKept(k *kit) {
	u := arrival("u")
	u.State = queue.Unrouted
	k.append(u)
	by := queue.Action{Actor: "ann", Reason: "declared now", Name: "retry"}
	if err := k.operator().Retry(k.ctx, queue.Callback, idOf("u"), by, nil); err != nil {
		k.Fatal(err)
	}
	k.h.Advance(72 * hour)
	k.sweepAll()
	k.wantState("u", queue.Pending)
}
