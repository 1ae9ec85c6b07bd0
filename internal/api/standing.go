package api

import (
	"net/http"
	"time"

	"github.com/oncekit/once/internal/wire"
	"github.com/oncekit/once/queue"
)

// Destination is how a destination stands at the moment.
type Destination struct {
	Name string
	// Kind is mqtt, http or log.
	Kind string
	// Open is true while effects are sent.
	Open bool
	// Reason why it is not open, for people; empty while it is.
	Reason string
	// PausedSince is when the destination refused us; zero: it does not.
	PausedSince time.Time
}

// Source is how a source stands at the moment.
type Source struct {
	Name string
	// To is who works its callbacks: flow/NAME, handler/NAME, document/DATABASE/COLLECTION or http.
	To string
	// Reason why its callbacks wait, for people; empty: they are worked.
	Reason string
	// PausedSince is when their service or database refused us; zero: it does not.
	PausedSince time.Time
}

func (a *API) listDestinations(*call) (any, error) {
	out := wire.DestinationList{Items: []wire.Destination{}}
	for _, d := range a.cfg.Destinations() {
		out.Items = append(out.Items, wire.Destination{Name: d.Name, Kind: d.Kind, Open: d.Open,
			Reason: d.Reason, PausedSince: wire.Maybe(d.PausedSince)})
	}
	return out, nil
}

func (a *API) listSources(*call) (any, error) {
	out := wire.SourceList{Items: []wire.Source{}}
	for _, s := range a.cfg.Sources() {
		out.Items = append(out.Items, wire.Source{Name: s.Name, To: s.To, Open: s.Reason == "",
			Reason: s.Reason, PausedSince: wire.Maybe(s.PausedSince)})
	}
	return out, nil
}

func (a *API) listNodes(c *call) (any, error) {
	if a.cfg.Nodes == nil {
		return nil, problemf(http.StatusNotFound, "the store does not tell who serves it")
	}
	list, err := a.cfg.Nodes.Nodes(c.ctx)
	if err != nil {
		return nil, err
	}
	out := wire.NodeList{Items: []wire.Node{}}
	for i := range list {
		out.Items = append(out.Items, nodeOf(&list[i]))
	}
	return out, nil
}

func nodeOf(n *queue.Node) wire.Node {
	out := wire.Node{Name: n.Name, State: string(n.State), StartedAt: wire.Maybe(n.StartedAt),
		SeenAt: wire.Instant(n.SeenAt), Works: []wire.InHands{}, More: n.More}
	for i := range n.Rows {
		r := &n.Rows[i]
		out.Works = append(out.Works, wire.InHands{Kind: r.Kind.String(), ID: r.ID(),
			Source: r.Source, Event: r.Event, Task: r.Task, Attempt: r.Attempt,
			Since: wire.Maybe(r.StartedAt)})
	}
	return out
}
