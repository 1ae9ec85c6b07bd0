package server

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/queue"
)

// left are the sources whose lane nobody works any more, sorted.
func left(old, now plan) []string {
	worked := map[string]bool{}
	for _, lane := range now.Lanes {
		worked[lane] = true
	}
	var list []string
	for _, source := range slices.Sorted(maps.Keys(old.Lanes)) {
		if !worked[old.Lanes[source]] {
			list = append(list, source)
		}
	}
	return list
}

// orphans are the sources that are gone from the file with callbacks that nobody would work.
func (s *Server) orphans(ctx context.Context, old, now plan) ([]config.Problem, error) {
	counts, err := s.store.Counts(ctx)
	if err != nil {
		return nil, err
	}
	pending := map[string]int64{}
	for k, n := range counts.Rows {
		if k.Kind == queue.Callback && (k.State == queue.Pending || k.State == queue.Running) {
			pending[k.Source] += n
		}
	}
	var found []config.Problem
	for _, source := range left(old, now) {
		if _, there := now.Sources[source]; there || pending[source] == 0 {
			continue
		}
		found = append(found, config.Problem{Msg: fmt.Sprintf("the source %s is gone, but "+
			"callbacks of it are pending (%d), and nobody else works them. Restore it until they "+
			"are done, or discard them through the API first", source, pending[source])})
	}
	return found, nil
}

// reroute gives the pending callbacks of sources that have another target now to that one.
func (s *Server) reroute(ctx context.Context, old, now plan) error {
	for _, source := range left(old, now) {
		if _, there := now.Sources[source]; !there {
			continue
		}
		if err := s.store.RerouteSource(ctx, source, old.Lanes[source], s.route); err != nil {
			return err
		}
	}
	return nil
}
