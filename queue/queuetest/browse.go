package queuetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

func browseCases() []Case {
	return []Case{
		{Name: "Browse/EveryFilter", Promise: "each filter, alone and with every other, finds " +
			"exactly the rows that match, latest first", run: everyFilter},
		{Name: "Browse/FilterOverSweptRows", Promise: "filters find what is left when many rows " +
			"were swept, and nothing else", run: filterOverSwept},
		{Name: "Browse/ConcurrentInserts", Promise: "paging while rows come in shows each row " +
			"that was there at its start once", run: pagingWhileInserting},
		{Name: "Browse/BadQueries", Promise: "a limit out of bounds, a state of the other kind, " +
			"or a cursor that no page gave is an error", run: badQueries},
		{Name: "Browse/NotFound", Promise: "an id that is not there, or of the other kind, is " +
			"ErrNotFound", run: rowNotFound},
		{Name: "Browse/PagesCarryNoPayload", Promise: "pages leave bodies and meta out",
			run: noPayload},
	}
}

// sample is what the generated rows are made of.
type sample struct {
	kind         queue.Kind
	source, task string
	event, part  string
	state        queue.State
	name         string
}

// generate stores n rows of every sort, in an order that looks like none.
func (k *kit) generate(n int) []sample {
	k.Helper()
	states := []queue.State{queue.Pending, queue.Done, queue.Dead, queue.Held, queue.Stale,
		queue.Parked, queue.Discarded}
	var out []sample
	for i := range n {
		h := i * 7919 // a prime: all combinations come up
		s := sample{kind: queue.Callback, source: fmt.Sprint("source", h%3),
			task: fmt.Sprint("T", h/3%5), event: fmt.Sprint("event", h/5%4),
			part: fmt.Sprint("part", h/7%6), state: states[h/11%len(states)],
			name: fmt.Sprint("row", i)}
		a := ofTask(s.name, s.task)
		if h%4 == 0 {
			s.kind = queue.Effect
			if s.state == queue.Stale || s.state == queue.Parked {
				s.state = queue.Expired
			}
		}
		a.Kind, a.Source, a.Event, a.OrderKey = s.kind, s.source, s.event, ""
		a.Key, a.Lane = []string{s.name, s.part}, "handler/generated"
		if s.state == queue.Pending {
			a.Lane = "handler/waiting"
		}
		if i%50 == 0 {
			a.KeepBody = hour
		}
		k.append(a)
		out = append(out, s)
		k.settleSample(s)
	}
	return out
}

func (k *kit) settleSample(s sample) {
	k.Helper()
	if s.state == queue.Pending {
		return
	}
	r := request(1)
	r.Lane = "handler/generated"
	rows := k.leaseBy(r).Rows
	if len(rows) != 1 {
		k.Fatalf("leased %d rows", len(rows))
	}
	set := queue.Settlement{State: s.state}
	switch s.state {
	case queue.Dead:
		set.DeadCause = queue.CausePermanent
	case queue.Parked:
		set = park("task/f/" + s.task)
		set.Park.Limit = 1e6 * hour
	}
	k.end(rows[0], set)
}

// queries are all combinations of filters: each set or not, and set to something that is not there.
func queries() (out []queue.RowQuery) {
	for _, kind := range []queue.Kind{queue.Callback, queue.Effect} {
		for _, source := range []string{"", "source1"} {
			for _, task := range []string{"", "T2"} {
				for _, event := range []string{"", "event3"} {
					for _, key := range []string{"", "part5"} {
						for _, s := range []queue.State{"", queue.Pending, queue.Done} {
							out = append(out, queue.RowQuery{Kind: kind, Source: source,
								Task: task, Event: event, Key: key, State: s})
						}
					}
				}
			}
		}
	}
	return append(out, queue.RowQuery{Kind: queue.Callback, Source: "nowhere"},
		queue.RowQuery{Kind: queue.Callback, Task: "T"}, queue.RowQuery{Kind: queue.Callback,
			Key: "row17"}, queue.RowQuery{Kind: queue.Callback, Key: "part5", State: queue.Dead},
		queue.RowQuery{Kind: queue.Effect, Event: "none"})
}

// matching are the names of the rows that a query has to find, latest first.
func matching(rows []sample, q queue.RowQuery) (out []string) {
	for _, s := range slices.Backward(rows) {
		if s.kind == q.Kind && (q.Source == "" || s.source == q.Source) &&
			(q.Task == "" || s.task == q.Task) && (q.Event == "" || s.event == q.Event) &&
			(q.Key == "" || s.part == q.Key || s.name == q.Key) &&
			(q.State == "" || s.state == q.State) {
			out = append(out, s.name)
		}
	}
	return out
}

