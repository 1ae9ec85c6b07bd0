package queuetest

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

func appendCases() []Case {
	return []Case{
		{Name: "Append/NewIsAccepted", Promise: "a new identity is accepted, pending, and " +
			"everything that came with it is kept", run: newIsAccepted},
		{Name: "Append/BytesAreKept", Promise: "body and meta are kept byte for byte",
			run: bytesAreKept},
		{Name: "Append/OrderOfAcceptance", Promise: "Seq rises in the order of acceptance",
			run: orderOfAcceptance},
		{Name: "Append/SameContentIsADuplicate", Promise: "the same content under a known " +
			"identity is a duplicate of that row, and no second row", run: sameContent},
		{Name: "Append/F02_OtherContentIsAConflict", Promise: "other content under a known " +
			"identity is a conflict; the first one counts", run: otherContent},
		{Name: "Append/F10_EveryPathCompares", Promise: "the fingerprint is compared however " +
			"often the identity was seen before", run: everyPathCompares},
		{Name: "Append/RepeatsInOneCall", Promise: "repeats inside one call are told apart like " +
			"repeats of two calls", run: repeatsInOneCall},
		{Name: "Append/K03_ManyAtTheSameMoment", Promise: "of 100 equal arrivals at the same " +
			"moment one is accepted and 99 are duplicates", run: manyAtOnce},
		{Name: "Append/AllOrNothing", Promise: "all arrivals of one call are stored, or none",
			run: allOrNothing},
		{Name: "Append/BadArrivalsAreRefused", Promise: "an arrival that can't be stored is " +
			"refused with an error", run: badArrivals},
		{Name: "Append/UnroutedIsKept", Promise: "an unrouted callback is stored and never leased",
			run: unroutedIsKept},
		{Name: "Append/ExpiryCountsFromStoring", Promise: "an effect's expiry counts from its " +
			"storing by the store's clock", run: expiryCounts},
		{Name: "Append/EndedContext", Promise: "an ended context is an error and stores nothing, " +
			"or the arrival is stored and told", run: endedContext},
	}
}

func newIsAccepted(k *kit) {
	a := queue.Arrival{Identity: identity("full"), Fingerprint: once.FingerprintRaw([]byte("b")),
		Kind: queue.Callback, Lane: lane, OrderKey: "T1", State: queue.Pending, Source: source,
		Event: "startFE", Flow: flow, Task: "T1", Key: []string{"REQ-1", `quo"te`, "ключ"},
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		TraceState:  "rojo=00f067aa0ba902b7, congo=t61rcWkgMzE",
		Meta:        []byte(`{"h":1}`), Body: []byte("b"), Peer: "192.0.2.7:9", Retention: hour}
	r := k.append(a)[0]
	if r.Outcome != queue.Accepted || r.State != queue.Pending || r.Seq < 1 || r.Revived {
		k.Fatalf("receipt %+v", r)
	}
	now := k.h.Now()
	got := k.row("full")
	want := queue.Row{Seq: r.Seq, Identity: a.Identity, Fingerprint: a.Fingerprint,
		Kind: queue.Callback, Lane: got.Lane, OrderKey: "T1", State: queue.Pending, Source: source,
		Event: "startFE", Flow: flow, Task: "T1", Key: a.Key, TraceParent: a.TraceParent,
		TraceState: a.TraceState, Meta: a.Meta, Body: a.Body, ReceivedAt: got.ReceivedAt,
		LastAt: got.ReceivedAt}
	if !reflect.DeepEqual(got, want) {
		k.Errorf("stored %+v\nwant   %+v", got, want)
	}
	if d := got.ReceivedAt.Sub(now).Abs(); d > time.Millisecond {
		k.Errorf("received at %v, the store's clock says %v", got.ReceivedAt, now)
	}
	row := k.take("full")
	if row.Lane != lane && row.Lane != "" || row.Attempt != 1 || row.State != queue.Running {
		k.Errorf("leased %+v", row)
	}
	if !bytes.Equal(row.Body, a.Body) || !bytes.Equal(row.Meta, a.Meta) {
		k.Errorf("leased with body %q and meta %q", row.Body, row.Meta)
	}
	k.wantCounts()
}

