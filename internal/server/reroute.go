package server

import (
	"context"
	"maps"
	"slices"
)

// rerouted are the sources whose callbacks wait elsewhere now than when the store was last served,
// sorted. Those of sources that are gone went elsewhere by then, as the file says.
func rerouted(old, now plan) []string {
	var list []string
	for _, source := range slices.Sorted(maps.Keys(old.Lanes)) {
		lane, there := now.Lanes[source]
		if there && (lane != old.Lanes[source] || now.Feeds[source] != old.Feeds[source]) {
			list = append(list, source)
		}
	}
	return list
}

// reroute gives the pending callbacks of sources that have another target now to that one.
func (s *Server) reroute(ctx context.Context, old, now plan) error {
	for _, source := range rerouted(old, now) {
		n, err := s.store.RerouteSource(ctx, source, old.Lanes[source], old.Feeds[source], s.route)
		if err := s.migrated(err, n, "gave", "callback", "of source %s to its new target",
			source); err != nil {
			return err
		}
	}
	return nil
}
