package api

import "time"

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

type destination struct {
	Name        string   `json:"name"`
	Kind        string   `json:"kind" doc:"mqtt, http or log."`
	Open        bool     `json:"open" doc:"Effects are sent; else they stay pending, untried."`
	Reason      string   `json:"reason" doc:"Why it is not open; empty: it is."`
	PausedSince *instant `json:"paused_since" doc:"When the destination refused us (401, 403)."`
}

type destinationList struct {
	Items []destination `json:"items" doc:"In the order of the configuration."`
}

func (a *API) listDestinations(*call) (any, error) {
	out := destinationList{Items: []destination{}}
	for _, d := range a.cfg.Destinations() {
		one := destination{Name: d.Name, Kind: d.Kind, Open: d.Open, Reason: d.Reason}
		if !d.PausedSince.IsZero() {
			since := instant(d.PausedSince)
			one.PausedSince = &since
		}
		out.Items = append(out.Items, one)
	}
	return out, nil
}