func bytesAreKept(k *kit) {
	for i, body := range [][]byte{{0, 1, 0, 255}, []byte("\xff\xfe\x00"), []byte("\ufeff{}"),
		bytes.Repeat([]byte{7, 0}, 1<<17), []byte(" \r\n")} {
		a := arrival(fmt.Sprint("bytes", i))
		a.Body, a.Meta = body, append([]byte("m\x00"), body[:2]...)
		k.append(a)
		got := k.row(fmt.Sprint("bytes", i))
		if !bytes.Equal(got.Body, a.Body) || !bytes.Equal(got.Meta, a.Meta) {
			k.Errorf("body %d was not kept", i)
		}
	}
}

func orderOfAcceptance(k *kit) {
	var last int64
	for i := range 5 {
		for _, r := range k.append(arrival(fmt.Sprint("a", i)), arrival(fmt.Sprint("b", i))) {
			if r.Seq <= last {
				k.Fatalf("seq %d after %d", r.Seq, last)
			}
			last = r.Seq
		}
	}
}

func sameContent(k *kit) {
	first := k.append(arrival("x"))[0]
	for range 3 {
		r := k.append(arrival("x"))[0]
		if r.Outcome != queue.Duplicate || r.Seq != first.Seq || r.Revived {
			k.Fatalf("receipt %+v, first %+v", r, first)
		}
	}
	k.settled("3 duplicates", func() bool { return k.row("x").Duplicates == 3 })
	if rows := k.lease(10); len(rows) != 1 {
		k.Errorf("%d rows are due", len(rows))
	}
}

func otherContent(k *kit) {
	first := k.append(arrival("x", 1))[0]
	r := k.append(arrival("x", 2))[0]
	if r.Outcome != queue.Conflict || r.Seq != first.Seq || r.State != queue.Pending {
		k.Fatalf("receipt %+v", r)
	}
	if got := k.row("x"); string(got.Body) != "x [1]" || got.Conflicts != 1 {
		k.Errorf("the first one is %q, conflicts %d", got.Body, got.Conflicts)
	}
	if rows := k.lease(10); len(rows) != 1 || string(rows[0].Body) != "x [1]" {
		k.Errorf("leased %d rows", len(rows))
	}
}

func everyPathCompares(k *kit) {
	for i, step := range []struct {
		version int
		want    queue.Outcome
	}{
		{1, queue.Accepted}, {1, queue.Duplicate}, {2, queue.Conflict}, {1, queue.Duplicate},
		{2, queue.Conflict}, {3, queue.Conflict}, {1, queue.Duplicate},
	} {
		if got := k.receive(arrival("x", step.version)); got != step.want {
			k.Errorf("arrival %d with content %d: %s, want %s", i, step.version, got, step.want)
		}
	}
	k.end(k.take("x"), queue.Settlement{State: queue.Done})
	if got := k.receive(arrival("x", 2)); got != queue.Conflict {
		k.Errorf("other content after the end: %s", got)
	}
	k.reopen(true)
	if got := k.receive(arrival("x", 2)); got != queue.Conflict {
		k.Errorf("other content after a restart: %s", got)
	}
}

func repeatsInOneCall(k *kit) {
	rs := k.append(arrival("x", 1), arrival("y"), arrival("x", 1), arrival("x", 2), arrival("x", 1))
	want := []queue.Outcome{queue.Accepted, queue.Accepted, queue.Duplicate, queue.Conflict,
		queue.Duplicate}
	for i, r := range rs {
		if r.Outcome != want[i] {
			k.Errorf("arrival %d: %s, want %s", i, r.Outcome, want[i])
		}
		if i != 1 && r.Seq != rs[0].Seq {
			k.Errorf("arrival %d: row %d, want %d", i, r.Seq, rs[0].Seq)
		}
	}
	k.settled("2 duplicates", func() bool { return k.row("x").Duplicates == 2 })
	k.wantCounts()
}

