package queuetest

import (
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

func lostCases() []Case {
	return []Case{
		{Name: "Lost/D08_LeaseEnds", Promise: "a row whose worker says nothing is due again " +
			"after its lease, with the attempt counted and remembered as lost", run: leaseEnds},
		{Name: "Lost/K09_StaleGrantChangesNothing", Promise: "what an owner does after it lost " +
			"its lease fails with ErrLeaseLost and changes nothing", run: staleGrant},
		{Name: "Lost/SettledTwice", Promise: "a second settlement under the same grant is refused",
			run: settledTwice},
		{Name: "Lost/RenewKeeps", Promise: "a renewed lease lasts from the renewal on",
			run: renewKeeps},
		{Name: "Lost/RenewIsEach", Promise: "renewing several leases tells of each apart",
			run: renewEach},
		{Name: "Lost/D03_PoisonIsADeadLetter", Promise: "a row that lost MaxLost workers in a " +
			"row is a dead letter with the cause poison, and is not tried again", run: poison},
		{Name: "Lost/PoisonByDefault", Promise: "without MaxLost a row is poison after 5 losses",
			run: poisonDefault},
		{Name: "Lost/WorkedSingly", Promise: "a row that lost a worker is worked alone in its " +
			"lane until it is through", run: workedSingly},
		{Name: "Lost/EndedTryCountsAnew", Promise: "a try that ends resets the count of losses",
			run: endedTry},
		{Name: "Lost/HoldLost", Promise: "with HoldLost a row that lost its worker is held, not " +
			"tried again", run: holdLost},
		{Name: "Lost/PoisonBlocks", Promise: "with Block a poison row keeps the later rows of " +
			"its key waiting", run: poisonBlocks},
		{Name: "Lost/D14_NotTriedGivesBack", Promise: "NotTried gives the attempt back: the row " +
			"is due as if it had not been taken", run: notTried},
		{Name: "Lost/NotTriedWaits", Promise: "NotTried with RetryIn makes the row due after the " +
			"wait, and keeps its place in its key", run: notTriedWaits},
		{Name: "Lost/D06_K10_OneWinner", Promise: "of two owners, before and after a lost lease, " +
			"one alone settles the row", run: oneWinner},
	}
}

func leaseEnds(k *kit) {
	k.append(ordered("x", "K"), ordered("y", "K"))
	k.take("x")
	k.h.Advance(59 * time.Second)
	if rows := k.lease(5); len(rows) != 0 {
		k.Fatalf("taken within its lease: %v", names(rows))
	}
	k.h.Advance(2 * time.Second)
	row := k.take("x")
	if row.Attempt != 2 || row.Lost != 1 {
		k.Errorf("attempt %d, lost %d", row.Attempt, row.Lost)
	}
	d := k.detail(queue.Callback, "x")
	if len(d.Attempts) != 1 || d.Attempts[0].Result != "lost" || d.Attempts[0].N != 1 {
		k.Errorf("attempts %+v", d.Attempts)
	}
	k.end(row, queue.Settlement{State: queue.Done})
	k.end(k.take("y"), queue.Settlement{State: queue.Done})
	k.wantCounts()
}

func staleGrant(k *kit) {
	k.append(arrival("x"))
	old := k.take("x")
	k.h.Advance(61 * time.Second)
	k.wantErr("renew after the end", k.s.Renew(k.ctx, []queue.Grant{old.Grant()}, hour)[0],
		once.ErrLeaseLost)
	row := k.take("x")
	late := queue.Settlement{Grant: old.Grant(), State: queue.Dead, DeadCause: queue.CausePermanent,
		Error: "late", Effects: []queue.Arrival{effect("late")}}
	k.wantErr("renew by the old owner", k.s.Renew(k.ctx, []queue.Grant{old.Grant()}, hour)[0],
		once.ErrLeaseLost)
	k.wantErr("settle by the old owner", k.settle(late)[0], once.ErrLeaseLost)
	got := k.row("x")
	if got.State != queue.Running || got.Error == "late" || got.Fence != row.Fence {
		k.Errorf("the old owner made it %+v", got)
	}
	if rows := k.all(queue.RowQuery{Kind: queue.Effect}); len(rows) != 0 {
		k.Errorf("the old owner queued %v", names(rows))
	}
	k.end(row, queue.Settlement{State: queue.Done})
	k.wantErr("settle after the end", k.settle(late)[0], once.ErrLeaseLost)
	k.wantErr("settle of no row", k.settle(queue.Settlement{
		Grant: queue.Grant{Seq: 1 << 40, Fence: 1}, State: queue.Done})[0], once.ErrLeaseLost)
	k.wantState("x", queue.Done)
	k.wantCounts()
}

func settledTwice(k *kit) {
	k.append(arrival("x"))
	row := k.take("x")
	k.end(row, queue.Settlement{State: queue.Pending, RetryIn: time.Second})
	second := queue.Settlement{Grant: row.Grant(), State: queue.Done}
	k.wantErr("second settlement", k.settle(second)[0], once.ErrLeaseLost)
	k.wantState("x", queue.Pending)
}

func renewKeeps(k *kit) {
	k.append(arrival("x"))
	row := k.take("x")
	for range 5 {
		k.h.Advance(40 * time.Second)
		if err := k.s.Renew(k.ctx, []queue.Grant{row.Grant()}, time.Minute)[0]; err != nil {
			k.Fatalf("renew: %v", err)
		}
	}
	k.h.Advance(59 * time.Second)
	k.end(row, queue.Settlement{State: queue.Done})
	if got := k.row("x"); got.Attempt != 1 || got.Lost != 0 {
		k.Errorf("ended as %+v", got)
	}
}

func renewEach(k *kit) {
	k.append(arrival("x"), arrival("y"))
	rows := k.lease(2)
	stale := queue.Grant{Seq: rows[0].Seq, Fence: rows[0].Fence + 1}
	errs := k.s.Renew(k.ctx, []queue.Grant{stale, rows[1].Grant()}, 10*time.Minute)
	k.wantErr("wrong fence", errs[0], once.ErrLeaseLost)
	if errs[1] != nil {
		k.Errorf("its neighbour: %v", errs[1])
	}
	k.h.Advance(5 * time.Minute)
	if got := k.row("y"); got.State != queue.Running {
		k.Errorf("the renewed row is %s", got.State)
	}
}

// lose takes a row and lets its lease end.
func lose(k *kit, r queue.LeaseRequest) queue.Row {
	k.Helper()
	rows := k.leaseBy(r).Rows
	if len(rows) != 1 {
		k.Fatalf("leased %v", names(rows))
	}
	k.h.Advance(r.For + time.Second)
	return rows[0]
}

func poison(k *kit) {
	r := request(1)
	r.MaxLost = 3
	k.append(ordered("x", "K"))
	for range 3 {
		lose(k, r)
	}
	k.append(ordered("y", "K"))
	k.wantNames("after three losses", k.leaseBy(r).Rows, "y")
	got := k.row("x")
	if got.State != queue.Dead || got.DeadCause != queue.CausePoison || got.Error == "" ||
		got.Attempt != 3 {
		k.Errorf("ended as %+v", got)
	}
	if d := k.detail(queue.Callback, "x"); len(d.Attempts) != 3 {
		k.Errorf("attempts %+v", d.Attempts)
	}
	k.wantCounts()
}

func poisonDefault(k *kit) {
	k.append(arrival("x"))
	for range 5 {
		lose(k, request(1))
	}
	if rows := k.lease(1); len(rows) != 0 {
		k.Errorf("a sixth try of %v", names(rows))
	}
	k.wantState("x", queue.Dead)
}

func workedSingly(k *kit) {
	k.append(arrival("x"))
	lose(k, request(1))
	k.append(arrival("y"), arrival("z"))
	rows := k.lease(10)
	k.wantNames("first", rows, "x")
	if more := k.lease(10); len(more) != 0 {
		k.Fatalf("beside the suspect: %v", names(more))
	}
	k.end(rows[0], queue.Settlement{State: queue.Done})
	rest := k.lease(10)
	k.wantNames("after it is through", rest, "y", "z")
	k.h.Advance(2 * time.Minute) // both are lost: they may have killed their worker together
	k.wantNames("one", k.lease(10), "y")
}

func endedTry(k *kit) {
	r := request(1)
	r.MaxLost = 2
	k.append(arrival("x"))
	for range 3 {
		lose(k, r)
		rows := k.leaseBy(r).Rows
		if len(rows) != 1 || rows[0].Lost != 1 {
			k.Fatalf("leased %+v", rows)
		}
		k.end(rows[0], queue.Settlement{State: queue.Pending, RetryIn: time.Second})
		k.h.Advance(time.Second)
	}
	k.wantState("x", queue.Pending)
}

func holdLost(k *kit) {
	r := request(5)
	r.HoldLost = true
	k.append(ordered("x", "K"), ordered("y", "K"))
	lose(k, r)
	k.wantNames("after the loss", k.leaseBy(r).Rows, "y")
	got := k.row("x")
	if got.State != queue.Held || got.Error == "" {
		k.Errorf("ended as %+v", got)
	}
	k.wantCounts()
}

func poisonBlocks(k *kit) {
	r := request(5)
	r.MaxLost, r.Block = 1, func(queue.Row) bool { return true }
	k.append(ordered("x", "K"), ordered("y", "K"), ordered("z", "L"))
	rows := k.leaseBy(r).Rows
	k.wantNames("first", rows, "x", "z")
	k.end(rows[1], queue.Settlement{State: queue.Done})
	k.h.Advance(2 * time.Minute)
	if rows := k.leaseBy(r).Rows; len(rows) != 0 {
		k.Errorf("behind the poison: %v", names(rows))
	}
	k.wantState("x", queue.Dead)
	k.wantState("y", queue.Pending)
}

func notTried(k *kit) {
	k.append(ordered("x", "K"), ordered("y", "K"))
	for range 4 {
		row := k.take("x")
		if row.Attempt != 1 {
			k.Fatalf("attempt %d, want 1", row.Attempt)
		}
		k.end(row, queue.Settlement{State: queue.Pending, NotTried: true, Error: "draining"})
		if got := k.row("x"); got.State != queue.Pending || got.Attempt != 0 {
			k.Fatalf("given back as %+v", got)
		}
	}
	if d := k.detail(queue.Callback, "x"); len(d.Attempts) != 0 {
		k.Errorf("attempts %+v", d.Attempts)
	}
	k.end(k.take("x"), queue.Settlement{State: queue.Done})
	k.take("y")
	k.wantCounts()
}

func notTriedWaits(k *kit) {
	k.append(ordered("x", "K"), ordered("y", "K"), ordered("z", "L"))
	k.end(k.take("x"), queue.Settlement{State: queue.Pending, NotTried: true, RetryIn: time.Minute})
	k.wantNames("while it waits", k.lease(5), "z")
	k.h.Advance(time.Minute)
	row := k.take("x")
	if row.Attempt != 1 {
		k.Errorf("attempt %d, want 1", row.Attempt)
	}
}

func oneWinner(k *kit) {
	k.append(arrival("x"))
	var grants []queue.Grant
	for range 4 {
		row := k.take("x")
		grants = append(grants, row.Grant())
		k.h.Advance(2 * time.Minute)
	}
	last := k.take("x")
	var sets []queue.Settlement
	for _, g := range append(grants, last.Grant()) {
		sets = append(sets, queue.Settlement{Grant: g, State: queue.Done})
	}
	for i, err := range k.settle(sets...) {
		if won := err == nil; won != (i == len(grants)) {
			k.Errorf("owner %d: %v", i, err)
		}
	}
	k.wantState("x", queue.Done)
}
