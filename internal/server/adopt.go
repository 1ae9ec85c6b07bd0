package server

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/oncekit/once/flow"
	"github.com/oncekit/once/internal/config"
)

// plan is what is kept of a configuration, to be compared with the next one.
type plan struct {
	config.Plan
	// Lanes are where the callbacks of each source wait, Feeds the flows of those that a flow
	// works.
	Lanes map[string]string `json:"lanes,omitempty"`
	Feeds map[string]string `json:"feeds,omitempty"`
}

func (s *Server) plan() plan {
	p := plan{Plan: s.cfg.Plan(), Lanes: map[string]string{}, Feeds: map[string]string{}}
	for _, src := range s.cfg.SourceSettings {
		if src.Handler != nil {
			p.Lanes[src.Name] = src.Handler.Lane
		} else {
			p.Lanes[src.Name], p.Feeds[src.Name] = flow.Lane, src.Flow
		}
	}
	return p
}

// adopt compares the configuration with what the store holds, carries out what the file says under
// `migrate`, and refuses what it leaves open. Records that aren't in the store are opened between:
// nothing is changed if they can't be.
func (s *Server) adopt(ctx context.Context) error {
	c, err := compare(ctx, s.store, s.cfg)
	if err != nil {
		return err
	}
	if len(c.found) > 0 {
		if s.opts.NoFile {
			c.found[0].Msg += ". Flags alone have no `migrate`: write a file, or use another" +
				" --store"
		}
		return &config.Error{Problems: c.found}
	}
	for _, what := range c.idle {
		s.log.Warn("migrate: " + what)
	}
	now := s.plan()
	if now.Gateway == nil { // its records stay, and it may come back
		now.Gateway = c.old.Gateway
	}
	if err := s.openRecords(ctx); err != nil { // before the plan says that they are there
		return err
	}
	if m := s.cfg.Migrate.Gateway; (m.Scope || m.Records) && !c.old.Gateway.Same(now.Gateway) {
		s.log.Warn("migrate: every key of the gateway counts as new: its scope, or the place of" +
			" its records, is another one")
	}
	if err := s.migrate(ctx, c.use); err != nil {
		return fmt.Errorf("migrate the store: %w", err)
	}
	if err := s.reroute(ctx, c.old, now); err != nil {
		return fmt.Errorf("migrate the store: %w", err)
	}
	b, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return s.store.SavePlan(ctx, b)
}
