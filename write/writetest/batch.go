package writetest

import (
	"errors"
	"fmt"

	"github.com/oncekit/once"
	"github.com/oncekit/once/write"
)

func batchCases() []Case {
	return []Case{
		{
			Name:    "Batch/AResultForEach",
			Promise: "Each event of a batch has a result of its own; a bad one undoes no other.",
			run:     batchMixed,
		},
		{
			Name:    "Batch/DuplicatesOfEachOther",
			Promise: "Of events with one id in one batch the first counts.",
			run:     batchDuplicates,
		},
		{
			Name:    "Batch/OneDocument",
			Promise: "Events of one document are applied in the order of the batch.",
			run:     batchOrder,
		},
		{
			Name:    "Batch/Large",
			Promise: "A batch of MaxBatch events is written, and known when it comes again.",
			run:     batchLarge,
		},
		{
			Name:    "Batch/Limits",
			Promise: "No event is no work; more than MaxBatch are refused as a whole.",
			run:     batchLimits,
		},
	}
}

func batchMixed(k *kit) {
	add := func(n any) write.Change { return write.Increment{By: write.Fields{"n": n}} }
	k.do("there", write.Upsert{
		Set: write.Fields{"name": "x", "state": "new", "version": 5},
	})
	known := k.event("known", add(7))
	k.write(known)
	other := known
	other.Change = add(8)
	old := write.Upsert{Set: write.Fields{"version": 4}, Newer: "version"}
	events := []write.Event{
		k.event("a", write.Insert{Set: write.Fields{"n": 1}}), // 0
		known,                            // 1
		other,                            // 2
		k.event("there", write.Insert{}), // 3: exists
		k.event("there", write.Increment{By: write.Fields{"name": 1}}), // 4: shape
		{ID: "", In: "accounts", Key: "a", Change: add(1)},             // 5: no id
		k.event("there", move("paid", "open")),                         // 6: state
		k.event("there", move("paid", "new")),                          // 7
		k.event("b", write.Append{To: "list", Values: []any{"x"}}),     // 8
		k.event("there", old),                                          // 9
		k.event(1, add(3)),                                             // 10
		k.event("a", add(10)),                                          // 11
	}
	rs := k.writeAll(events...)
	wantErr := map[int]error{
		3: write.ErrExists, 4: write.ErrShape, 5: write.ErrEvent, 6: once.ErrState,
	}
	wantOutcome := map[int]write.Outcome{1: write.Duplicate, 2: write.Conflict, 9: write.Stale}
	for i, r := range rs {
		if want := wantErr[i]; want != nil {
			if !errors.Is(r.Err, want) || r.Outcome != "" {
				k.Errorf("event %d: %+v, want %v", i, r, want)
			}
			continue
		}
		want, special := wantOutcome[i]
		if !special {
			want = write.Applied
		}
		if r.Err != nil || r.Outcome != want {
			k.Errorf("event %d: %+v, want %s", i, r, want)
		}
	}
	k.want("numbers of the duplicate", rs[1].Numbers, write.Fields{"n": int64(7)})
	k.want("numbers", rs[11].Numbers, write.Fields{"n": int64(11)})
	k.wantDoc("a", write.Fields{"n": int64(11)})
	k.wantDoc("known", write.Fields{"n": int64(7)})
	k.wantDoc("there", write.Fields{"name": "x", "state": "paid", "version": int64(5)})
	k.wantDoc("b", write.Fields{"list": []any{"x"}})
	k.wantDoc(1, write.Fields{"n": int64(3)})
	for i, r := range k.writeAll(events...) {
		if _, wrong := wantErr[i]; !wrong && i != 2 {
			k.want(fmt.Sprint("outcome of repeat ", i), r.Outcome, write.Duplicate)
		}
	}
}

func batchDuplicates(k *kit) {
	one := k.event("a", write.Increment{By: write.Fields{"n": 1}})
	other := one
	other.Change = write.Increment{By: write.Fields{"n": 2}}
	elsewhere := one
	elsewhere.Key = "b"
	later := k.event("a", move("paid", "new"))
	rs := k.writeAll(
		later, // no state yet
		one, one, other, elsewhere,
		k.event("a", write.Upsert{Set: write.Fields{"state": "new"}}),
		later, one,
	)
	want := []write.Outcome{
		"", write.Applied, write.Duplicate, write.Conflict, write.Conflict, write.Applied,
		write.Applied, write.Duplicate,
	}
	for i, r := range rs {
		k.want(fmt.Sprint("outcome ", i), r.Outcome, want[i])
	}
	if !errors.Is(rs[0].Err, once.ErrState) {
		k.Errorf("a transition before its time: %+v", rs[0])
	}
	k.want("numbers of the duplicate", rs[2].Numbers, write.Fields{"n": int64(1)})
	k.wantFirst(rs[2], write.Applied, one)
	k.wantFirst(rs[4], write.Applied, one)
	k.wantDoc("a", write.Fields{"n": int64(1), "state": "paid"})
	k.wantNone("b")
}

func batchOrder(k *kit) {
	const n = 30
	var events []write.Event
	for i := range n {
		events = append(events,
			k.event(5, write.Increment{By: write.Fields{"n": 1}}),
			k.event("a", write.Append{To: "list", Values: []any{i}}),
		)
	}
	var list []any
	for i, r := range k.writeAll(events...) {
		if i%2 == 0 {
			k.want("numbers", r.Numbers, write.Fields{"n": int64(i/2 + 1)})
			list = append(list, int64(i/2))
		}
	}
	k.wantDoc(5, write.Fields{"n": int64(n)})
	k.wantDoc("a", write.Fields{"list": list})
}

func batchLarge(k *kit) {
	const docs = 50
	events := make([]write.Event, write.MaxBatch)
	for i := range events {
		events[i] = k.event(i%docs, write.Increment{By: write.Fields{"n": i}})
	}
	for _, want := range []write.Outcome{write.Applied, write.Duplicate} {
		for i, r := range k.writeAll(events...) {
			// docs, i%docs + 0*docs, … up to i: the sum of an arithmetic row.
			terms := int64(i/docs + 1)
			sum := terms*int64(i%docs) + docs*terms*(terms-1)/2
			if r.Outcome != want || r.Err != nil || r.Numbers["n"] != sum {
				k.Fatalf("event %d: %+v, want %s and %d", i, r, want, sum)
			}
		}
	}
}

func batchLimits(k *kit) {
	k.writeAll()
	events := make([]write.Event, write.MaxBatch+1)
	for i := range events {
		events[i] = k.event("a", write.Increment{By: write.Fields{"n": 1}})
	}
	rs, err := k.h.Writer.WriteAll(k.ctx, events)
	if !errors.Is(err, once.ErrTooLarge) || rs != nil {
		k.Errorf("too many events: %d results, %v", len(rs), err)
	}
	k.wantNone("a")
}
