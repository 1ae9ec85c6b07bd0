package queuetest

import (
	"context"
	"fmt"
	"time"

	"github.com/oncekit/once/queue"
)

func pageCases() []Case {
	return []Case{
		{Name: "Browse/Resources", Promise: "resources are paged by kind and name, of one kind " +
			"or all, each once", run: resourcePages},
		{Name: "Browse/Tasks", Promise: "tasks are paged, those that were created last first, by " +
			"flow and state, each once, tombstones left out", needs: steps,
			run: taskPages},
		{Name: "Browse/TasksThatMove", Promise: "a task that matches from the first page to the " +
			"last is on one of them, whatever others do meanwhile",
			needs: steps, run: taskPagesMoving},
		{Name: "Browse/CountsScanNothing", Promise: "the counters are right after every kind of " +
			"change, also after a kill", needs: people, run: countsRight},
		{Name: "Browse/EndedContext", Promise: "a question whose context ended is an error, and " +
			"the next one is answered", run: browseEnded},
		{Name: "Reject/Ring", Promise: "of each source the latest refused messages are kept, up " +
			"to the length of its ring", needs: ring, opts: Options{RejectedPerSource: 10},
			run: rejectRing},
	}
}

func resourcePages(k *kit) {
	var set queue.Settlement
	var want []string
	for _, kind := range []string{"lift", "road", "station"} {
		for i := range 10 {
			name := fmt.Sprintf("%s/%02d/x", kind, i) // a name may have a slash
			set.Resources = append(set.Resources, queue.Resource{Kind: kind, Name: name, Fence: 1})
			want = append(want, kind+":"+name)
		}
	}
	if err := k.apply(set); err != nil {
		k.Fatal(err)
	}
	read := func(kind string, limit int) (got []string) {
		q := queue.ResourceQuery{Kind: kind, Limit: limit}
		for range 100 {
			page, err := k.b.Resources(k.ctx, q)
			if err != nil {
				k.Fatal(err)
			}
			if len(page.Resources) > limit {
				k.Errorf("a page of %d has %d", limit, len(page.Resources))
			}
			for _, r := range page.Resources {
				got = append(got, r.Kind+":"+r.Name)
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				return got
			}
		}
		k.Fatal("the pages don't end")
		return nil
	}
	for _, limit := range []int{1, 3, 10, 30, 100} {
		if got := read("", limit); fmt.Sprint(got) != fmt.Sprint(want) {
			k.Errorf("pages of %d: %v", limit, got)
		}
		if got := read("road", limit); fmt.Sprint(got) != fmt.Sprint(want[10:20]) {
			k.Errorf("roads in pages of %d: %v", limit, got)
		}
	}
	if got := read("none", 5); len(got) != 0 {
		k.Errorf("of no kind: %v", got)
	}
}

func countsRight(k *kit) {
	k.generate(60)
	for name, act := range map[string]func(id string) error{
		"retry": func(id string) error {
			return k.operator().Retry(k.ctx, queue.Callback, id, byAnn, nil)
		},
		"discard": func(id string) error {
			return k.operator().Discard(k.ctx, queue.Callback, id, byAnn, nil)
		},
	} {
		n := 0
		for _, r := range k.all(queue.RowQuery{Kind: queue.Callback}) {
			if n < 10 && act(r.ID()) == nil {
				n++
			}
		}
		if n == 0 {
			k.Errorf("%s: nothing was possible", name)
		}
		k.wantCounts()
	}
	k.reopen(false)
	k.wantCounts()
	k.h.Advance(25 * hour)
	k.sweepAll()
	k.wantCounts()
}

func browseEnded(k *kit) {
	k.append(arrival("x"))
	ctx, cancel := context.WithCancel(k.ctx)
	cancel()
	for range 20 { // more than there may be connections
		if _, err := k.b.Rows(ctx, queue.RowQuery{Kind: queue.Callback, Limit: 5}); err == nil {
			continue // it was answered all the same
		}
	}
	k.wantNames("afterwards", k.all(queue.RowQuery{Kind: queue.Callback}), "x")
}

func rejectRing(k *kit) {
	r := k.s.(queue.Rejecter)
	for i := range 25 {
		for _, source := range []string{"a", "b"} {
			if source == "b" && i >= 4 {
				continue
			}
			err := r.Reject(k.ctx, queue.Rejected{Source: source, Outcome: queue.Invalid,
				Reason: fmt.Sprint("reason ", i), Peer: "192.0.2.1", Meta: []byte("m"),
				Body: []byte{0, byte(i)}, Size: int64(100 + i)})
			if err != nil {
				k.Fatal(err)
			}
		}
		k.h.Advance(time.Second)
	}
	got, err := k.b.Rejected(k.ctx, "a", 100)
	if err != nil || len(got) != 10 {
		k.Fatalf("%d of a are kept, %v", len(got), err)
	}
	for i, m := range got {
		n := 24 - i
		if m.Reason != fmt.Sprint("reason ", n) || m.Body[1] != byte(n) || m.Size != int64(100+n) ||
			m.Outcome != queue.Invalid || m.Source != "a" || m.Peer != "192.0.2.1" ||
			string(m.Meta) != "m" || m.At.IsZero() {
			k.Errorf("message %d is %+v", i, m)
		}
	}
	if got, err := k.b.Rejected(k.ctx, "b", 100); err != nil || len(got) != 4 {
		k.Errorf("%d of b are kept, %v", len(got), err)
	}
	if got, err := k.b.Rejected(k.ctx, "", 3); err != nil || len(got) != 3 || got[0].Source != "a" {
		k.Errorf("of all: %+v, %v", got, err)
	}
	if rows := k.all(queue.RowQuery{Kind: queue.Callback}); len(rows) != 0 {
		k.Errorf("refused messages became rows: %v", names(rows))
	}
}
