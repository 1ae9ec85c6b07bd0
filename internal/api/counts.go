package api

import (
	"cmp"
	"slices"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/wire"
	"github.com/oncekit/once/queue"
)

// counts tells the counters that the store keeps: the same as the gauges under /metrics.
func (a *API) counts(c *call) (any, error) {
	kept, err := a.cfg.Browser.Counts(c.ctx)
	if err != nil {
		return nil, err
	}
	out := wire.Counts{Callbacks: []wire.CallbackCount{}, Effects: []wire.EffectCount{},
		Tasks: []wire.TaskCount{}, Records: a.recordCounts()}
	for of, n := range kept.Rows {
		switch {
		case n == 0:
		case of.Kind == queue.Effect:
			out.Effects = append(out.Effects,
				wire.EffectCount{Destination: of.Source, State: string(of.State), N: n})
		default:
			out.Callbacks = append(out.Callbacks,
				wire.CallbackCount{Source: of.Source, State: string(of.State), N: n})
		}
	}
	for of, n := range kept.Tasks {
		if n != 0 {
			out.Tasks = append(out.Tasks, wire.TaskCount{Flow: of.Flow, State: of.State, N: n})
		}
	}
	slices.SortFunc(out.Callbacks, func(a, b wire.CallbackCount) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source),
			byPlace(queue.Callback, a.State, b.State))
	})
	slices.SortFunc(out.Effects, func(a, b wire.EffectCount) int {
		return cmp.Or(cmp.Compare(a.Destination, b.Destination),
			byPlace(queue.Effect, a.State, b.State))
	})
	slices.SortFunc(out.Tasks, func(a, b wire.TaskCount) int {
		return cmp.Or(cmp.Compare(a.Flow, b.Flow), cmp.Compare(a.State, b.State))
	})
	return out, nil
}

// recordCounts tells what needs a person first.
func (a *API) recordCounts() []wire.RecordCount {
	out := []wire.RecordCount{}
	if a.cfg.Records == nil || a.cfg.Records.Counts == nil {
		return out
	}
	kept := a.cfg.Records.Counts()
	for _, state := range []once.RecordState{once.Held, once.Lost, once.InFlight, once.Completed,
		once.Released} {
		if n := kept[state]; n != 0 {
			out = append(out, wire.RecordCount{State: string(state), N: n})
		}
	}
	return out
}

// byPlace compares states by the order in which people read them.
func byPlace(k queue.Kind, a, b string) int {
	list := queue.States(k)
	return cmp.Compare(slices.Index(list, queue.State(a)), slices.Index(list, queue.State(b)))
}
