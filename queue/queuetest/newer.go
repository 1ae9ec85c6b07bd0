package queuetest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

func newerCases() []Case {
	return []Case{
		{Name: "Newer/IsNewAfterAWhile", Promise: "a repeat that comes longer than NewAfter " +
			"after the last arrival is a new callback, and one at that very moment is none",
			run: newAfterAWhile},
		{Name: "Newer/WhateverItsContent", Promise: "other content is a conflict within the " +
			"time and a new callback after it", run: newWithOtherContent},
		{Name: "Newer/RepeatsBelongToTheNewest", Promise: "later repeats are counted with the " +
			"newest callback, and the receipts of old and new stay apart", run: newestIsRepeated},
		{Name: "Newer/HoweverTheOldOneStands", Promise: "a new callback leaves an older one " +
			"that is pending, dead or held as it is, and both are worked in order",
			run: oldOneStays},
		{Name: "Newer/RevivesTheNewest", Promise: "a duplicate revives the newest callback and " +
			"none before it", run: newestIsRevived},
		{Name: "Newer/OnceAtTheSameMoment", Promise: "of 50 equal arrivals at the moment at " +
			"which a repeat is new, one is", run: newOnceAtOnce},
		{Name: "Newer/OnceInOneAppend", Promise: "of equal arrivals of one Append one is new, " +
			"and all commit together", run: newOnceInOneAppend},
		{Name: "Newer/NobodyRecalls", Promise: "a store that remembers recent rows answers no " +
			"arrival by itself that may be new", run: newIsNotRecalled},
		{Name: "Newer/OutlivesAKill", Promise: "when the last arrival came, and which callback " +
			"is the newest, is known after a kill", run: newOutlivesAKill},
		{Name: "Newer/SwitchedOff", Promise: "an arrival without NewAfter belongs to the newest " +
			"callback, however late it comes", run: newSwitchedOff},
		{Name: "Newer/TheFirstIsSweptBefore", Promise: "the payload of an older callback goes " +
			"after its retention, and repeats still belong to the newest",
			run: sweptBeforeNewest},
		{Name: "Newer/AllAreSwept", Promise: "after the retention of the newest callback the " +
			"key is new, and nothing is left", run: allNewerSwept},
	}
}

// within is the NewAfter of these cases.
const within = 10 * time.Minute

// renewable returns an arrival that is new again after within.
func renewable(name string, version ...int) queue.Arrival {
	a := arrival(name, version...)
	a.NewAfter = within
	return a
}

// newer appends an arrival that has to be a new callback under a known key, and returns its id.
func (k *kit) newer(a queue.Arrival) (id string) {
	k.Helper()
	r := k.append(a)[0]
	if r.Outcome != queue.Accepted || r.Identity.IsZero() || r.Identity == a.Identity ||
		r.State != a.State || r.Revived {
		k.Fatalf("receipt %+v, want a new callback with an identity of its own", r)
	}
	return r.Identity.ID()
}

// repeats appends an arrival that has to belong to a callback; an empty id: the first one.
func (k *kit) repeats(a queue.Arrival, want queue.Outcome, id string) {
	k.Helper()
	r := k.append(a)[0]
	got := ""
	if !r.Identity.IsZero() {
		got = r.Identity.ID()
	}
	if r.Outcome != want || got != id || k.byID(orFirst(id, a)).Row.Seq != r.Seq {
		k.Fatalf("receipt %+v (%s), want %s of %q", r, got, want, id)
	}
}

func orFirst(id string, a queue.Arrival) string {
	if id == "" {
		return a.Identity.ID()
	}
	return id
}

func (k *kit) byID(id string) queue.RowDetail {
	k.Helper()
	d, err := k.b.Row(k.ctx, queue.Callback, id)
	if err != nil {
		k.Fatalf("row %s: %v", id, err)
	}
	return d
}