func everyFilter(k *kit) {
	rows := k.generate(120)
	for range 2 {
		for i, q := range queries() {
			q.Limit = 7 + i%40
			k.wantNames(fmt.Sprintf("%+v", q), k.all(q), matching(rows, q)...)
			if k.Failed() {
				return
			}
		}
		// Time for an index that is written behind.
		k.h.Advance(2 * time.Second)
		rows = append(rows, func() []sample {
			s := sample{kind: queue.Callback, source: "source1", task: "T2", event: "event3",
				part: "part5", state: queue.Pending, name: "one more"}
			a := ofTask(s.name, s.task)
			a.Source, a.Event, a.Key, a.Lane = s.source, s.event, []string{s.name, s.part},
				"handler/waiting"
			k.append(a)
			return []sample{s}
		}()...)
	}
	k.wantCounts()
}

func filterOverSwept(k *kit) {
	rows := k.generate(120)
	k.h.Advance(25 * hour)
	k.sweepAll()
	rows = slices.DeleteFunc(rows, func(s sample) bool { return s.state.Final() })
	for i, q := range queries() {
		q.Limit = 7 + i%40
		k.wantNames(fmt.Sprintf("%+v", q), k.all(q), matching(rows, q)...)
		if k.Failed() {
			return
		}
	}
	k.wantCounts()
}

func pagingWhileInserting(k *kit) {
	want := map[string]bool{}
	for i := range 200 {
		name := fmt.Sprint("old", i)
		want[name] = true
		k.append(arrival(name))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			one := []queue.Arrival{arrival(fmt.Sprint("new", i))}
			if _, err := k.s.Append(k.ctx, one); err != nil {
				k.Errorf("append: %v", err)
				return
			}
		}
	})
	for _, q := range []queue.RowQuery{
		{}, {State: queue.Pending}, {Source: source}, {Event: "finish"},
	} {
		q.Kind, q.Limit = queue.Callback, 13
		seen := map[string]bool{}
		var last int64 = 1 << 62
		for _, r := range k.all(q) {
			if r.Seq >= last {
				k.Errorf("%+v: row %d after %d", q, r.Seq, last)
			}
			last = r.Seq
			seen[r.Key[0]] = true
		}
		for name := range want {
			if !seen[name] {
				k.Errorf("%+v: %s is missing", q, name)
			}
		}
	}
	close(stop)
	wg.Wait()
}

func badQueries(k *kit) {
	k.append(arrival("x"))
	for _, q := range []queue.RowQuery{
		{Limit: 0}, {Limit: -1}, {Limit: 1001}, {Limit: 1, State: queue.Sending},
		{Limit: 1, State: "nonsense"}, {Limit: 1, Cursor: "no cursor!"}, {Limit: 1, Cursor: "-5"},
	} {
		q.Kind = queue.Callback
		if _, err := k.b.Rows(k.ctx, q); err == nil {
			k.Errorf("%+v: no error", q)
		}
	}
	for _, limit := range []int{0, -1, 1001} {
		if _, err := k.b.Resources(k.ctx, queue.ResourceQuery{Limit: limit}); err == nil {
			k.Errorf("resources, limit %d: no error", limit)
		}
		if _, err := k.b.Rejected(k.ctx, "", limit); err == nil {
			k.Errorf("rejected, limit %d: no error", limit)
		}
	}
}

func rowNotFound(k *kit) {
	k.append(arrival("x"), effect("e"))
	for _, c := range []struct {
		kind queue.Kind
		id   string
	}{{queue.Effect, idOf("x")}, {queue.Callback, idOf("e")}, {queue.Callback, idOf("none")},
		{queue.Callback, ""}, {queue.Callback, "?"}, {queue.Callback, idOf("x") + "0"}} {
		if _, err := k.b.Row(k.ctx, c.kind, c.id); !errors.Is(err, once.ErrNotFound) {
			k.Errorf("%v %q: %v", c.kind, c.id, err)
		}
	}
}

func noPayload(k *kit) {
	k.append(arrival("x"))
	for _, r := range k.all(queue.RowQuery{Kind: queue.Callback}) {
		if r.Body != nil || r.Meta != nil {
			k.Errorf("a page carries %q and %q", r.Body, r.Meta)
		}
	}
}
