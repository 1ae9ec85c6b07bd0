package queuetest

import (
	"fmt"
	"time"

	"github.com/oncekit/once/queue"
)

func orderCases() []Case {
	return []Case{
		{Name: "Order/OneAtATime", Promise: "rows of one order key are worked one at a time, in " +
			"order; other keys and rows without one beside them", run: oneAtATime},
		{Name: "Order/D05_KeptOnRetry", Promise: "a row that waits for another try holds up its " +
			"key and delays no other", run: keptOnRetry},
		{Name: "Order/KeysOfTwoLanes", Promise: "equal order keys of two lanes don't hold each " +
			"other up", run: keysOfTwoLanes},
		{Name: "Order/D04_DeadContinues", Promise: "a dead row without block lets the later rows " +
			"of its key go on", run: deadContinues},
		{Name: "Order/DeadBlocks", Promise: "a dead row with block keeps the later rows of its " +
			"key waiting, across a restart, and no other key", run: deadBlocks},
		{Name: "Order/HeldBlocks", Promise: "a held row with block keeps the later rows of its " +
			"key waiting", needs: people, run: heldBlocks},
		{Name: "Order/BlockEndsWithRetry", Promise: "a retry of the blocking row works it first, " +
			"then the others in order", needs: people, run: blockRetried},
		{Name: "Order/BlockEndsWithDiscard", Promise: "discarding the blocking row makes the " +
			"next one due", needs: people, run: blockDiscarded},
		{Name: "Order/BlockEndsWithDuplicate", Promise: "a duplicate that revives the blocking " +
			"row works it before the later ones", run: blockRevived},
		{Name: "Order/DiscardInTheMiddle", Promise: "discarding a waiting row lets neither an " +
			"earlier nor a later one out of order", needs: people, run: discardMiddle},
		{Name: "Order/RetriedLateGoesBehind", Promise: "a row made due again while a later one " +
			"of its key is in hand waits for that one", needs: people, run: retriedLate},
		{Name: "Order/EarlierGoesFirst/NotTried", Promise: "an earlier row that waited for a " +
			"later one in hand is worked next when that one is given back", run: earlierFirst},
		{Name: "Order/EarlierGoesFirst/Retry", Promise: "… or waits for another try",
			run: earlierWhileRetry},
		{Name: "Order/EarlierGoesFirst/Lost", Promise: "… or lost its worker",
			run: earlierWhileLost},
		{Name: "Order/EarlierGoesFirst/Blocks", Promise: "… or is held and blocks",
			run: earlierWhileBlocked},
		{Name: "Order/LongLines", Promise: "a key with many rows in line is worked in order, " +
			"while another goes on", run: longLines},
	}
}

func oneAtATime(k *kit) {
	k.append(ordered("a1", "A"), ordered("a2", "A"), arrival("free1"), ordered("b1", "B"),
		ordered("a3", "A"), arrival("free2"))
	rows := k.lease(10)
	k.wantNames("first", rows, "a1", "free1", "b1", "free2")
	k.end(rows[0], queue.Settlement{State: queue.Done})
	next := k.lease(10)
	k.wantNames("after a1", next, "a2")
	k.append(ordered("a4", "A"))
	if rows := k.lease(10); len(rows) != 0 {
		k.Errorf("beside a2: %v", names(rows))
	}
	k.end(next[0], queue.Settlement{State: queue.Done})
	k.end(k.take("a3"), queue.Settlement{State: queue.Done})
	k.end(k.take("a4"), queue.Settlement{State: queue.Done})
	k.wantCounts()
}

func keptOnRetry(k *kit) {
	k.append(ordered("A", "agg-1"), ordered("B", "agg-1"), ordered("C", "agg-2"))
	retry := queue.Settlement{State: queue.Pending, RetryIn: time.Second}
	rows := k.lease(10)
	k.wantNames("first", rows, "A", "C")
	k.end(rows[0], retry)
	k.end(rows[1], queue.Settlement{State: queue.Done})
	k.append(ordered("D", "agg-1"), ordered("E", "agg-2"))
	rows = k.lease(10)
	k.wantNames("while A waits", rows, "E")
	for range 2 {
		k.h.Advance(time.Second)
		rows = k.lease(10)
		k.wantNames("after the wait", rows, "A")
		if rows[0].Attempt == 2 {
			k.end(rows[0], retry)
		}
	}
	k.end(rows[0], queue.Settlement{State: queue.Done})
	k.end(k.take("B"), queue.Settlement{State: queue.Done})
	k.end(k.take("D"), queue.Settlement{State: queue.Done})
}