func newAfterAWhile(k *kit) {
	a := renewable("x")
	k.append(a)
	for range 2 { // it counts from the last arrival, not from the first
		k.h.Advance(within)
		k.repeats(a, queue.Duplicate, "")
	}
	k.h.Advance(within + time.Millisecond)
	a.Peer, a.Meta = "198.51.100.7", []byte(`{"later":true}`)
	id := k.newer(a)
	first, second := k.row("x"), k.byID(id).Row
	if first.Duplicates != 2 || first.ReceivedAt.Equal(second.ReceivedAt) {
		k.Errorf("the first one is %+v", first)
	}
	if second.State != queue.Pending || second.Seq <= first.Seq || second.Duplicates != 0 ||
		second.Attempt != 0 || string(second.Body) != "x []" ||
		!bytes.Equal(second.Meta, a.Meta) || fmt.Sprint(second.Key) != "[x]" ||
		!second.ReceivedAt.Equal(k.h.Now()) {
		k.Errorf("the second one is %+v", second)
	}
	k.wantNames("found by their key", k.all(queue.RowQuery{Kind: queue.Callback, Key: "x"}),
		"x", "x")
	k.h.Advance(within + time.Millisecond)
	if third := k.newer(a); third == id || third == idOf("x") {
		k.Errorf("the third one has the id %s again", third)
	}
	k.wantCounts()
}

func newWithOtherContent(k *kit) {
	k.append(renewable("x", 1))
	k.h.Advance(within)
	k.repeats(renewable("x", 2), queue.Conflict, "")
	k.h.Advance(within) // since the conflict
	k.repeats(renewable("x", 1), queue.Duplicate, "")
	k.h.Advance(within + time.Second)
	id := k.newer(renewable("x", 3))
	k.repeats(renewable("x", 1), queue.Conflict, id)
	k.repeats(renewable("x", 3), queue.Duplicate, id)
	if got := k.byID(id).Row; string(got.Body) != "x [3]" || got.Conflicts != 1 {
		k.Errorf("the new one is %+v", got)
	}
	if got := k.row("x"); string(got.Body) != "x [1]" || got.Conflicts != 1 || got.Duplicates != 1 {
		k.Errorf("the old one is %+v", got)
	}
}

func newestIsRepeated(k *kit) {
	k.append(renewable("x"))
	k.repeats(renewable("x"), queue.Duplicate, "")
	old := k.detail(queue.Callback, "x")
	k.h.Advance(within + time.Second)
	id := k.newer(renewable("x"))
	for range 3 {
		k.h.Advance(time.Second)
		k.repeats(renewable("x"), queue.Duplicate, id)
	}
	k.settled("3 duplicates", func() bool { return k.byID(id).Row.Duplicates == 3 })
	d := k.byID(id)
	if len(d.Arrivals) != 3 || d.Arrivals[0].N != 1 || d.Arrivals[2].N != 3 {
		k.Errorf("arrivals of the new one: %+v", d.Arrivals)
	}
	now := k.detail(queue.Callback, "x")
	if now.Row.Duplicates != 1 || len(now.Arrivals) != 1 || !now.Row.LastAt.Equal(old.Row.LastAt) {
		k.Errorf("the old one became %+v with %+v", now.Row, now.Arrivals)
	}
}

func oldOneStays(k *kit) {
	a := renewable("x")
	a.OrderKey = "K"
	k.append(a)
	k.h.Advance(within + time.Second)
	id := k.newer(a)
	k.wantState("x", queue.Pending)
	rows := k.lease(5)
	k.wantNames("one order key", rows, "x")
	if len(rows) != 1 || rows[0].ID() != idOf("x") {
		k.Fatal("the newer one overtook the older one")
	}
	k.end(rows[0], queue.Settlement{State: queue.Done})
	if rows = k.lease(5); len(rows) != 1 || rows[0].ID() != id {
		k.Fatalf("due: %v", names(rows))
	}
	k.end(rows[0], queue.Settlement{State: queue.Done})
	for _, s := range []queue.State{queue.Dead, queue.Held} {
		name := string(s)
		k.append(renewable(name))
		end := queue.Settlement{State: s}
		if s == queue.Dead {
			end.DeadCause = queue.CauseTransient
		}
		k.end(k.take(name), end)
		k.h.Advance(within + time.Second)
		k.newer(renewable(name))
		k.wantState(name, s)
		k.end(k.lease(1)[0], queue.Settlement{State: queue.Done})
	}
	k.wantCounts()
}

