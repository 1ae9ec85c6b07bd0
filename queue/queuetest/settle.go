package queuetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

func settleCases() []Case {
	return []Case{
		{Name: "Settle/EveryState", Promise: "each state that a kind may be given is taken, " +
			"shown and counted", run: everyState},
		{Name: "Settle/BadStates", Promise: "a state that the kind can't be given is refused and " +
			"changes nothing", run: badStates},
		{Name: "Settle/NeighboursAreLeftAlone", Promise: "a settlement that can't be applied " +
			"leaves the others of its batch alone", run: neighbours},
		{Name: "Settle/RefusedKeepsTheLease", Promise: "after a refused settlement the owner " +
			"still has its lease and can settle otherwise", run: refusedKeepsLease},
		{Name: "Settle/EffectsAreDueAtOnce", Promise: "the effects of a settlement are queued " +
			"with it, due in their lane", run: effectsDue},
		{Name: "Settle/EffectsOnce", Promise: "an effect with a known identity is stored once, " +
			"however often its cause is settled", run: effectsOnce},
		{Name: "Settle/BadEffect", Promise: "an effect that can't be stored fails its whole " +
			"settlement", run: badEffect},
		{Name: "Settle/EmptyBatch", Promise: "settling and renewing nothing is no error",
			run: emptyBatch},
		{Name: "Settle/LatestAttemptsAreKept", Promise: "of very many tries the latest 50 are " +
			"kept, and the number of all", run: latestAttempts},
		{Name: "Settle/ThenSeesTheEnd", Promise: "Then runs in the transaction after the row " +
			"took its state, and what it adds commits together", needs: steps, run: thenRuns},
		{Name: "Settle/ThenFails", Promise: "a Then whose changes can't be applied, or that " +
			"panics, undoes the whole settlement", needs: steps, run: thenFails},
	}
}

func everyState(k *kit) {
	for _, kind := range []queue.Kind{queue.Callback, queue.Effect} {
		for _, s := range queue.States(kind) {
			if s == kind.Working() || s == queue.Pending {
				continue
			}
			name := kind.String() + " " + string(s)
			a := arrival(name)
			if kind == queue.Effect {
				a = effect(name)
			}
			k.append(a)
			r := request(1)
			r.Lane = a.Lane
			set := queue.Settlement{State: s, Error: "because"}
			if s == queue.Dead {
				set.DeadCause = queue.CausePermanent
			}
			if s == queue.Parked {
				set.Park = &queue.Park{Waits: []string{"task/f/t"}, Limit: hour}
			}
			k.end(k.leaseBy(r).Rows[0], set)
			got := k.detail(kind, name).Row
			if got.State != s || got.Error != "because" || got.DeadCause != set.DeadCause ||
				got.FinishedAt.IsZero() != (s == queue.Parked) {
				k.Errorf("%s: %+v", name, got)
			}
			k.wantNames("found by its state", k.all(queue.RowQuery{Kind: kind, State: s}),
				names([]queue.Row{got})...)
		}
	}
	k.wantCounts()
}

func badStates(k *kit) {
	k.append(arrival("x"))
	row := k.take("x")
	for _, set := range []queue.Settlement{
		{}, {State: "nonsense"}, {State: queue.Running}, {State: queue.Sending},
		{State: queue.Expired}, {State: queue.Parked},
		{State: queue.Parked, Park: &queue.Park{Limit: hour}},
		{State: queue.Parked, Park: &queue.Park{Waits: []string{"task/f/t"}}},
	} {
		set.Grant = row.Grant()
		if err := k.settle(set)[0]; err == nil {
			k.Errorf("%q: no error", set.State)
		}
		k.wantState("x", queue.Running)
	}
	k.wantCounts()
}

func neighbours(k *kit) {
	k.append(arrival("a"), arrival("bad"), arrival("b"))
	rows := k.lease(3)
	sets := make([]queue.Settlement, 3)
	for i, row := range rows {
		sets[i] = queue.Settlement{Grant: row.Grant(), State: queue.Done,
			Effects: []queue.Arrival{effect(fmt.Sprint("effect", i))}}
	}
	sets[1].Tasks = []queue.TaskChange{{
		Task: queue.Task{Flow: flow, ID: "T", State: "s", Version: 7}, Event: "e"}}
	errs := k.settle(sets...)
	if errs[0] != nil || errs[2] != nil {
		k.Errorf("neighbours: %v, %v", errs[0], errs[2])
	}
	k.wantErr("a version that is not there", errs[1], once.ErrConflict)
	k.wantState("a", queue.Done)
	k.wantState("bad", queue.Running)
	k.wantState("b", queue.Done)
	if rows := k.all(queue.RowQuery{Kind: queue.Effect}); len(rows) != 2 {
		k.Errorf("effects: %v", names(rows))
	}
	k.wantCounts()
}

func refusedKeepsLease(k *kit) {
	k.append(ordered("x", "K"), ordered("y", "K"))
	row := k.take("x")
	if err := k.settle(queue.Settlement{Grant: row.Grant(), State: "nonsense"})[0]; err == nil {
		k.Fatal("no error")
	}
	if rows := k.lease(5); len(rows) != 0 {
		k.Errorf("its key was let go: %v", names(rows))
	}
	if err := k.s.Renew(k.ctx, []queue.Grant{row.Grant()}, time.Minute)[0]; err != nil {
		k.Errorf("renew: %v", err)
	}
	k.end(row, queue.Settlement{State: queue.Done})
	k.take("y")
}