func keysOfTwoLanes(k *kit) {
	other := ordered("other", "K")
	other.Lane = "handler/other"
	k.append(ordered("mine", "K"), other)
	k.take("mine")
	r := request(5)
	r.Lane = "handler/other"
	k.wantNames("other lane", k.leaseBy(r).Rows, "other")
}

func deadContinues(k *kit) {
	for i := range 51 {
		k.append(ordered(fmt.Sprint(i), "K"))
	}
	k.end(k.take("0"), queue.Settlement{State: queue.Dead, DeadCause: queue.CausePermanent})
	for i := 1; i <= 50; i++ {
		k.end(k.take(fmt.Sprint(i)), queue.Settlement{State: queue.Done})
	}
	k.wantCounts()
}

// blocked leaves a blocking row b1 of key B, with b2 and b3 behind it.
func blocked(k *kit, s queue.State) {
	k.append(ordered("b1", "B"), ordered("b2", "B"))
	set := queue.Settlement{State: s, Block: true}
	if s == queue.Dead {
		set.DeadCause = queue.CauseTransient
	}
	k.end(k.take("b1"), set)
	k.append(ordered("b3", "B"), ordered("c", "C"))
	k.wantNames("beside the blocked key", k.lease(10), "c")
}

func deadBlocks(k *kit) {
	blocked(k, queue.Dead)
	k.h.Advance(100 * hour)
	k.sweepAll()
	for _, clean := range []bool{true, false} {
		k.reopen(clean)
		rows := k.lease(10)
		for _, r := range rows {
			if r.OrderKey == "B" {
				k.Errorf("clean %v: %v", clean, names(rows))
			}
		}
	}
	k.wantState("b2", queue.Pending)
	k.wantCounts()
}

var byAnn = queue.Action{Actor: "ann", Reason: "looked at it", Name: "retry"}

func heldBlocks(k *kit) {
	blocked(k, queue.Held)
	if err := k.operator().Discard(k.ctx, queue.Callback, idOf("b1"), byAnn, nil); err != nil {
		k.Fatal(err)
	}
	k.wantNames("after the discard", k.lease(10), "b2")
}

func blockRetried(k *kit) {
	blocked(k, queue.Dead)
	if err := k.operator().Retry(k.ctx, queue.Callback, idOf("b1"), byAnn, nil); err != nil {
		k.Fatal(err)
	}
	for _, name := range []string{"b1", "b2", "b3"} {
		k.wantState(name, queue.Pending)
		rows := k.lease(10)
		k.wantNames("next", rows, name)
		k.end(rows[0], queue.Settlement{State: queue.Done})
	}
	k.wantCounts()
}

func blockDiscarded(k *kit) {
	blocked(k, queue.Dead)
	if err := k.operator().Discard(k.ctx, queue.Callback, idOf("b1"), byAnn, nil); err != nil {
		k.Fatal(err)
	}
	k.end(k.take("b2"), queue.Settlement{State: queue.Done})
	k.end(k.take("b3"), queue.Settlement{State: queue.Done})
	k.wantCounts()
}

func blockRevived(k *kit) {
	blocked(k, queue.Dead)
	if r := k.append(ordered("b1", "B"))[0]; !r.Revived {
		k.Fatalf("receipt %+v", r)
	}
	k.end(k.take("b1"), queue.Settlement{State: queue.Done})
	k.end(k.take("b2"), queue.Settlement{State: queue.Done})
	k.end(k.take("b3"), queue.Settlement{State: queue.Done})
}

