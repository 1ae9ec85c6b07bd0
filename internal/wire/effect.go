package wire

import "encoding/json"

// Effect is one line of the list of effects.
type Effect struct {
	ID          string   `json:"id" doc:"Public id; the Idempotency-Key of every try."`
	Destination string   `json:"destination"`
	Name        string   `json:"name"`
	Flow        string   `json:"flow"`
	Task        string   `json:"task" doc:"The task that it comes from; empty: none."`
	Resource    string   `json:"resource" doc:"kind/name that it is about; empty: none."`
	Cause       string   `json:"cause" doc:"Id of the callback, task/FLOW/ID, or person."`
	State       string   `json:"state" enum:"effect"`
	Attempt     int      `json:"attempt" doc:"Tries so far, the running one included."`
	CreatedAt   Instant  `json:"created_at"`
	NextTryAt   *Instant `json:"next_try_at"`
	Error       string   `json:"error" doc:"The reason for the state; empty: none."`
}

// EffectPage is a page of effects.
type EffectPage struct {
	Items []Effect `json:"items" doc:"Latest first."`
	Next  string   `json:"next" doc:"Cursor of the next page; empty: there is none."`
}

// EffectDetail is an effect with everything that is kept about it.
type EffectDetail struct {
	Effect
	Frees      bool            `json:"frees" doc:"Its acknowledgement sets its resource free."`
	DeadCause  string          `json:"dead_cause" enum:"cause" doc:"Why it is dead, or empty."`
	ExpiresAt  *Instant        `json:"expires_at" doc:"It is not sent later than this."`
	StartedAt  *Instant        `json:"started_at" doc:"Start of the last try."`
	FinishedAt *Instant        `json:"finished_at"`
	Addressing json.RawMessage `json:"addressing" doc:"Topic, path, headers; what it needs."`
	Payload
	Attempts []Attempt `json:"attempts" doc:"The latest tries, earliest first."`
	Audit    []Action  `json:"audit" doc:"What people did to it, earliest first."`
}

// Destination is how a destination stands.
type Destination struct {
	Name        string   `json:"name"`
	Kind        string   `json:"kind" doc:"mqtt, http or log."`
	Open        bool     `json:"open" doc:"Effects are sent; else they stay pending, untried."`
	Reason      string   `json:"reason" doc:"Why it is not open; empty: it is."`
	PausedSince *Instant `json:"paused_since" doc:"When the destination refused us (401, 403)."`
}

// DestinationList are all destinations.
type DestinationList struct {
	Items []Destination `json:"items" doc:"In the order of the configuration."`
}

// Source is how a source stands.
type Source struct {
	Name        string   `json:"name"`
	To          string   `json:"to" doc:"flow/NAME, handler/NAME, document/DATABASE/NAME or http."`
	Open        bool     `json:"open" doc:"Callbacks are worked; else they stay pending, untried."`
	Reason      string   `json:"reason" doc:"Why it is not open; empty: it is."`
	PausedSince *Instant `json:"paused_since" doc:"When the service or database refused us."`
}

// SourceList are all sources.
type SourceList struct {
	Items []Source `json:"items" doc:"In the order of the configuration."`
}

// Node is a process that serves the store.
type Node struct {
	Name      string    `json:"name" doc:"Its host, its process, what tells it from others."`
	State     string    `json:"state" doc:"alive; silent: no sign of life; ended: closed in order."`
	StartedAt *Instant  `json:"started_at" doc:"By the store's clock, as seen_at."`
	SeenAt    Instant   `json:"seen_at" doc:"Its last sign of life."`
	Works     []InHands `json:"works" doc:"What it has in hand, the longest first; at most 20."`
	More      bool      `json:"more" doc:"It has more in its hands than is listed."`
}

// InHands is a callback or an effect that a node works.
type InHands struct {
	Kind    string   `json:"kind" doc:"callback or effect."`
	ID      string   `json:"id"`
	Source  string   `json:"source" doc:"Of an effect its destination."`
	Event   string   `json:"event" doc:"Of an effect its name."`
	Task    string   `json:"task"`
	Attempt int      `json:"attempt"`
	Since   *Instant `json:"since"`
}

// NodeList are the processes that serve the store.
type NodeList struct {
	Items []Node `json:"items" doc:"The eldest first."`
}

// Counts are the counters that the store keeps. What there is none of is left out.
type Counts struct {
	Callbacks []CallbackCount `json:"callbacks" doc:"By source, then state."`
	Effects   []EffectCount   `json:"effects" doc:"By destination, then state."`
	Tasks     []TaskCount     `json:"tasks" doc:"By flow, then state. Tombstones don't count."`
	Records   []RecordCount   `json:"records" doc:"By state, held first; none over a database."`
}

// RecordCount is how many records of guarded requests are in a state.
type RecordCount struct {
	State string `json:"state" enum:"record"`
	N     int64  `json:"n"`
}

// CallbackCount is how many callbacks of a source are in a state.
type CallbackCount struct {
	Source string `json:"source"`
	State  string `json:"state" enum:"callback"`
	N      int64  `json:"n"`
}

// EffectCount is how many effects to a destination are in a state.
type EffectCount struct {
	Destination string `json:"destination"`
	State       string `json:"state" enum:"effect"`
	N           int64  `json:"n"`
}

// TaskCount is how many tasks of a flow are in a state.
type TaskCount struct {
	Flow  string `json:"flow"`
	State string `json:"state"`
	N     int64  `json:"n"`
}
