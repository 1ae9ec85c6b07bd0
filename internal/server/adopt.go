package server

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/queue"
)

// plan is what is kept of a configuration, to be compared with the next one.
type plan struct {
	config.Plan
	// Lanes are those of the sources that are worked by handlers.
	Lanes map[string]string `json:"lanes,omitempty"`
}

func (s *Server) plan() plan {
	p := plan{Plan: s.cfg.Plan(), Lanes: map[string]string{}}
	for _, src := range s.cfg.SourceSettings {
		if src.Handler != nil {
			p.Lanes[src.Name] = src.Handler.Lane
		}
	}
	return p
}

// adopt compares the configuration with what the store holds, carries out what the file says under
// `migrate`, and refuses what it leaves open.
func (s *Server) adopt(ctx context.Context) error {
	now := s.plan()
	saved, err := s.store.Plan(ctx)
	if err != nil {
		return err
	}
	if saved != nil {
		var old plan
		if err := json.Unmarshal(saved, &old); err != nil {
			return fmt.Errorf("read what the store was last served with: %w", err)
		}
		use, err := s.inUse(ctx, old.Plan, now.Plan)
		if err != nil {
			return err
		}
		found := config.ComparePlans(old.Plan, now.Plan, use, s.cfg.Migrate)
		orphans, err := s.orphans(ctx, old, now)
		if err != nil {
			return err
		}
		if found = append(found, orphans...); len(found) > 0 {
			for i := range found {
				found[i].File = s.cfg.File
			}
			return &config.Error{Problems: found}
		}
		if err := s.migrate(ctx, use); err != nil {
			return fmt.Errorf("migrate the store: %w", err)
		}
		if err := s.reroute(ctx, old, now); err != nil {
			return fmt.Errorf("migrate the store: %w", err)
		}
	}
	b, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return s.store.SavePlan(ctx, b)
}

// inUse counts what the store still has. It reads kept counters, and looks for events only where
// they are gone from the file.
func (s *Server) inUse(ctx context.Context, old, now config.Plan) (config.InUse, error) {
	use := config.InUse{
		Identities: map[string]int64{}, States: map[string]map[string]int64{},
		Events: map[string]map[string]int64{}, Destinations: map[string]int64{},
	}
	counts, err := s.store.Counts(ctx)
	if err != nil {
		return use, err
	}
	for k, n := range counts.Rows {
		switch {
		case k.Kind == queue.Callback:
			use.Identities[k.Source] += n
		case !k.State.Final():
			use.Destinations[k.Source] += n
		}
	}
	for k, n := range counts.Tasks {
		add(use.States, k.Flow, k.State, n)
	}
	for name, before := range old.Flows {
		for _, event := range before.Events {
			if declares(now, name, event) {
				continue
			}
			found, err := s.store.EventInUse(ctx, name, event)
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

// discard is what the file says of what is given up.
const discard = "discard"

// discarded is the reason that is kept with what a migration gives up.
const discarded = "discarded by `migrate` in the configuration"

// migrate carries out what the file says about things that it no longer names.
func (s *Server) migrate(ctx context.Context, use config.InUse) error {
	for flow, m := range s.cfg.Migrate.Flows {
		for from, to := range m.States {
			if err := s.store.RenameState(ctx, flow, from, to); err != nil {
				return err
			}
		}
		events := m.Events
		if m.Discard {
			if err := s.store.DiscardFlow(ctx, flow); err != nil {
				return err
			}
			events = map[string]string{}
			for event := range use.Events[flow] {
				events[event] = discard
			}
		}
		for from, to := range events {
			if err := s.migrateEvent(ctx, flow, from, to); err != nil {
				return err
			}
		}
	}
	for from, to := range s.cfg.Migrate.Destinations {
		var err error
		if to == discard {
			err = s.store.DiscardDestination(ctx, from, discarded)
		} else {
			err = s.store.RenameDestination(ctx, from, to, queue.EffectLane(to))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) migrateEvent(ctx context.Context, flow, from, to string) error {
	if to == discard {
		return s.store.DiscardEvent(ctx, flow, from, discarded)
	}
	return s.store.RenameEvent(ctx, flow, from, to)
}