func discardMiddle(k *kit) {
	k.append(ordered("1", "K"), ordered("2", "K"), ordered("3", "K"))
	first := k.take("1")
	if rows := k.lease(10); len(rows) != 0 {
		k.Fatalf("leased %v", names(rows))
	}
	if err := k.operator().Discard(k.ctx, queue.Callback, idOf("2"), byAnn, nil); err != nil {
		k.Fatal(err)
	}
	if rows := k.lease(10); len(rows) != 0 {
		k.Fatalf("beside the first: %v", names(rows))
	}
	k.end(first, queue.Settlement{State: queue.Pending, RetryIn: time.Minute})
	if rows := k.lease(10); len(rows) != 0 {
		k.Fatalf("while the first waits: %v", names(rows))
	}
	k.h.Advance(time.Minute)
	k.end(k.take("1"), queue.Settlement{State: queue.Done})
	k.end(k.take("3"), queue.Settlement{State: queue.Done})
	k.wantCounts()
}

func retriedLate(k *kit) {
	k.append(ordered("1", "K"), ordered("2", "K"), ordered("3", "K"))
	k.end(k.take("1"), queue.Settlement{State: queue.Dead, DeadCause: queue.CausePermanent})
	second := k.take("2")
	if err := k.operator().Retry(k.ctx, queue.Callback, idOf("1"), byAnn, nil); err != nil {
		k.Fatal(err)
	}
	if rows := k.lease(10); len(rows) != 0 {
		k.Fatalf("two of one key: %v", names(rows))
	}
	k.end(second, queue.Settlement{State: queue.Done})
	k.end(k.take("1"), queue.Settlement{State: queue.Done})
	k.end(k.take("3"), queue.Settlement{State: queue.Done})
}

func longLines(k *kit) {
	const n = 550 // more than a lease looks at
	var line []queue.Arrival
	for i := range n {
		line = append(line, ordered(fmt.Sprint(i), "K"))
	}
	k.append(line...)
	k.append(ordered("other", "L"))
	head := k.take("0")
	found := false
	for range 10 {
		for _, row := range k.lease(10) {
			if row.OrderKey == "K" {
				k.Fatalf("two of one key: %v", row.Key)
			}
			found = true
			k.end(row, queue.Settlement{State: queue.Done})
		}
	}
	if !found {
		k.Error("the other key was not worked while the first one was")
	}
	k.end(head, queue.Settlement{State: queue.Done})
	for i := range 40 {
		k.end(k.take(fmt.Sprint(i+1)), queue.Settlement{State: queue.Done})
	}
	k.wantCounts()
}

// earlierBehind leaves an earlier row of a key waiting for a later one that is in hand.
func earlierBehind(k *kit) (later queue.Row) {
	k.Helper()
	k.append(ordered("1", "K"), ordered("2", "K"))
	k.end(k.take("1"), queue.Settlement{State: queue.Dead, DeadCause: queue.CauseTransient})
	later = k.take("2")
	k.append(ordered("1", "K"))
	if rows := k.lease(10); len(rows) != 0 {
		k.Fatalf("two of one key: %v", names(rows))
	}
	return later
}

func earlierFirst(k *kit) {
	later := earlierBehind(k)
	k.end(later, queue.Settlement{State: queue.Pending, NotTried: true})
	k.end(k.take("1"), queue.Settlement{State: queue.Done})
	k.end(k.take("2"), queue.Settlement{State: queue.Done})
}

func earlierWhileRetry(k *kit) {
	later := earlierBehind(k)
	k.end(later, queue.Settlement{State: queue.Pending, RetryIn: time.Second})
	k.h.Advance(time.Second)
	k.end(k.take("1"), queue.Settlement{State: queue.Done})
	k.end(k.take("2"), queue.Settlement{State: queue.Done})
}

func earlierWhileLost(k *kit) {
	earlierBehind(k)
	k.h.Advance(2 * time.Minute)
	k.end(k.take("1"), queue.Settlement{State: queue.Done})
	k.end(k.take("2"), queue.Settlement{State: queue.Done})
}

func earlierWhileBlocked(k *kit) {
	later := earlierBehind(k)
	k.end(later, queue.Settlement{State: queue.Held, Block: true})
	k.end(k.take("1"), queue.Settlement{State: queue.Done})
}
