package writetest

import (
	"strings"

	"github.com/oncekit/once/write"
)

func repeatCases() []Case {
	return []Case{
		{
			Name:    "Repeat/IsADuplicate",
			Promise: "An event that comes again changes nothing, and hears what the first one did.",
			run:     repeatDuplicate,
		},
		{
			Name:    "Repeat/WithAnotherContentIsAConflict",
			Promise: "Another content under a known id never overwrites.",
			run:     repeatConflict,
		},
		{
			Name:    "Repeat/ByAnotherWriter",
			Promise: "Events are remembered in the database, not in the writer.",
			run:     repeatElsewhere,
		},
		{
			Name:    "H06/IDsAndKeysCompareByteForByte",
			Promise: "Ids and keys that differ in case, spaces or composition are different ones.",
			run:     bytewise,
		},
		{
			Name:    "H06/TextsAndIntegersAreDifferentKeys",
			Promise: "The content of an event has the type of its key.",
			run:     typedKeys,
		},
	}
}

func repeatDuplicate(k *kit) {
	for _, c := range []write.Change{
		write.Insert{Set: write.Fields{"n": 1}},
		write.Upsert{Set: write.Fields{"tag": "x"}, Increment: write.Fields{"n": 2}},
		write.Increment{By: write.Fields{"n": 3, "amount": 0.5}},
		write.Append{To: "list", Values: []any{"x"}},
		write.Append{To: "list", Values: []any{"y"}},
		write.Upsert{Set: write.Fields{"state": "new"}},
		move("paid", "new"),
	} {
		e := k.event("a", c)
		first := k.write(e)
		k.want("outcome", first.Outcome, write.Applied)
		before, _ := k.h.Read(k.T, "accounts", "a")
		for range 3 {
			r := k.write(e)
			k.want("outcome of the repeat", r.Outcome, write.Duplicate)
			k.want("numbers of the repeat", r.Numbers, first.Numbers)
			k.wantFirst(r, write.Applied, e)
		}
		k.wantDoc("a", before)
	}
	k.wantDoc("a", write.Fields{
		"n": int64(6), "tag": "x", "state": "paid", "list": []any{"x", "y"}, "amount": 0.5,
	})
}

func repeatConflict(k *kit) {
	e := k.event("a", write.Increment{By: write.Fields{"n": 1}})
	k.write(e)
	for _, other := range []write.Event{
		{ID: e.ID, In: "accounts", Key: "a", Change: write.Increment{By: write.Fields{"n": 2}}},
		{ID: e.ID, In: "accounts", Key: "b", Change: e.Change},
		{ID: e.ID, In: "counters", Key: 1, Change: e.Change},
		{ID: e.ID, In: "accounts", Key: "a", Change: write.Upsert{Increment: write.Fields{"n": 1}}},
		{ID: e.ID, In: "accounts", Key: "a", Change: write.Insert{Set: write.Fields{"n": 1}}},
		{ID: e.ID, In: "accounts", Key: "c", Change: move("paid", "new")},
	} {
		r := k.write(other)
		k.want("outcome", r.Outcome, write.Conflict)
		k.wantFirst(r, write.Applied, e)
		k.want("numbers", r.Numbers, write.Fields(nil))
	}
	k.wantDoc("a", write.Fields{"n": int64(1)})
	k.wantNone("b")
	k.wantNone(1)
	k.want("outcome", k.write(e).Outcome, write.Duplicate)
}

func repeatElsewhere(k *kit) {
	e := k.event("a", write.Increment{By: write.Fields{"n": 1}})
	k.write(e)
	r, err := k.h.Second.Write(k.ctx, e)
	if err != nil || r.Outcome != write.Duplicate {
		k.Errorf("second writer: %v, %v", r, err)
	}
	k.want("numbers", r.Numbers, write.Fields{"n": int64(1)})
	k.wantFirst(r, write.Applied, e)
	k.wantDoc("a", write.Fields{"n": int64(1)})
}

// alike are texts that a collation, a fixed width or a normal form would take for one.
var alike = []string{
	"Order-A", "order-a", "Order-A ", " Order-A", "Order-A\t", "Order-Ä", "Order-A\u0308",
	"1", "01", "1.0", strings.Repeat("k", write.MaxID), strings.Repeat("k", write.MaxID-1) + "K",
}

func bytewise(k *kit) {
	for i, s := range alike {
		e := write.Event{
			ID: s, In: "accounts", Key: s, Change: write.Increment{By: write.Fields{"n": i + 1}},
		}
		k.want("outcome", k.write(e).Outcome, write.Applied)
	}
	for i, s := range alike {
		k.wantDoc(s, write.Fields{"n": int64(i + 1)})
		e := write.Event{
			ID: s, In: "accounts", Key: s, Change: write.Increment{By: write.Fields{"n": i + 1}},
		}
		k.want("outcome of the repeat", k.write(e).Outcome, write.Duplicate)
	}
}

func typedKeys(k *kit) {
	add := write.Increment{By: write.Fields{"n": 1}}
	e := write.Event{ID: "e", In: "counters", Key: 7, Change: add}
	k.want("outcome", k.write(e).Outcome, write.Applied)
	e.Key = int64(7)
	k.want("outcome for an int64", k.write(e).Outcome, write.Duplicate)
	e.In, e.Key = "accounts", "7"
	k.want("outcome for a text", k.write(e).Outcome, write.Conflict)
	k.wantNone("7")
	k.do(-1, add)
	k.do(1<<62, add)
	k.wantDoc(1<<62, write.Fields{"n": int64(1)})
}
