package writetest

import (
	"time"

	"github.com/oncekit/once/write"
)

func newerCases() []Case {
	return []Case{
		{
			Name:    "Newer/Numbers",
			Promise: "An event whose number is not greater than the document's is stale.",
			run: func(k *kit) {
				newer(k, "version", 9, 10, int64(10), 11)
			},
		},
		{
			Name:    "Newer/Times",
			Promise: "An event whose time is not after the document's is stale.",
			run: func(k *kit) {
				newer(k, "at", noon.Add(-time.Second), noon, east, noon.Add(time.Second))
			},
		},
		{
			Name:    "Newer/Texts",
			Promise: "Texts are compared byte by byte.",
			run: func(k *kit) {
				newer(k, "tag", "Z", "a", "a", "a ")
				newer(k, "tag", "10", "9", "9", "ä")
			},
		},
		{
			Name:    "Newer/Transition",
			Promise: "A transition that is older than its document is stale, whatever the state.",
			run:     newerTransition,
		},
	}
}

// newer writes versions into one document: the second first, then the older, the same, the newer.
func newer(k *kit, field string, older, first, same, later any) {
	key := k.event("", nil).ID
	version := func(v any, n int) write.Upsert {
		return write.Upsert{
			Set: write.Fields{field: v, "n": n}, SetOnInsert: write.Fields{"name": "made"},
			Increment: write.Fields{"amount": 1}, Newer: field,
		}
	}
	doc := func(v any, n, amount int64) write.Fields {
		return write.Fields{field: v, "n": n, "name": "made", "amount": amount}
	}
	k.do(key, version(first, 1))
	k.wantDoc(key, doc(first, 1, 1))
	for i, v := range []any{older, same} {
		e := k.event(key, version(v, 100+i))
		k.want("outcome", k.write(e), write.Result{Outcome: write.Stale})
		r := k.write(e)
		k.want("outcome of the repeat", r.Outcome, write.Duplicate)
		k.wantFirst(r, write.Stale, e)
		e.Change = version(later, 100)
		r = k.write(e)
		k.want("outcome of another content", r.Outcome, write.Conflict)
		k.wantFirst(r, write.Stale, e)
		k.wantDoc(key, doc(first, 1, 1))
	}
	k.do(key, version(later, 2))
	k.wantDoc(key, doc(later, 2, 2))

	bare := k.event("", nil).ID
	k.do(bare, write.Insert{Set: write.Fields{"n": 1}})
	k.do(bare, version(older, 2)) // nothing to be older than
	k.wantDoc(bare, write.Fields{field: older, "n": int64(2), "amount": int64(1)})
}

func newerTransition(k *kit) {
	at := func(version int, to string, from ...string) write.Transition {
		c := move(to, from...)
		c.Set, c.Newer = write.Fields{"version": version}, "version"
		return c
	}
	k.do("a", write.Insert{Set: write.Fields{"state": "new", "version": 5}})
	old := k.event("a", at(5, "paid", "new"))
	k.want("outcome", k.write(old).Outcome, write.Stale)
	k.want("outcome of the repeat", k.write(old).Outcome, write.Duplicate)
	k.want("outcome in another state",
		k.write(k.event("a", at(4, "paid", "open"))).Outcome, write.Stale)
	k.wantDoc("a", write.Fields{"state": "new", "version": int64(5)})
	k.do("a", at(6, "paid", "new"))
	k.wantDoc("a", write.Fields{"state": "paid", "version": int64(6)})
}
