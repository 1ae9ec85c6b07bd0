package server

import (
	"context"
	"fmt"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/queue"
)

// discard is what the file says of what is given up.
const discard = "discard"

// discarded is the reason that is kept with what a migration gives up.
const discarded = "discarded by `migrate` in the configuration"

// migrate carries out what the file says about things that it no longer names. Sources come first:
// a callback that is worked as another source's is one of that source's flow from then on.
func (s *Server) migrate(ctx context.Context, use config.InUse) error {
	for from, to := range s.cfg.Migrate.Sources {
		if err := s.migrateSource(ctx, from, to); err != nil {
			return err
		}
	}
	for flow, m := range s.cfg.Migrate.Flows {
		if err := s.migrateFlow(ctx, flow, m, use); err != nil {
			return err
		}
	}
	for from, to := range s.cfg.Migrate.Destinations {
		if to == discard {
			n, err := s.store.DiscardDestination(ctx, from, discarded, s.engine.Acknowledged)
			err = s.migrated(err, n, "discarded", "effect", "of destination %s", from)
			if err != nil {
				return err
			}
			continue
		}
		n, err := s.store.RenameDestination(ctx, from, to, queue.EffectLane(to))
		err = s.migrated(err, n, "moved", "effect", "from destination %s to %s", from, to)
		if err != nil {
			return err
		}
	}
	return nil
}

// migrated logs what a migration did, if it did something: "moved 32 tasks of flow …".
func (s *Server) migrated(err error, n int64, did, what, format string, names ...any) error {
	if n > 1 {
		what += "s"
	}
	if err == nil && n > 0 {
		s.log.Info(fmt.Sprintf("migrate: %s %d %s ", did, n, what) + fmt.Sprintf(format, names...))
	}
	return err
}

func (s *Server) migrateSource(ctx context.Context, from, to string) error {
	if to == discard {
		n, err := s.store.DiscardSource(ctx, from, discarded)
		return s.migrated(err, n, "discarded", "unfinished callback", "of source %s", from)
	}
	n, err := s.store.MoveSource(ctx, from, to, func(row queue.Row) (queue.Arrival, error) {
		return s.routeAs(row, s.renamedEvent)
	})
	return s.migrated(err, n, "moved", "callback", "from source %s to %s", from, to)
}

// renamedEvent is the new name of an event of a flow.
func (s *Server) renamedEvent(flow, event string) string {
	if to := s.cfg.Migrate.Flows[flow].Events[event]; to != "" && to != discard {
		return to
	}
	return event
}

func (s *Server) migrateFlow(ctx context.Context, flow string, m config.FlowMigration,
	use config.InUse,
) error {
	for from, to := range m.States {
		by := queue.Action{Actor: "migrate", Reason: "the flow has no state " + from + " any more"}
		n, err := s.store.MoveTasks(ctx, flow, from,
			func(v queue.View, t queue.Task) (queue.Settlement, error) {
				return s.engine.Move(v, flow, t.ID, to, by)
			})
		err = s.migrated(err, n, "moved", "task", "of flow %s from state %s to %s", flow, from, to)
		if err != nil {
			return err
		}
	}
	events := m.Events
	if m.Discard {
		n, err := s.store.DiscardFlow(ctx, flow, s.engine.GiveUp)
		if err := s.migrated(err, n, "discarded", "task", "of flow %s", flow); err != nil {
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
	return nil
}

func (s *Server) migrateEvent(ctx context.Context, flow, from, to string) error {
	if to == discard {
		n, err := s.store.DiscardEvent(ctx, flow, from, discarded)
		return s.migrated(err, n, "discarded", "callback", "of flow %s with event %s", flow, from)
	}
	n, err := s.store.RenameEvent(ctx, flow, from, to)
	return s.migrated(err, n, "gave", "callback", "of flow %s with event %s the event %s", flow,
		from, to)
}
