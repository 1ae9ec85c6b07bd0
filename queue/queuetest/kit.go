package queuetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

// Names that the cases use.
const (
	lane   = "handler/work"
	source = "robots"
	flow   = "transport"
	hour   = time.Hour
)

// kit is a store under test with the calls that cases make again and again. They end the case when
// the store fails.
type kit struct {
	*testing.T
	ctx context.Context
	h   Harness
	s   queue.Store
	b   queue.Browser
	// cause numbers the rows of apply.
	cause int
}

func newKit(t *testing.T, h Harness) *kit {
	k := &kit{T: t, ctx: t.Context()}
	k.use(h)
	return k
}

func (k *kit) use(h Harness) { k.h, k.s, k.b = h, h.Store, h.Store.(queue.Browser) }

// reopen goes on with what the store left behind.
func (k *kit) reopen(clean bool) { k.use(k.h.Reopen(k.T, clean)) }

func (k *kit) transactor() queue.Transactor { return k.s.(queue.Transactor) }
func (k *kit) operator() queue.Operator     { return k.s.(queue.Operator) }

// arrival returns a callback whose identity is its name and whose content is its name and version.
func arrival(name string, version ...int) queue.Arrival {
	body := []byte(fmt.Sprint(name, " ", version))
	return queue.Arrival{Identity: identity(name), Fingerprint: once.FingerprintRaw(body),
		Kind: queue.Callback, Lane: lane, State: queue.Pending, Source: source, Event: "finish",
		Key: []string{name}, Body: body, Meta: []byte(`{"m":1}`), Peer: "192.0.2.1",
		Retention: 24 * hour}
}

func identity(name string) once.Identity { return sha256.Sum256([]byte(name)) }

func idOf(name string) string { return identity(name).ID() }

// ordered returns an arrival with an order key.
func ordered(name, key string) queue.Arrival {
	a := arrival(name)
	a.OrderKey = key
	return a
}

// ofTask returns an arrival for a task of the flow, ordered by it.
func ofTask(name, task string) queue.Arrival {
	a := ordered(name, task)
	a.Lane, a.Flow, a.Task = "flow", flow, task
	return a
}

// effect returns an effect to be queued.
func effect(name string) queue.Arrival {
	return queue.Arrival{Identity: identity(name), Kind: queue.Effect, Lane: "effect/plc",
		State: queue.Pending, Source: "plc", Event: name, Cause: idOf("cause"),
		Body: []byte("on"), Retention: 24 * hour}
}

func (k *kit) append(as ...queue.Arrival) []queue.Receipt {
	k.Helper()
	rs, err := k.s.Append(k.ctx, as)
	if err != nil {
		k.Fatalf("append: %v", err)
	}
	if len(rs) != len(as) {
		k.Fatalf("append: %d receipts for %d arrivals", len(rs), len(as))
	}
	return rs
}

// receive appends one arrival alone and returns its outcome.
func (k *kit) receive(a queue.Arrival) queue.Outcome {
	k.Helper()
	return k.append(a)[0].Outcome
}

// request is a lease of a minute of rows of the lane.
func request(max int) queue.LeaseRequest {
	return queue.LeaseRequest{Lane: lane, Max: max, For: time.Minute}
}

func (k *kit) lease(max int) []queue.Row {
	k.Helper()
	return k.leaseBy(request(max)).Rows
}

func (k *kit) leaseBy(r queue.LeaseRequest) queue.Leased {
	k.Helper()
	got, err := k.s.Lease(k.ctx, r)
	if err != nil {
		k.Fatalf("lease: %v", err)
	}
	return got
}

// take leases exactly one row, which has to be the named one.
func (k *kit) take(name string) queue.Row {
	k.Helper()
	rows := k.lease(1)
	if len(rows) != 1 || rows[0].Identity != identity(name) {
		k.Fatalf("leased %v, want %s", names(rows), name)
	}
	return rows[0]
}

// names are the first parts of the keys of rows.
func names(rows []queue.Row) []string {
	out := []string{}
	for _, r := range rows {
		if len(r.Key) > 0 {
			out = append(out, r.Key[0])
		} else {
			out = append(out, r.Event)
		}
	}
	return out
}

func (k *kit) wantNames(what string, rows []queue.Row, want ...string) {
	k.Helper()
	if got := names(rows); fmt.Sprint(got) != fmt.Sprint(want) {
		k.Errorf("%s: %v, want %v", what, got, want)
	}
}

func (k *kit) settle(sets ...queue.Settlement) []error {
	k.Helper()
	errs := k.s.Settle(k.ctx, sets)
	if len(errs) != len(sets) {
		k.Fatalf("settle: %d errors for %d settlements", len(errs), len(sets))
	}
	return errs
}

// end settles one row, which has to work.
func (k *kit) end(row queue.Row, set queue.Settlement) {
	k.Helper()
	set.Grant = row.Grant()
	if err := k.settle(set)[0]; err != nil {
		k.Fatalf("settle %s as %s: %v", names([]queue.Row{row}), set.State, err)
	}
}

func (k *kit) detail(kind queue.Kind, name string) queue.RowDetail {
	k.Helper()
	d, err := k.b.Row(k.ctx, kind, idOf(name))
	if err != nil {
		k.Fatalf("row %s: %v", name, err)
	}
	return d
}

func (k *kit) row(name string) queue.Row {
	k.Helper()
	return k.detail(queue.Callback, name).Row
}

func (k *kit) wantState(name string, want queue.State) {
	k.Helper()
	if got := k.row(name).State; got != want {
		k.Errorf("%s is %s, want %s", name, got, want)
	}
}

func (k *kit) wantErr(what string, err, want error) {
	k.Helper()
	if !errors.Is(err, want) {
		k.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// settled waits until the store has written what it counts behind its answers.
func (k *kit) settled(what string, cond func() bool) {
	k.Helper()
	k.h.Advance(time.Second)
	deadline := time.Now().Add(10 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			k.Fatalf("%s: not within 10s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (k *kit) sweepAll() (n int) {
	k.Helper()
	for {
		got, err := k.s.Sweep(k.ctx, 100)
		if err != nil {
			k.Fatalf("sweep: %v", err)
		}
		n += got
		if got < 100 {
			return n
		}
	}
}

// all returns every row of a kind, latest first, read in small pages.
func (k *kit) all(q queue.RowQuery) (rows []queue.Row) {
	k.Helper()
	if q.Limit == 0 {
		q.Limit = 7
	}
	for range 1_000_000 {
		page, err := k.b.Rows(k.ctx, q)
		if err != nil {
			k.Fatalf("rows %+v: %v", q, err)
		}
		rows = append(rows, page.Rows...)
		if page.Next == "" {
			return rows
		}
		q.Cursor = page.Next
	}
	k.Fatal("the pages don't end")
	return nil
}

// wantCounts compares the kept counters with a count of the rows.
func (k *kit) wantCounts() {
	k.Helper()
	want := map[queue.RowCount]int64{}
	for _, kind := range []queue.Kind{queue.Callback, queue.Effect} {
		for _, r := range k.all(queue.RowQuery{Kind: kind, Limit: 500}) {
			want[queue.RowCount{Kind: kind, Source: r.Source, State: r.State}]++
		}
	}
	got, err := k.b.Counts(k.ctx)
	if err != nil {
		k.Fatal(err)
	}
	for c, n := range got.Rows {
		if n != want[c] {
			k.Errorf("counter %+v is %d, counted %d", c, n, want[c])
		}
		delete(want, c)
	}
	for c, n := range want {
		k.Errorf("counter %+v is missing, counted %d", c, n)
	}
}