func newestIsRevived(k *kit) {
	k.dead(renewable("x"), queue.CauseTransient)
	k.h.Advance(within + time.Second)
	id := k.newer(renewable("x"))
	k.end(k.lease(1)[0],
		queue.Settlement{State: queue.Dead, DeadCause: queue.CauseTransient, Error: "gave up"})
	r := k.append(renewable("x"))[0]
	if r.Outcome != queue.Duplicate || !r.Revived || r.Identity.ID() != id {
		k.Errorf("receipt %+v", r)
	}
	k.wantState("x", queue.Dead)
	if got := k.byID(id).Row; got.State != queue.Pending {
		k.Errorf("the newest one is %s", got.State)
	}
	k.wantCounts()
}

func newOnceAtOnce(k *kit) {
	k.append(renewable("x"))
	k.h.Advance(within + time.Second)
	var mu sync.Mutex
	seen := map[queue.Outcome]int{}
	ids := map[once.Identity]bool{}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			rs, err := k.s.Append(k.ctx, []queue.Arrival{renewable("x")})
			if err != nil || len(rs) != 1 {
				k.Errorf("append: %v, %v", rs, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			seen[rs[0].Outcome]++
			ids[rs[0].Identity] = true
		})
	}
	wg.Wait()
	if seen[queue.Accepted] != 1 || seen[queue.Duplicate] != 49 || len(ids) != 1 {
		k.Errorf("outcomes %v of %d callbacks", seen, len(ids))
	}
	if rows := k.all(queue.RowQuery{Kind: queue.Callback}); len(rows) != 2 ||
		rows[0].Duplicates != 49 || rows[1].Duplicates != 0 {
		k.Errorf("rows: %+v", rows)
	}
}

func newOnceInOneAppend(k *kit) {
	k.append(renewable("x"), renewable("y"))
	k.h.Advance(within + time.Second)
	rs := k.append(renewable("x"), renewable("z"), renewable("x"), renewable("y", 2))
	for i, want := range []queue.Outcome{queue.Accepted, queue.Accepted, queue.Duplicate,
		queue.Accepted} {
		if rs[i].Outcome != want {
			k.Errorf("arrival %d is %s, want %s", i, rs[i].Outcome, want)
		}
	}
	if rs[0].Identity != rs[2].Identity || !rs[1].Identity.IsZero() ||
		rs[3].Identity == rs[0].Identity || rs[3].Identity.IsZero() {
		k.Errorf("receipts %+v", rs)
	}
	if rows := k.all(queue.RowQuery{Kind: queue.Callback}); len(rows) != 5 {
		k.Errorf("rows: %v", names(rows))
	}
	k.wantCounts()
}

func newIsNotRecalled(k *kit) {
	r, ok := k.s.(queue.Recaller)
	if !ok {
		return // nothing is recalled
	}
	a := renewable("x")
	recalled := func() bool { return r.Recall(a.Identity, a.Fingerprint, a.Peer) }
	k.append(a)
	for range 3 {
		k.h.Advance(within + time.Second)
		if recalled() {
			k.Fatal("an arrival that is new was answered as a duplicate")
		}
		k.newer(a)
		k.append(a)
	}
	b := arrival("y")
	k.append(b)
	k.append(b)
	b.NewAfter = within // from now on
	k.append(b)
	k.h.Advance(within + time.Second)
	if r.Recall(b.Identity, b.Fingerprint, b.Peer) {
		k.Error("an arrival was answered from a time in which none was new")
	}
}

