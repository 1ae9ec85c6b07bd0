package server

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/queue"
)

// route says who works a stored callback by today's configuration: a person wants it tried again,
// or accepted a later content of it.
func (s *Server) route(row queue.Row) (queue.Arrival, error) { return s.routeAs(row, nil) }

// routeAs is route with events that have another name by now: rename gets the flow and the old one.
func (s *Server) routeAs(row queue.Row, rename func(flow, event string) string,
) (queue.Arrival, error) {
	src := s.sources[row.Source]
	if src == nil {
		return queue.Arrival{}, fmt.Errorf("source %s is not in the configuration any more: %w",
			row.Source, once.ErrState)
	}
	if row.Body == nil {
		return queue.Arrival{}, fmt.Errorf("its body was swept: %w", once.ErrState)
	}
	m, err := inbox.StoredMessage(src, &row, config.MaxDepth)
	if err != nil {
		return queue.Arrival{}, err
	}
	event := ""
	if src.Event != nil {
		if event, err = src.Event(m); err != nil {
			return queue.Arrival{}, fmt.Errorf("event: %w", err)
		}
	}
	r, err := src.Route(m, event)
	if rename != nil && err == nil && r.Flow != "" {
		event = rename(r.Flow, event)
		r, err = src.Route(m, event)
	}
	if err != nil {
		return queue.Arrival{}, err
	}
	a := queue.Arrival{
		Kind: queue.Callback, State: queue.Pending, Lane: r.Lane, OrderKey: r.OrderKey,
		Source: src.Name, Event: event, Flow: r.Flow, Task: r.Task, Key: row.Key,
		TraceParent: row.TraceParent, TraceState: row.TraceState,
		Meta: row.Meta, Body: row.Body,
		Retention: src.Retention, KeepBody: src.KeepBody,
	}
	if r.Unrouted {
		a.State = queue.Unrouted
	}
	return a, nil
}

// lowerNames gives headers the names by which expressions know them.
func lowerNames(h http.Header) map[string][]string {
	out := make(map[string][]string, len(h))
	for name, values := range h {
		out[strings.ToLower(name)] = values
	}
	return out
}