func effectsDue(k *kit) {
	k.append(arrival("x"))
	e := effect("pulse")
	e.OrderKey, e.Resource, e.Frees, e.Task, e.Flow = "T", "station/S1", true, "T", flow
	e.Expires = hour
	k.end(k.take("x"), queue.Settlement{State: queue.Done, Effects: []queue.Arrival{e}})
	r := request(5)
	r.Lane = "effect/plc"
	rows := k.leaseBy(r).Rows
	if len(rows) != 1 {
		k.Fatalf("leased %v", names(rows))
	}
	got := rows[0]
	if got.Identity != e.Identity || got.OrderKey != "T" || got.Resource != "station/S1" ||
		!got.Frees || got.Kind != queue.Effect || string(got.Body) != "on" ||
		got.ExpiresAt.Sub(k.h.Now().Add(hour)).Abs() > time.Millisecond {
		k.Errorf("queued as %+v", got)
	}
	k.wantCounts()
}

func effectsOnce(k *kit) {
	k.append(arrival("x"), arrival("y"))
	for i, row := range k.lease(2) {
		k.end(row, queue.Settlement{State: queue.Done,
			Effects: []queue.Arrival{effect("same"), effect("same"), effect(fmt.Sprint("own", i))}})
	}
	if rows := k.all(queue.RowQuery{Kind: queue.Effect}); len(rows) != 3 {
		k.Errorf("effects: %v", names(rows))
	}
	k.wantCounts()
}

func badEffect(k *kit) {
	k.append(arrival("x"))
	row := k.take("x")
	bad := effect("bad")
	bad.Identity = once.Identity{}
	set := queue.Settlement{Grant: row.Grant(), State: queue.Done,
		Effects: []queue.Arrival{effect("good"), bad}}
	if err := k.settle(set)[0]; err == nil {
		k.Fatal("no error")
	}
	k.wantState("x", queue.Running)
	if rows := k.all(queue.RowQuery{Kind: queue.Effect}); len(rows) != 0 {
		k.Errorf("effects: %v", names(rows))
	}
}

func emptyBatch(k *kit) {
	if errs := k.settle(); len(errs) != 0 {
		k.Errorf("settle: %v", errs)
	}
	if errs := k.s.Renew(k.ctx, nil, time.Minute); len(errs) != 0 {
		k.Errorf("renew: %v", errs)
	}
	if rs, err := k.s.Append(k.ctx, nil); err != nil || len(rs) != 0 {
		k.Errorf("append: %v, %v", rs, err)
	}
}

func latestAttempts(k *kit) {
	k.append(arrival("x"))
	for i := range 60 {
		k.end(k.take("x"), queue.Settlement{State: queue.Pending, RetryIn: time.Second,
			Error: fmt.Sprint("failure ", i+1)})
		k.h.Advance(time.Second)
	}
	d := k.detail(queue.Callback, "x")
	if d.Row.Attempt != 60 || len(d.Attempts) != 50 {
		k.Fatalf("attempt %d, kept %d", d.Row.Attempt, len(d.Attempts))
	}
	for i, a := range d.Attempts {
		if a.N != i+11 || a.Error != fmt.Sprint("failure ", i+11) {
			k.Errorf("attempt %d is %+v", i, a)
		}
	}
}

func thenRuns(k *kit) {
	k.append(effect("unlock"))
	r := request(1)
	r.Lane = "effect/plc"
	row := k.leaseBy(r).Rows[0]
	var seen queue.State
	then := func(v queue.View, r queue.Row) queue.Settlement {
		seen = r.State
		res, err := v.Resource("station", "S1")
		if err != nil {
			k.Error(err)
		}
		res.Fence++
		return queue.Settlement{Resources: []queue.Resource{res},
			Effects: []queue.Arrival{effect("next")}}
	}
	k.end(row, queue.Settlement{State: queue.Done, Then: then})
	if seen != queue.Done {
		k.Errorf("Then saw state %s", seen)
	}
	k.wantNames("queued by Then", k.leaseBy(r).Rows, "next")
	page, err := k.b.Resources(k.ctx, queue.ResourceQuery{Limit: 5})
	if err != nil || len(page.Resources) != 1 || page.Resources[0].Fence != 1 {
		k.Errorf("resources %+v, %v", page, err)
	}
}

func thenFails(k *kit) {
	k.append(arrival("a"), arrival("b"), arrival("c"))
	rows := k.lease(3)
	sets := []queue.Settlement{
		{State: queue.Done, Then: func(queue.View, queue.Row) queue.Settlement { panic("then") }},
		{State: queue.Done, Then: func(queue.View, queue.Row) queue.Settlement {
			return queue.Settlement{Resources: []queue.Resource{{Kind: "s", Name: "n", Version: 9}}}
		}},
		{State: queue.Done},
	}
	for i := range sets {
		sets[i].Grant = rows[i].Grant()
		sets[i].Effects = []queue.Arrival{effect(fmt.Sprint(i))}
	}
	errs := k.settle(sets...)
	if errs[0] == nil || errors.Is(errs[0], once.ErrUnavailable) {
		k.Errorf("a panic in Then: %v", errs[0])
	}
	k.wantErr("a conflict in Then", errs[1], once.ErrConflict)
	if errs[2] != nil {
		k.Errorf("their neighbour: %v", errs[2])
	}
	k.wantState("a", queue.Running)
	k.wantState("b", queue.Running)
	k.wantState("c", queue.Done)
	k.wantNames("effects", k.all(queue.RowQuery{Kind: queue.Effect}), "2")
	k.wantCounts()
}
