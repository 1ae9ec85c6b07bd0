package queuetest

import (
	"fmt"
	"time"

	"github.com/oncekit/once/queue"
)

func leaseCases() []Case {
	return []Case{
		{Name: "Lease/InOrder", Promise: "due rows are taken in the order of acceptance, no more " +
			"than asked for, and More tells of the rest", run: inOrder},
		{Name: "Lease/TakenOnce", Promise: "a row in somebody's hands is not taken again",
			run: takenOnce},
		{Name: "Lease/AttemptIsDurableFirst", Promise: "the attempt is counted and visible " +
			"before the row is worked", run: attemptFirst},
		{Name: "Lease/FencesRise", Promise: "each lease of a row has a higher fence than the one " +
			"before, over retries, loss and restart", run: fencesRise},
		{Name: "Lease/LanesAreApart", Promise: "a lease takes rows of its lane alone",
			run: lanesApart},
		{Name: "Lease/D01_ExhaustedRowsAreNotSelected", Promise: "dead, done and parked rows are " +
			"never selected, so a fresh row behind a hundred of them is taken at once",
			run: exhausted},
		{Name: "Lease/D02_RetryTimeIsKept", Promise: "a row that failed is due at its time, not " +
			"before", run: retryTime},
		{Name: "Lease/D04_FreshRowsAreFoundBehindThoseThatFailed", Promise: "asked for a fresh " +
			"row, a lease passes over due rows that failed before, but not over their keys",
			run: freshOnly},
		{Name: "Lease/D07_SelectedByState", Promise: "an early row that becomes due late is " +
			"taken, though later ones were taken before", run: byState},
		{Name: "Lease/BadRequests", Promise: "a lease without a lane, a number or a length is an " +
			"error", run: badLease},
		{Name: "Lease/BellRings", Promise: "a commit that makes rows of a lane due rings its " +
			"bell, and no other", needs: bells, run: bellRings},
	}
}

func inOrder(k *kit) {
	for i := range 7 {
		k.append(arrival(fmt.Sprint(i)))
	}
	got := k.leaseBy(request(3))
	k.wantNames("first lease", got.Rows, "0", "1", "2")
	if !got.More {
		k.Error("More is false with 4 rows due")
	}
	got = k.leaseBy(request(10))
	k.wantNames("second lease", got.Rows, "3", "4", "5", "6")
	if got.More {
		k.Error("More is true with nothing due")
	}
}

func takenOnce(k *kit) {
	k.append(arrival("x"))
	k.take("x")
	if rows := k.lease(10); len(rows) != 0 {
		k.Errorf("taken twice: %v", names(rows))
	}
}

func attemptFirst(k *kit) {
	k.append(arrival("x"))
	now := k.h.Now()
	row := k.take("x")
	got := k.row("x")
	if got.State != queue.Running || got.Attempt != 1 || got.Fence != row.Fence ||
		got.StartedAt.Sub(now).Abs() > time.Millisecond {
		k.Errorf("while it is worked: %+v", got)
	}
	k.append(effect("e"))
	r := request(1)
	r.Lane = "effect/plc"
	if rows := k.leaseBy(r).Rows; len(rows) != 1 || rows[0].State != queue.Sending {
		k.Errorf("an effect in hand: %+v", rows)
	}
	k.wantCounts()
}

func fencesRise(k *kit) {
	k.append(arrival("x"))
	fence := int64(0)
	next := func(what string) {
		k.Helper()
		row := k.take("x")
		if row.Fence <= fence {
			k.Errorf("%s: fence %d after %d", what, row.Fence, fence)
		}
		fence = row.Fence
		if what == "first" || what == "after a restart" {
			k.end(row, queue.Settlement{State: queue.Pending, RetryIn: time.Second})
			k.h.Advance(time.Second)
		}
	}
	next("first")
	next("after a retry")
	k.h.Advance(2 * time.Minute)
	next("after a loss")
	k.reopen(false)
	next("after a restart")
	next("after a retry after a restart")
}

func lanesApart(k *kit) {
	other := arrival("other")
	other.Lane = "handler/other"
	k.append(other, arrival("mine"))
	k.wantNames("mine", k.lease(10), "mine")
	r := request(10)
	r.Lane = "handler/none"
	if rows := k.leaseBy(r).Rows; len(rows) != 0 {
		k.Errorf("an unknown lane has %v", names(rows))
	}
	r.Lane = "handler/other"
	k.wantNames("other", k.leaseBy(r).Rows, "other")
}

func exhausted(k *kit) {
	for i := range 100 {
		k.append(arrival(fmt.Sprint("old", i)))
	}
	for i, row := range k.lease(100) {
		set := queue.Settlement{State: queue.Dead, DeadCause: queue.CauseTransient}
		switch i % 3 {
		case 1:
			set = queue.Settlement{State: queue.Done}
		case 2:
			set = queue.Settlement{State: queue.Parked, Park: &queue.Park{
				Waits: []string{queue.WaitTask(flow, "T")}, Limit: hour}}
		}
		k.end(row, set)
	}
	k.append(arrival("fresh"))
	k.wantNames("next lease", k.lease(10), "fresh")
}

