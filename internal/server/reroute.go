package server

import (
	"context"
	"maps"
	"slices"
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

// reroute gives the pending callbacks of sources that have another target now to that one. Those of
// sources that are gone went elsewhere by then, as the file says.
func (s *Server) reroute(ctx context.Context, old, now plan) error {
	for _, source := range left(old, now) {
		if _, there := now.Sources[source]; !there {
			continue
		}
		n, err := s.store.RerouteSource(ctx, source, old.Lanes[source], s.route)
		if err := s.migrated(err, n, "gave", "callback", "of source %s to its new target",
			source); err != nil {
			return err
		}
	}
	return nil
}
