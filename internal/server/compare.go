package server

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/queue"
)

// held is what is asked of a store about what it holds.
type held interface {
	// Plan returns what was last saved; nil: nothing.
	Plan(context.Context) ([]byte, error)
	Counts(context.Context) (queue.Counts, error)
	// RecordCounts counts the gateway's records in the store.
	RecordCounts(context.Context) (map[once.RecordState]int64, error)
	// EventInUse reports whether an unfinished callback has the event.
	EventInUse(ctx context.Context, flow, event string) (bool, error)
}

// comparison is a configuration beside what a store holds.
type comparison struct {
	old plan
	use config.InUse
	// found is what the file has to say more about, idle what it says of what there is not.
	found []config.Problem
	idle  []string
}

// compare compares a configuration with a store. It changes nothing.
func compare(ctx context.Context, store held, cfg *config.Config) (comparison, error) {
	var c comparison
	saved, err := store.Plan(ctx)
	if err != nil {
		return c, err
	}
	if saved != nil {
		if err := json.Unmarshal(saved, &c.old); err != nil {
			return c, fmt.Errorf("read what the store was last served with: %w", err)
		}
	}
	now := cfg.Plan()
	if c.use, err = inUse(ctx, store, c.old.Plan, now); err != nil {
		return c, err
	}
	c.found = config.ComparePlans(c.old.Plan, now, c.use, cfg.Migrate)
	for i := range c.found {
		c.found[i].File = cfg.File
	}
	c.idle = config.IdleMigrations(c.old.Plan, now, c.use, cfg.Migrate)
	return c, nil
}

// inUse counts what the store still has. It reads kept counters, and looks for events only where
// they are gone from the file.
func inUse(ctx context.Context, store held, old, now config.Plan) (config.InUse, error) {
	use := config.InUse{
		Identities: map[string]int64{}, Unfinished: map[string]int64{},
		States: map[string]map[string]int64{},
		Events: map[string]map[string]int64{}, Destinations: map[string]int64{},
	}
	counts, err := store.Counts(ctx)
	if err != nil {
		return use, err
	}
	for k, n := range counts.Rows {
		switch {
		case k.Kind == queue.Callback:
			use.Identities[k.Source] += n
			if !k.State.Final() {
				use.Unfinished[k.Source] += n
			}
		case !k.State.Final():
			use.Destinations[k.Source] += n
		}
	}
	for k, n := range counts.Tasks {
		add(use.States, k.Flow, k.State, n)
	}
	records, err := store.RecordCounts(ctx)
	if err != nil {
		return use, err
	}
	for _, n := range records {
		use.Records += n
	}
	for name, before := range old.Flows {
		for _, event := range before.Events {
			if declares(now, name, event) {
				continue
			}
			found, err := store.EventInUse(ctx, name, event)
			if err != nil {
				return use, err
			}
			if found {
				add(use.Events, name, event, 1)
			}
		}
	}
	return use, nil
}

func declares(p config.Plan, flow, event string) bool {
	for _, e := range p.Flows[flow].Events {
		if e == event {
			return true
		}
	}
	return false
}

func add(m map[string]map[string]int64, flow, name string, n int64) {
	if m[flow] == nil {
		m[flow] = map[string]int64{}
	}
	m[flow][name] += n
}
