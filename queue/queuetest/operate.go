package queuetest

import (
	"errors"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

func operateCases() []Case {
	cases := []Case{
		{Name: "Operate/EveryStateAndAction", Promise: "an action works in the states that allow " +
			"it; in any other it is ErrState and changes nothing", run: everyAction},
		{Name: "Operate/Audit", Promise: "each action is kept with who, why and when; without " +
			"them it is refused", run: auditKept},
		{Name: "Operate/RefusedLeavesNoTrace", Promise: "a refused action is not kept",
			run: refusedNoTrace},
		{Name: "Operate/RetryCountsAnew", Promise: "a retry counts tries and losses anew and " +
			"keeps the old tries", run: retryAnew},
		{Name: "Operate/RetryRoutes", Promise: "an unrouted callback is retried on the lane, " +
			"flow, task and key that today's configuration gives it", run: retryRoutes},
		{Name: "Operate/RetryWithoutBody", Promise: "an unrouted callback whose payload went " +
			"can't be retried", run: retryWithoutBody},
		{Name: "Operate/Acknowledge", Promise: "an acknowledged effect is done, with what " +
			"follows from it in the same transaction", run: acknowledge},
	}
	for i := range cases {
		cases[i].needs |= people
	}
	return cases
}

// inState stores a row of the kind in a state.
func (k *kit) inState(kind queue.Kind, name string, s queue.State) {
	k.Helper()
	a := arrival(name)
	if kind == queue.Effect {
		a = effect(name)
	}
	a.Lane = "handler/" + name
	k.append(a)
	if s == queue.Pending {
		return
	}
	r := request(1)
	r.Lane = a.Lane
	row := k.leaseBy(r).Rows[0]
	if s == kind.Working() {
		return
	}
	set := queue.Settlement{State: s}
	switch s {
	case queue.Dead:
		set.DeadCause = queue.CausePermanent
	case queue.Parked:
		set = park("task/f/T")
	}
	k.end(row, set)
}

func everyAction(k *kit) {
	type action struct {
		name    string
		run     func(kind queue.Kind, id string) error
		after   queue.State
		allowed map[queue.Kind][]queue.State
	}
	o := k.operator()
	actions := []action{
		{"retry", func(kind queue.Kind, id string) error {
			return o.Retry(k.ctx, kind, id, byAnn, nil)
		}, queue.Pending, map[queue.Kind][]queue.State{
			queue.Callback: {queue.Parked, queue.Unrouted, queue.Dead, queue.Held},
			queue.Effect:   {queue.Dead, queue.Held}}},
		{"discard", func(kind queue.Kind, id string) error {
			return o.Discard(k.ctx, kind, id, byAnn, nil)
		}, queue.Discarded, map[queue.Kind][]queue.State{
			queue.Callback: {queue.Pending, queue.Parked, queue.Unrouted, queue.Dead, queue.Held},
			queue.Effect:   {queue.Pending, queue.Dead, queue.Held, queue.Expired}}},
		{"done", func(kind queue.Kind, id string) error {
			return o.Acknowledge(k.ctx, id, byAnn, nil)
		}, queue.Done, map[queue.Kind][]queue.State{
			queue.Effect: {queue.Dead, queue.Held, queue.Expired}}},
	}
	for _, act := range actions {
		for _, kind := range []queue.Kind{queue.Callback, queue.Effect} {
			for _, s := range queue.States(kind) {
				k.act(act.name, kind, s, act.after, act.allowed[kind], act.run)
			}
		}
	}
	k.wantCounts()
}

// act tries an action on a row in a state.
func (k *kit) act(name string, kind queue.Kind, s, after queue.State, allowed []queue.State,
	run func(queue.Kind, string) error) {
	k.Helper()
	row := name + " " + kind.String() + " " + string(s)
	k.inState(kind, row, s)
	before := k.detail(kind, row)
	err := run(kind, idOf(row))
	want := s
	for _, ok := range allowed {
		if ok == s {
			want = after
		}
	}
	got := k.detail(kind, row)
	if got.Row.State != want {
		k.Errorf("%s: it is %s, want %s (%v)", row, got.Row.State, want, err)
	}
	switch {
	case name == "done" && kind == queue.Callback:
		k.wantErr(row, err, once.ErrNotFound) // it is no effect
	case want == s && !contains(allowed, s):
		k.wantErr(row, err, once.ErrState)
		if got.Row.Attempt != before.Row.Attempt || got.Row.Error != before.Row.Error ||
			len(got.Audit) != 0 {
			k.Errorf("%s: the refused action left %+v", row, got)
		}
	case err != nil:
		k.Errorf("%s: %v", row, err)
	}
}

func contains(list []queue.State, s queue.State) bool {
	for _, have := range list {
		if have == s {
			return true
		}
	}
	return false
}

func auditKept(k *kit) {
	o := k.operator()
	k.dead(arrival("x"), queue.CausePermanent)
	for _, by := range []queue.Action{
		{}, {Actor: "ann", Name: "retry"}, {Reason: "why", Name: "retry"},
	} {
		if err := o.Retry(k.ctx, queue.Callback, idOf("x"), by, nil); err == nil {
			k.Errorf("%+v: no error", by)
		}
		if err := o.Discard(k.ctx, queue.Callback, idOf("x"), by, nil); err == nil {
			k.Errorf("%+v: no error", by)
		}
	}
	k.wantState("x", queue.Dead)
	first := queue.Action{Actor: "ann", Reason: "lift repaired", Name: "retry"}
	if err := o.Retry(k.ctx, queue.Callback, idOf("x"), first, nil); err != nil {
		k.Fatal(err)
	}
	k.h.Advance(time.Minute)
	second := queue.Action{Actor: "bob", Reason: "not wanted", Name: "discard"}
	if err := o.Discard(k.ctx, queue.Callback, idOf("x"), second, nil); err != nil {
		k.Fatal(err)
	}
	k.reopen(false)
	d := k.detail(queue.Callback, "x")
	if len(d.Audit) != 2 || d.Audit[0].Action != first || d.Audit[1].Action != second ||
		d.Audit[1].At.Sub(d.Audit[0].At) < time.Minute {
		k.Errorf("audit %+v", d.Audit)
	}
}

func refusedNoTrace(k *kit) {
	k.done(arrival("x"))
	err := k.operator().Retry(k.ctx, queue.Callback, idOf("x"), byAnn, nil)
	k.wantErr("retry of what is done", err, once.ErrState)
	err = k.operator().Retry(k.ctx, queue.Callback, idOf("none"), byAnn, nil)
	k.wantErr("retry of what is not there", err, once.ErrNotFound)
	err = k.operator().Discard(k.ctx, queue.Effect, idOf("x"), byAnn, nil)
	k.wantErr("discard of the other kind", err, once.ErrNotFound)
	if d := k.detail(queue.Callback, "x"); len(d.Audit) != 0 {
		k.Errorf("audit %+v", d.Audit)
	}
}

func retryAnew(k *kit) {
	r := request(1)
	r.MaxLost = 2
	k.append(arrival("x"))
	lose(k, r)
	lose(k, r)
	if rows := k.leaseBy(r).Rows; len(rows) != 0 {
		k.Fatalf("leased %v", names(rows))
	}
	k.wantState("x", queue.Dead)
	if err := k.operator().Retry(k.ctx, queue.Callback, idOf("x"), byAnn, nil); err != nil {
		k.Fatal(err)
	}
	rows := k.leaseBy(r).Rows
	if len(rows) != 1 || rows[0].Attempt != 1 || rows[0].Lost != 0 {
		k.Fatalf("leased %+v", rows)
	}
	k.end(rows[0], queue.Settlement{State: queue.Done})
	d := k.detail(queue.Callback, "x")
	if len(d.Attempts) != 3 || d.Attempts[2].Result != "done" || d.Row.DeadCause != "" {
		k.Errorf("ended as %+v", d)
	}
}

func (k *kit) unrouted(name string) {
	k.Helper()
	u := arrival(name)
	u.State, u.Event, u.Lane = queue.Unrouted, "unheard of", "handler/none"
	k.append(u)
}

func retryRoutes(k *kit) {
	k.unrouted("x")
	o := k.operator()
	no := errors.New("no such flow")
	err := o.Retry(k.ctx, queue.Callback, idOf("x"), byAnn,
		func(queue.Row) (queue.Arrival, error) { return queue.Arrival{}, no })
	k.wantErr("a route that fails", err, no)
	retry := func(route func(r queue.Row) (queue.Arrival, error)) error {
		return o.Retry(k.ctx, queue.Callback, idOf("x"), byAnn, route)
	}
	err = retry(func(r queue.Row) (queue.Arrival, error) {
		return queue.Arrival{State: queue.Unrouted, Lane: r.Lane}, nil
	})
	k.wantErr("still declared nowhere", err, once.ErrState)
	k.wantState("x", queue.Unrouted)
	err = retry(func(r queue.Row) (queue.Arrival, error) {
		if string(r.Body) != "x []" || r.Event != "unheard of" {
			k.Errorf("routed %+v", r)
		}
		a := ofTask("x", "T9")
		a.Event = "moved"
		return a, nil
	})
	if err != nil {
		k.Fatal(err)
	}
	r := request(5)
	r.Lane = "flow"
	rows := k.leaseBy(r).Rows
	if len(rows) != 1 || rows[0].Task != "T9" || rows[0].Flow != flow || rows[0].OrderKey != "T9" ||
		rows[0].Event != "moved" {
		k.Fatalf("leased %+v", rows)
	}
	for _, q := range []queue.RowQuery{{Task: "T9"}, {Event: "moved"}} {
		q.Kind = queue.Callback
		k.wantNames("found by its new names", k.all(q), "x")
	}
	k.wantNames("by its old event",
		k.all(queue.RowQuery{Kind: queue.Callback, Event: "unheard of"}))
	k.wantCounts()
}

func retryWithoutBody(k *kit) {
	u := arrival("x")
	u.State, u.KeepBody = queue.Unrouted, hour
	k.append(u)
	k.h.Advance(2 * hour)
	k.sweepAll()
	err := k.operator().Retry(k.ctx, queue.Callback, idOf("x"), byAnn, nil)
	k.wantErr("retry without its payload", err, once.ErrState)
	k.wantState("x", queue.Unrouted)
}

func acknowledge(k *kit) {
	e := effect("unlock")
	e.OrderKey = "station/S1"
	next := effect("lock")
	next.OrderKey = "station/S1"
	k.append(e, next)
	r := request(5)
	r.Lane = e.Lane
	k.end(k.leaseBy(r).Rows[0], queue.Settlement{State: queue.Held, Block: true})
	if rows := k.leaseBy(r).Rows; len(rows) != 0 {
		k.Fatalf("behind the held one: %v", names(rows))
	}
	by := queue.Action{Actor: "ann", Reason: "saw it open", Name: "done"}
	err := k.operator().Acknowledge(k.ctx, idOf("unlock"), by,
		func(v queue.View, row queue.Row) queue.Settlement {
			if row.State != queue.Done || row.Event != "unlock" {
				k.Errorf("what follows sees %+v", row)
			}
			return queue.Settlement{Effects: []queue.Arrival{effect("more")}}
		})
	if err != nil {
		k.Fatal(err)
	}
	d := k.detail(queue.Effect, "unlock")
	if d.Row.State != queue.Done || len(d.Audit) != 1 || d.Audit[0].Action != by {
		k.Errorf("acknowledged as %+v", d)
	}
	k.wantNames("then", k.leaseBy(r).Rows, "lock", "more")
	k.wantCounts()
}
