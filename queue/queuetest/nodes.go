package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/oncekit/once/queue"
)

func nodeCases() []Case {
	return []Case{
		{Name: "Nodes/InHand", Promise: "of each node it is told whether it lives and what it " +
			"has in its hands, callbacks and effects, the longest first and no bodies",
			needs: nodes, run: nodesInHand},
		{Name: "Nodes/Many", Promise: "of very many rows in a node's hands some are listed, and " +
			"that there are more", needs: nodes, run: nodesMany},
	}
}

// hands are the rows that the one living node has in its hands, and whether there are more.
func (k *kit) hands() (rows []queue.Row, more bool) {
	k.Helper()
	list, err := k.s.(queue.NodeLister).Nodes(k.ctx)
	if err != nil {
		k.Fatal(err)
	}
	if len(list) != 1 || list[0].State != queue.NodeAlive || list[0].Name == "" ||
		list[0].StartedAt.IsZero() || list[0].SeenAt.Before(list[0].StartedAt) {
		k.Fatalf("nodes: %+v", list)
	}
	return list[0].Rows, list[0].More
}

func nodesInHand(k *kit) {
	k.append(arrival("a"), arrival("b"), effect("e"))
	if rows, more := k.hands(); len(rows) > 0 || more {
		k.Errorf("before it works: %v, more %v", names(rows), more)
	}
	a := k.take("a")
	k.h.Advance(time.Second)
	e := k.leaseBy(queue.LeaseRequest{Lane: "effect/plc", Max: 1, For: time.Minute}).Rows
	if len(e) != 1 {
		k.Fatalf("leased %d effects", len(e))
	}
	k.h.Advance(time.Second)
	k.take("b")
	rows, more := k.hands()
	if len(rows) != 3 || more {
		k.Fatalf("in its hands: %v, more %v", names(rows), more)
	}
	for i, want := range []string{"a", "e", "b"} {
		if rows[i].Identity != identity(want) || rows[i].Attempt != 1 || rows[i].Body != nil ||
			rows[i].StartedAt.IsZero() {
			k.Errorf("row %d: %+v, want %s", i, rows[i], want)
		}
	}
	k.end(a, queue.Settlement{State: queue.Done})
	k.end(e[0], queue.Settlement{State: queue.Done})
	rows, _ = k.hands()
	k.wantNames("after two ended", rows, "b")
}

func nodesMany(k *kit) {
	const all = queue.MaxNodeRows + 3
	list := make([]queue.Arrival, all)
	for i := range list {
		list[i] = arrival(fmt.Sprint(i))
	}
	k.append(list...)
	leased := k.lease(all)
	rows, more := k.hands()
	if len(leased) != all || len(rows) != queue.MaxNodeRows || !more {
		k.Fatalf("of %d in its hands %d are listed, more: %v", len(leased), len(rows), more)
	}
	if !slices.IsSortedFunc(rows, func(a, b queue.Row) int { return int(a.Seq - b.Seq) }) {
		k.Errorf("listed: %v", names(rows))
	}
}
