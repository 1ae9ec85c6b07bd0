package queuetest

import (
	"fmt"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

func repeatCases() []Case {
	return []Case{
		{Name: "Repeat/FirstAndLastAreKept", Promise: "of very many arrivals the first and last " +
			"20 are kept, and a count of all", run: firstAndLast},
		{Name: "Repeat/ConflictIsKeptWithItsBody", Promise: "a conflict is kept beside the first " +
			"content, with body, meta, peer and fingerprint", run: conflictIsKept},
		{Name: "Repeat/ConflictAmongManyIsKept", Promise: "a conflict outlives the trimming of " +
			"the duplicates around it", run: conflictAmongMany},
		{Name: "Repeat/I09_DuplicateHidesNoWork", Promise: "a duplicate of unfinished work " +
			"leaves it due", run: duplicateHidesNothing},
		{Name: "Repeat/RevivesTransientlyDead", Promise: "a duplicate makes a row due again that " +
			"is dead by transient failure, with its tries counted anew", run: revives},
		{Name: "Repeat/RevivesWhereItIsWorkedNow", Promise: "a row that a duplicate revives goes " +
			"to the lane of the duplicate", run: revivesElsewhere},
		{Name: "Repeat/RevivesNothingElse", Promise: "a duplicate changes no row in another " +
			"state or dead for another cause", run: revivesNothingElse},
		{Name: "Repeat/ReplaceDead", Promise: "with replace_dead a conflict takes the place of a " +
			"dead first one; the first content is kept as the conflict", run: replaceDead},
		{Name: "Repeat/ReplaceDeadOfFlow", Promise: "with replace_dead a conflict takes the " +
			"place of one that a flow refused, every time", run: replaceDeadOfFlow},
		{Name: "Repeat/ReplaceOnlyDead", Promise: "replace_dead replaces no row that is alive, " +
			"done, held, poison, or tried by a handler that may have had its effect",
			run: replaceOnlyDead},
	}
}

func firstAndLast(k *kit) {
	a := arrival("x")
	k.append(a)
	for i := range 100 {
		a.Peer = fmt.Sprint("peer ", i+1)
		if got := k.receive(a); got != queue.Duplicate {
			k.Fatalf("repeat %d: %s", i+1, got)
		}
	}
	k.settled("100 duplicates", func() bool { return k.row("x").Duplicates == 100 })
	d := k.detail(queue.Callback, "x")
	if len(d.Arrivals) != 40 {
		k.Fatalf("%d arrivals are kept, want 40", len(d.Arrivals))
	}
	for i, got := range d.Arrivals {
		n := int64(i + 1)
		if i >= 20 {
			n = int64(100 - 39 + i)
		}
		if got.N != n || got.Peer != fmt.Sprint("peer ", n) || got.Outcome != queue.Duplicate {
			k.Errorf("arrival %d is %+v, want number %d", i, got, n)
		}
	}
}

func conflictIsKept(k *kit) {
	k.append(arrival("x", 1))
	k.h.Advance(time.Second)
	at := k.h.Now()
	other := arrival("x", 2)
	other.Peer, other.Meta = "198.51.100.9", []byte(`{"other":true}`)
	k.append(other)
	d := k.detail(queue.Callback, "x")
	if len(d.Arrivals) != 1 {
		k.Fatalf("%d arrivals are kept", len(d.Arrivals))
	}
	got := d.Arrivals[0]
	if got.Outcome != queue.Conflict || string(got.Body) != "x [2]" || got.N != 1 ||
		string(got.Meta) != `{"other":true}` || got.Peer != "198.51.100.9" ||
		got.Fingerprint != other.Fingerprint || got.At.Sub(at).Abs() > time.Millisecond {
		k.Errorf("kept %+v", got)
	}
}

func conflictAmongMany(k *kit) {
	k.append(arrival("x", 1))
	repeat := func(n int) {
		for range n {
			k.append(arrival("x", 1))
		}
	}
	repeat(50)
	k.settled("50 duplicates", func() bool { return k.row("x").Duplicates == 50 })
	k.append(arrival("x", 2))
	repeat(50)
	k.settled("100 duplicates", func() bool { return k.row("x").Duplicates == 100 })
	bodies := 0
	d := k.detail(queue.Callback, "x")
	for _, a := range d.Arrivals {
		if a.Outcome == queue.Conflict && string(a.Body) == "x [2]" {
			bodies++
		}
	}
	if bodies != 1 || len(d.Arrivals) > 41 {
		k.Errorf("%d conflicts with body among %d arrivals", bodies, len(d.Arrivals))
	}
}

func duplicateHidesNothing(k *kit) {
	k.append(arrival("x"))
	k.end(k.take("x"), queue.Settlement{State: queue.Pending, RetryIn: time.Minute, Error: "down"})
	if got := k.receive(arrival("x")); got != queue.Duplicate {
		k.Fatalf("repeat: %s", got)
	}
	if rows := k.lease(1); len(rows) != 0 {
		k.Error("the repeat shortened the wait")
	}
	k.h.Advance(time.Minute)
	if row := k.take("x"); row.Attempt != 2 {
		k.Errorf("attempt %d, want 2", row.Attempt)
	}
}

// dead appends a row and makes it a dead letter.
func (k *kit) dead(a queue.Arrival, cause queue.Cause) {
	k.Helper()
	k.append(a)
	r := request(1)
	r.Lane = a.Lane
	rows := k.leaseBy(r).Rows
	if len(rows) != 1 || rows[0].Identity != a.Identity {
		k.Fatalf("leased %v, want %v", names(rows), a.Key)
	}
	k.end(rows[0], queue.Settlement{State: queue.Dead, DeadCause: cause, Error: "gave up"})
}

func revives(k *kit) {
	k.dead(arrival("x"), queue.CauseTransient)
	first := k.row("x")
	r := k.append(arrival("x"))[0]
	if r.Outcome != queue.Duplicate || !r.Revived || r.State != queue.Pending ||
		r.Seq != first.Seq {
		k.Fatalf("receipt %+v", r)
	}
	got := k.row("x")
	if got.State != queue.Pending || got.Attempt != 0 || got.DeadCause != "" ||
		!got.FinishedAt.IsZero() || got.Duplicates != 1 {
		k.Errorf("revived as %+v", got)
	}
	if r := k.append(arrival("x"))[0]; r.Revived {
		k.Error("the next repeat revived it once more")
	}
	row := k.take("x")
	if row.Attempt != 1 || row.Fence <= first.Fence {
		k.Errorf("attempt %d, fence %d after %d", row.Attempt, row.Fence, first.Fence)
	}
	k.end(row, queue.Settlement{State: queue.Done})
	k.wantCounts()
}

func revivesElsewhere(k *kit) {
	first := ordered("x", "K")
	k.append(first, ordered("behind", "K"))
	k.end(k.lease(1)[0], queue.Settlement{State: queue.Dead, DeadCause: queue.CauseTransient,
		Block: true})
	again := first
	again.Lane, again.OrderKey, again.Event = "http/new", "L", "cancel"
	if r := k.append(again)[0]; !r.Revived {
		k.Fatalf("receipt %+v", r)
	}
	k.wantNames("the lane that it was in", k.lease(5), "behind")
	r := request(5)
	r.Lane = "http/new"
	rows := k.leaseBy(r).Rows
	k.wantNames("the lane of the duplicate", rows, "x")
	if len(rows) == 1 && (rows[0].OrderKey != "L" || rows[0].Event != "cancel") {
		k.Errorf("revived as %+v", rows[0])
	}
	k.wantCounts()
}

func revivesNothingElse(k *kit) {
	for _, c := range []queue.Cause{queue.CausePermanent, queue.CausePoison, queue.CauseIllegal,
		queue.CauseWaited, queue.CauseCircle} {
		name := "dead " + string(c)
		k.dead(arrival(name), c)
		if r := k.append(arrival(name))[0]; r.Revived || r.Outcome != queue.Duplicate {
			k.Errorf("%s: receipt %+v", name, r)
		}
		k.wantState(name, queue.Dead)
	}
	for _, s := range []queue.State{queue.Held, queue.Done, queue.Stale, queue.Unrouted} {
		name := string(s)
		k.append(arrival(name))
		k.end(k.take(name), queue.Settlement{State: s})
		if r := k.append(arrival(name))[0]; r.Revived || r.Outcome != queue.Duplicate {
			k.Errorf("%s: receipt %+v", name, r)
		}
		k.wantState(name, s)
	}
	if rows := k.lease(10); len(rows) != 0 {
		k.Errorf("due: %v", names(rows))
	}
}

// replacing is an arrival that may take the place of a dead one.
func replacing(name string) queue.Arrival {
	a := arrival(name, 2)
	a.ReplaceDead, a.Event, a.Peer = true, "cancel", "198.51.100.2"
	return a
}

func replaceDead(k *kit) {
	k.dead(ordered("x", "K"), queue.CausePermanent)
	a := replacing("x")
	a.OrderKey = "L"
	r := k.append(a)[0]
	if r.Outcome != queue.Accepted || !r.Revived || r.State != queue.Pending {
		k.Fatalf("receipt %+v", r)
	}
	d := k.detail(queue.Callback, "x")
	if string(d.Row.Body) != "x [2]" || d.Row.Event != "cancel" || d.Row.OrderKey != "L" {
		k.Errorf("replaced by %+v", d.Row)
	}
	if len(d.Arrivals) != 1 || d.Arrivals[0].Outcome != queue.Conflict ||
		string(d.Arrivals[0].Body) != "x []" {
		k.Errorf("the first content is kept as %+v", d.Arrivals)
	}
	if got := k.receive(arrival("x", 2)); got != queue.Duplicate {
		k.Errorf("the new content again: %s", got)
	}
	k.end(k.take("x"), queue.Settlement{State: queue.Done})
	rows := k.all(queue.RowQuery{Kind: queue.Callback, Event: "cancel"})
	k.wantNames("found by its new event", rows, "x")
	k.wantCounts()
}

func replaceDeadOfFlow(k *kit) {
	k.dead(ofTask("x", "T"), queue.CauseIllegal)
	r := request(1)
	r.Lane = "flow"
	for range 2 { // whatever became of it before: a flow that refuses changes nothing
		a := ofTask("x", "T")
		a.Body = append(a.Body, byte('0'+r.Max))
		a.Fingerprint, a.ReplaceDead = once.FingerprintRaw(a.Body), true
		if got := k.append(a)[0]; got.Outcome != queue.Accepted || !got.Revived {
			k.Fatalf("receipt %+v", got)
		}
		k.end(k.leaseBy(r).Rows[0],
			queue.Settlement{State: queue.Dead, DeadCause: queue.CauseWaited})
		r.Max++
	}
}

func replaceOnlyDead(k *kit) {
	k.dead(arrival("poison"), queue.CausePoison)
	k.dead(arrival("transient"), queue.CauseTransient)
	k.append(arrival("timed out, then refused"))
	k.end(k.take("timed out, then refused"), queue.Settlement{State: queue.Pending})
	k.h.Advance(time.Second)
	k.end(k.take("timed out, then refused"),
		queue.Settlement{State: queue.Dead, DeadCause: queue.CausePermanent})
	for name, s := range map[string]queue.State{"held": queue.Held, "done": queue.Done} {
		k.append(arrival(name))
		k.end(k.take(name), queue.Settlement{State: s})
	}
	k.append(arrival("pending"))
	for name, want := range map[string]queue.State{"poison": queue.Dead, "held": queue.Held,
		"transient": queue.Dead, "timed out, then refused": queue.Dead,
		"done": queue.Done, "pending": queue.Pending} {
		if r := k.append(replacing(name))[0]; r.Outcome != queue.Conflict || r.Revived {
			k.Errorf("%s: receipt %+v", name, r)
		}
		if got := k.row(name); got.State != want || string(got.Body) != name+" []" {
			k.Errorf("%s became %s with body %q", name, got.State, got.Body)
		}
	}
}