func manyAtOnce(k *kit) {
	const n = 100
	outcomes := make([]queue.Outcome, n)
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			rs, err := k.s.Append(k.ctx, []queue.Arrival{arrival("same")})
			if err != nil {
				k.Errorf("append: %v", err)
				return
			}
			outcomes[i] = rs[0].Outcome
		})
	}
	close(begin)
	wg.Wait()
	count := map[queue.Outcome]int{}
	for _, o := range outcomes {
		count[o]++
	}
	if count[queue.Accepted] != 1 || count[queue.Duplicate] != n-1 {
		k.Errorf("outcomes %v", count)
	}
	k.settled("99 duplicates", func() bool { return k.row("same").Duplicates == n-1 })
}

func allOrNothing(k *kit) {
	bad := arrival("bad")
	bad.Retention = 0
	if _, err := k.s.Append(k.ctx, []queue.Arrival{arrival("a"), bad, arrival("b")}); err == nil {
		k.Fatal("no error for an arrival without retention")
	}
	if rows := k.all(queue.RowQuery{Kind: queue.Callback}); len(rows) != 0 {
		k.Errorf("%v were stored", names(rows))
	}
	for _, o := range k.append(arrival("a"), arrival("b")) {
		if o.Outcome != queue.Accepted {
			k.Errorf("after the refused call: %s", o.Outcome)
		}
	}
	k.wantCounts()
}

func badArrivals(k *kit) {
	for name, spoil := range map[string]func(*queue.Arrival){
		"no identity":  func(a *queue.Arrival) { a.Identity = once.Identity{} },
		"no retention": func(a *queue.Arrival) { a.Retention = 0 },
		"no kind":      func(a *queue.Arrival) { a.Kind = 0 },
		"no state":     func(a *queue.Arrival) { a.State = "" },
		"done":         func(a *queue.Arrival) { a.State = queue.Done },
		"running":      func(a *queue.Arrival) { a.State = queue.Running },
	} {
		a := arrival("bad " + name)
		spoil(&a)
		if rs, err := k.s.Append(k.ctx, []queue.Arrival{a}); err == nil {
			k.Errorf("%s: accepted as %+v", name, rs)
		}
	}
	if rows := k.all(queue.RowQuery{Kind: queue.Callback}); len(rows) != 0 {
		k.Errorf("%v were stored", names(rows))
	}
}

func unroutedIsKept(k *kit) {
	a := arrival("u")
	a.State = queue.Unrouted
	if r := k.append(a)[0]; r.Outcome != queue.Accepted || r.State != queue.Unrouted {
		k.Fatalf("receipt %+v", r)
	}
	if rows := k.lease(10); len(rows) != 0 {
		k.Errorf("leased %v", names(rows))
	}
	k.wantState("u", queue.Unrouted)
	if got := k.receive(a); got != queue.Duplicate {
		k.Errorf("its repeat: %s", got)
	}
	k.wantCounts()
}

func expiryCounts(k *kit) {
	e := effect("pulse")
	e.Expires = 90 * time.Second
	now := k.h.Now()
	k.append(e)
	got := k.detail(queue.Effect, "pulse").Row
	if d := got.ExpiresAt.Sub(now.Add(90 * time.Second)).Abs(); d > time.Millisecond {
		k.Errorf("expires at %v, stored at %v", got.ExpiresAt, now)
	}
	if got.Cause != idOf("cause") || got.Event != "pulse" || got.Source != "plc" {
		k.Errorf("stored %+v", got)
	}
}

func endedContext(k *kit) {
	ctx, cancel := context.WithCancel(k.ctx)
	cancel()
	_, err := k.s.Append(ctx, []queue.Arrival{arrival("x")})
	want := queue.Accepted
	if err == nil {
		want = queue.Duplicate
	}
	if got := k.receive(arrival("x")); err == nil && got != want {
		k.Errorf("after a call that was told to be stored: %s", got)
	}
	k.wantCounts()
}
