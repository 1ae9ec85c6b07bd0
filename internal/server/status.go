package server

import "github.com/oncekit/once/internal/api"

// isOpen tells the metrics to which destinations effects are sent.
func (s *Server) isOpen() map[string]bool {
	out := make(map[string]bool, len(s.destinations))
	for _, d := range s.destinations {
		out[d.Name] = d.Open()
	}
	return out
}

// isPaused tells the metrics of which sources the service or the database refuses us.
func (s *Server) isPaused() map[string]bool {
	out := make(map[string]bool, len(s.services))
	for source, h := range s.services {
		_, out[source] = h.Paused()
	}
	return out
}

// standing tells the operator how the sources stand.
func (s *Server) standing() []api.Source {
	out := make([]api.Source, len(s.cfg.SourceSettings))
	for i, src := range s.cfg.SourceSettings {
		out[i] = api.Source{Name: src.Name, To: "flow/" + src.Flow}
		switch {
		case src.Handler != nil && src.Handler.HTTP != nil:
			out[i].To = "http"
		case src.Handler != nil && src.Handler.Document != nil:
			d := src.Handler.Document
			out[i].To = "document/" + d.Database + "/" + d.Target.Name
		case src.Handler != nil:
			out[i].To = "handler/" + src.Handler.Name
		}
		if h := s.services[src.Name]; h != nil {
			if p, paused := h.Paused(); paused {
				out[i].Reason, out[i].PausedSince = p.Reason, p.Since
			}
		}
	}
	return out
}

// status tells the operator how the destinations stand.
func (s *Server) status() []api.Destination {
	out := make([]api.Destination, len(s.destinations))
	for i, d := range s.destinations {
		out[i] = api.Destination{Name: d.Name, Kind: s.cfg.Destinations[i].Kind(), Open: d.Open()}
		if err := d.Err(); err != nil {
			out[i].Reason = err.Error()
		}
		if p, paused := d.Paused(); paused {
			out[i].PausedSince = p.Since
		}
	}
	return out
}