func freshOnly(k *kit) {
	k.append(arrival("bad"), ordered("bad of a", "a"), ordered("lost of b", "b"))
	for _, row := range k.lease(2) {
		k.end(row, queue.Settlement{State: queue.Pending, RetryIn: time.Second, Error: "503"})
	}
	k.take("lost of b")
	k.reopen(false)
	k.h.Advance(time.Minute)
	k.append(ordered("later of a", "a"), arrival("fresh"), ordered("later of b", "b"))
	r := request(10)
	r.Fresh = true
	got := k.leaseBy(r).Rows
	if len(got) == 1 && got[0].Lost > 0 { // alone, until it is through
		k.wantNames("what lost its worker", got, "lost of b")
		k.end(got[0], queue.Settlement{State: queue.Pending, RetryIn: hour})
		got = k.leaseBy(r).Rows
	}
	k.wantNames("fresh rows", got, "fresh")
	for _, row := range got {
		k.end(row, queue.Settlement{State: queue.Done})
	}
	k.wantNames("all rows", k.lease(10), "bad", "bad of a")
	k.wantCounts()
}

func retryTime(k *kit) {
	k.append(arrival("x"))
	k.end(k.take("x"), queue.Settlement{State: queue.Pending, RetryIn: 10 * time.Second,
		Error: "connection refused"})
	got := k.row("x")
	due := k.h.Now().Add(10 * time.Second)
	if got.State != queue.Pending || got.Error != "connection refused" ||
		got.NextAt.Sub(due).Abs() > time.Millisecond {
		k.Errorf("waits as %+v, due %v", got, due)
	}
	k.h.Advance(9 * time.Second)
	if rows := k.lease(1); len(rows) != 0 {
		k.Fatal("taken before its time")
	}
	k.h.Advance(time.Second)
	row := k.take("x")
	if row.Attempt != 2 {
		k.Errorf("attempt %d, want 2", row.Attempt)
	}
	k.end(row, queue.Settlement{State: queue.Done})
	d := k.detail(queue.Callback, "x")
	if len(d.Attempts) != 2 || d.Attempts[0].Result != "retry" || d.Attempts[0].N != 1 ||
		d.Attempts[0].Error != "connection refused" || d.Attempts[1].Result != "done" ||
		d.Attempts[1].N != 2 {
		k.Errorf("attempts %+v", d.Attempts)
	}
	k.wantCounts()
}

func byState(k *kit) {
	k.append(arrival("early"))
	k.end(k.take("early"), queue.Settlement{State: queue.Pending, RetryIn: time.Minute})
	for i := range 20 {
		k.append(arrival(fmt.Sprint("late", i)))
	}
	if rows := k.lease(100); len(rows) != 20 {
		k.Fatalf("%d rows are due", len(rows))
	}
	k.h.Advance(30 * time.Second)
	if rows := k.lease(1); len(rows) != 0 {
		k.Fatalf("due early: %v", names(rows))
	}
	k.h.Advance(29*time.Second + time.Second)
	k.wantNames("first after its wait", k.lease(1), "early")
}

func badLease(k *kit) {
	for _, r := range []queue.LeaseRequest{
		{Max: 1, For: time.Minute},
		{Lane: lane, For: time.Minute},
		{Lane: lane, Max: 1},
		{Lane: lane, Max: -1, For: time.Minute},
	} {
		if _, err := k.s.Lease(k.ctx, r); err == nil {
			k.Errorf("%+v: no error", r)
		}
	}
}

func bellRings(k *kit) {
	n := k.s.(queue.Notifier)
	mine, other := n.Notify(lane), n.Notify("handler/other")
	if n.Notify(lane) != mine {
		k.Fatal("two calls give two bells")
	}
	rings := func(what string) {
		k.Helper()
		select {
		case <-mine:
		case <-time.After(10 * time.Second):
			k.Fatalf("no bell: %s", what)
		}
	}
	k.append(arrival("x"), ordered("y", "K"), ordered("z", "K"))
	rings("new rows")
	rows := k.lease(2)
	k.wantNames("leased", rows, "x", "y")
	if more := k.lease(5); len(more) != 0 { // z is found behind y
		k.Fatalf("leased %v", names(more))
	}
	k.end(rows[1], queue.Settlement{State: queue.Done})
	rings("the next of an order key")
	k.end(rows[0], queue.Settlement{State: queue.Pending, RetryIn: time.Second})
	for drained := false; !drained; {
		select {
		case <-mine:
		default:
			drained = true
		}
	}
	k.h.Advance(time.Second)
	k.append(arrival("w"))
	rings("new rows and a retry")
	select {
	case <-other:
		k.Error("the bell of another lane rang")
	default:
	}
}
