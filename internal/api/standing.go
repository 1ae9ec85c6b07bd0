package api

import (
	"time"

	"github.com/oncekit/once/internal/wire"
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