func newOutlivesAKill(k *kit) {
	a := renewable("x")
	k.append(a)
	k.h.Advance(within)
	k.repeats(a, queue.Duplicate, "")
	k.reopen(false)
	k.h.Advance(within)
	k.repeats(a, queue.Duplicate, "")
	k.h.Advance(within + time.Second)
	id := k.newer(a)
	for _, clean := range []bool{false, true} {
		k.reopen(clean)
		k.repeats(a, queue.Duplicate, id)
	}
	k.h.Advance(within + time.Second)
	if again := k.newer(a); again == id {
		k.Errorf("the third one has the id of the second, %s", id)
	}
	k.wantCounts()
}

func newSwitchedOff(k *kit) {
	k.append(renewable("x"))
	k.h.Advance(within + time.Second)
	id := k.newer(renewable("x"))
	k.h.Advance(within + time.Second)
	k.repeats(arrival("x"), queue.Duplicate, id)
	k.repeats(arrival("x"), queue.Duplicate, id)
	k.end(k.take("x"), queue.Settlement{State: queue.Done})
	k.end(k.lease(1)[0],
		queue.Settlement{State: queue.Dead, DeadCause: queue.CauseTransient, Error: "gave up"})
	if r := k.append(arrival("x"))[0]; !r.Revived || r.Identity.ID() != id {
		k.Errorf("receipt %+v, want the newest one revived", r)
	}
}

// swept reports whether a row is gone.
func (k *kit) swept(id string) bool {
	k.Helper()
	_, err := k.b.Row(k.ctx, queue.Callback, id)
	if err != nil && !errors.Is(err, once.ErrNotFound) {
		k.Fatalf("row %s: %v", id, err)
	}
	return err != nil
}

func sweptBeforeNewest(k *kit) {
	k.done(renewable("x", 1))
	k.repeats(renewable("x", 2), queue.Conflict, "")
	k.h.Advance(23 * hour)
	id := k.newer(renewable("x", 3))
	k.end(k.lease(1)[0], queue.Settlement{State: queue.Done})
	for range 3 { // the newest one is repeated, so it stays
		k.h.Advance(within)
		k.repeats(renewable("x", 3), queue.Duplicate, id)
	}
	k.h.Advance(23 * hour)
	k.sweepAll()
	if !k.swept(idOf("x")) {
		d := k.detail(queue.Callback, "x")
		if d.Row.Body != nil || d.Row.Meta != nil {
			k.Error("the payload of the older one is still there")
		}
		for _, a := range d.Arrivals {
			if a.Body != nil || a.Meta != nil {
				k.Errorf("the payload of its conflict is still there: %+v", a)
			}
		}
	}
	if got := k.byID(id).Row; string(got.Body) != "x [3]" {
		k.Errorf("the newest one is %+v", got)
	}
	k.repeats(arrival("x", 3), queue.Duplicate, id)
	k.wantCounts()
}

func allNewerSwept(k *kit) {
	k.done(renewable("x"))
	k.h.Advance(hour)
	id := k.newer(renewable("x"))
	k.end(k.lease(1)[0], queue.Settlement{State: queue.Done})
	for range 4 {
		k.h.Advance(25 * hour)
		k.sweepAll()
	}
	if !k.swept(id) || !k.swept(idOf("x")) {
		k.Errorf("left: %v", names(k.all(queue.RowQuery{Kind: queue.Callback})))
	}
	k.wantCounts()
	k.repeatsNothing(renewable("x"))
}

// repeatsNothing appends an arrival whose key has to be new.
func (k *kit) repeatsNothing(a queue.Arrival) {
	k.Helper()
	if r := k.append(a)[0]; r.Outcome != queue.Accepted || !r.Identity.IsZero() {
		k.Errorf("receipt %+v, want a first one", r)
	}
}
