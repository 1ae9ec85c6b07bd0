package queuetest

import (
	"errors"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

func reviseCases() []Case {
	cases := []Case{
		{Name: "Accept/NewRevision", Promise: "an accepted conflict becomes a revision with an " +
			"id of its own, worked like any callback", run: newRevision},
		{Name: "Accept/ItsContentIsKnown", Promise: "the accepted content under the old identity " +
			"is a duplicate from then on", run: revisionKnown},
		{Name: "Accept/ARepeatRevivesItsOwnContent", Promise: "a repeat of the accepted content " +
			"does not revive the first one", run: revisionRevived},
		{Name: "Accept/Refused", Promise: "what is no conflict, was accepted before or is not " +
			"there can't be accepted", run: acceptRefused},
	}
	for i := range cases {
		cases[i].needs |= people
	}
	return cases
}

// routed gives a revision the place of an ordinary arrival.
func routed(r queue.Row) (queue.Arrival, error) {
	a := arrival("route")
	a.Key, a.Body, a.Meta = append([]string(nil), r.Key...), r.Body, r.Meta
	return a, nil
}

func newRevision(k *kit) {
	k.done(arrival("x", 1))
	k.append(arrival("x", 1), arrival("x", 2), arrival("x", 3))
	ids := map[string]bool{idOf("x"): true}
	for i, n := range []int64{2, 1} {
		d := k.detail(queue.Callback, "x")
		for _, a := range d.Arrivals {
			if a.Outcome == queue.Conflict && string(a.Body) == []string{"x [3]", "x [2]"}[i] {
				n = a.N
			}
		}
		id, err := k.operator().Accept(k.ctx, idOf("x"), n, byAnn, routed)
		if err != nil {
			k.Fatalf("accept arrival %d: %v", n, err)
		}
		if ids[id] {
			k.Errorf("id %s is not new", id)
		}
		ids[id] = true
		got, err := k.b.Row(k.ctx, queue.Callback, id)
		if err != nil {
			k.Fatal(err)
		}
		if got.Row.Revision != i+1 || got.Row.State != queue.Pending ||
			got.Row.Cause != idOf("x") ||
			string(got.Row.Body) != []string{"x [3]", "x [2]"}[i] {
			k.Errorf("revision %+v", got.Row)
		}
	}
	accepted := 0
	for _, a := range k.detail(queue.Callback, "x").Arrivals {
		if a.Accepted != "" && ids[a.Accepted] {
			accepted++
		}
	}
	if accepted != 2 {
		k.Errorf("%d arrivals say what became of them", accepted)
	}
	rows := k.lease(5)
	k.wantNames("worked", rows, "x", "x")
	k.wantState("x", queue.Done)
	k.wantCounts()
}

func revisionKnown(k *kit) {
	k.append(arrival("x", 1), arrival("x", 2))
	if _, err := k.operator().Accept(k.ctx, idOf("x"), 1, byAnn, routed); err != nil {
		k.Fatal(err)
	}
	for version, want := range map[int]queue.Outcome{1: queue.Duplicate, 2: queue.Duplicate,
		3: queue.Conflict} {
		if got := k.receive(arrival("x", version)); got != want {
			k.Errorf("content %d: %s, want %s", version, got, want)
		}
	}
}

func revisionRevived(k *kit) {
	k.dead(arrival("x", 1), queue.CauseTransient)
	k.append(arrival("x", 2))
	id, err := k.operator().Accept(k.ctx, idOf("x"), 1, byAnn, routed)
	if err != nil {
		k.Fatal(err)
	}
	rows := k.lease(1)
	k.end(rows[0], queue.Settlement{State: queue.Done})
	if r := k.append(arrival("x", 2))[0]; r.Outcome != queue.Duplicate || r.Revived {
		k.Errorf("what is done again: %+v", r)
	}
	k.wantState("x", queue.Dead)
	if r := k.append(arrival("x", 1))[0]; !r.Revived {
		k.Errorf("what is dead again: %+v", r)
	}
	got, err := k.b.Row(k.ctx, queue.Callback, id)
	if err != nil || got.Row.State != queue.Done {
		k.Errorf("the revision is %v, %v", got.Row.State, err)
	}
	k.wantCounts()
}

func acceptRefused(k *kit) {
	k.append(arrival("x", 1), arrival("x", 2))
	k.receive(arrival("x", 1))
	k.settled("the duplicate", func() bool { return k.row("x").Duplicates == 1 })
	o := k.operator()
	accept := func(n int64) error {
		_, err := o.Accept(k.ctx, idOf("x"), n, byAnn, routed)
		return err
	}
	if err := accept(1); err != nil {
		k.Fatal(err)
	}
	k.wantErr("accepted twice", accept(1), once.ErrState)
	k.wantErr("a duplicate", accept(2), once.ErrState)
	k.wantErr("an arrival that is not there", accept(9), once.ErrNotFound)
	_, err := o.Accept(k.ctx, idOf("none"), 1, byAnn, routed)
	k.wantErr("a row that is not there", err, once.ErrNotFound)
	k.append(arrival("x", 3))
	no := errors.New("no route")
	_, err = o.Accept(k.ctx, idOf("x"), 3, byAnn, func(queue.Row) (queue.Arrival, error) {
		return queue.Arrival{}, no
	})
	k.wantErr("a route that fails", err, no)
	_, err = o.Accept(k.ctx, idOf("x"), 3, byAnn, func(queue.Row) (queue.Arrival, error) {
		return queue.Arrival{}, nil
	})
	if err == nil {
		k.Error("a route to nowhere: no error")
	}
	if rows := k.all(queue.RowQuery{Kind: queue.Callback}); len(rows) != 2 {
		k.Errorf("rows %v", names(rows))
	}
	k.wantCounts()
}
