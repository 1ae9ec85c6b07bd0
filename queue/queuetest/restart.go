package queuetest

import (
	"fmt"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

func restartCases() []Case {
	return []Case{
		{Name: "Restart/I08_EverythingIsThere", Promise: "what was acknowledged is there after a " +
			"close and after a kill, in its state", run: everythingThere},
		{Name: "Restart/K12_LeasesAreVoid", Promise: "leases of an earlier process are void at " +
			"once or after their end, its grants lost, its attempts counted", run: leasesVoid},
		{Name: "Restart/K11_HoldsTheUnknown", Promise: "with HoldLost a row in hand at the end " +
			"of a process is held, also after a close in order", run: restartHolds},
		{Name: "Restart/LinesAreThere", Promise: "order keys that were held up still are",
			run: linesThere},
		{Name: "Restart/CloseWritesWhatIsCounted", Promise: "a close in order loses no count of " +
			"repeats", run: closeWrites},
	}
}

func everythingThere(k *kit) {
	rows := k.generate(100)
	for _, clean := range []bool{true, false, false, true} {
		k.reopen(clean)
		for _, s := range rows {
			if got := k.detail(s.kind, s.name).Row; got.State != s.state || got.Task != s.task {
				k.Errorf("clean %v: %+v is %s", clean, s, got.State)
			}
		}
		k.wantCounts()
		name := fmt.Sprint("after ", len(rows))
		if got := k.receive(arrival(name)); got != queue.Accepted {
			k.Errorf("a new arrival: %s", got)
		}
		rows = append(rows, sample{kind: queue.Callback, name: name, state: queue.Pending})
		if got := k.receive(arrival(name)); got != queue.Duplicate {
			k.Errorf("its repeat: %s", got)
		}
	}
}

func leasesVoid(k *kit) {
	k.append(ordered("x", "K"), ordered("y", "K"))
	attempt := 0
	for _, clean := range []bool{false, true, false} {
		rows := k.lease(1)
		k.wantNames("leased", rows, "x")
		attempt++
		if rows[0].Attempt != attempt {
			k.Errorf("attempt %d, want %d", rows[0].Attempt, attempt)
		}
		k.reopen(clean)
		k.h.Advance(2 * time.Minute) // a store of many processes waits for the end of the lease
		err := k.settle(queue.Settlement{Grant: rows[0].Grant(), State: queue.Done})[0]
		k.wantErr("settle by the earlier process", err, once.ErrLeaseLost)
		k.wantState("x", queue.Pending)
	}
	if got := k.row("x"); got.Lost != 3 {
		k.Errorf("lost %d, want 3", got.Lost)
	}
	k.wantCounts()
}

func restartHolds(k *kit) {
	r := request(1)
	r.HoldLost = true
	for i, clean := range []bool{false, true} {
		name := fmt.Sprint("x", i)
		k.append(arrival(name))
		k.leaseBy(r)
		k.reopen(clean)
		k.h.Advance(2 * time.Minute)
		if rows := k.leaseBy(r).Rows; len(rows) != 0 {
			k.Errorf("clean %v: tried again %v", clean, names(rows))
		}
		k.wantState(name, queue.Held)
	}
}

func linesThere(k *kit) {
	k.append(ordered("a", "K"), ordered("b", "K"), ordered("c", "K"))
	k.end(k.take("a"), queue.Settlement{State: queue.Pending, RetryIn: time.Minute})
	if rows := k.lease(5); len(rows) != 0 {
		k.Fatalf("leased %v", names(rows))
	}
	for _, clean := range []bool{false, true} {
		k.reopen(clean)
		if rows := k.lease(5); len(rows) != 0 {
			k.Errorf("clean %v: %v", clean, names(rows))
		}
	}
	k.h.Advance(time.Minute)
	for _, name := range []string{"a", "b", "c"} {
		k.end(k.take(name), queue.Settlement{State: queue.Done})
	}
	k.wantCounts()
}

func closeWrites(k *kit) {
	k.append(arrival("x"))
	for range 5 {
		k.receive(arrival("x"))
	}
	k.reopen(true)
	if got := k.row("x"); got.Duplicates != 5 {
		k.Errorf("%d duplicates, want 5", got.Duplicates)
	}
}
