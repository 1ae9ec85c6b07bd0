package api

import (
	"encoding/json"
	"fmt"

	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// task is a document of a flow with its history.
type task struct {
	ID        string          `json:"id"`
	Flow      string          `json:"flow"`
	State     string          `json:"state"`
	Version   int64           `json:"version" doc:"Counts the changes."`
	Fields    json.RawMessage `json:"fields" doc:"The task's own values, numbers exact."`
	Next      []string        `json:"next" doc:"The events that are legal now."`
	Final     bool            `json:"final" doc:"No further event is expected."`
	Gone      bool            `json:"gone" doc:"Only id, flow and state are left."`
	CreatedAt *instant        `json:"created_at"`
	SinceAt   *instant        `json:"since_at" doc:"When it came into its state."`
	UpdatedAt *instant        `json:"updated_at"`
	OverdueAt *instant        `json:"overdue_at" doc:"When it will have stood still too long."`
	History   []historyEntry  `json:"history" doc:"Earliest first; the latest 1000 changes."`
}

type historyEntry struct {
	Version  int64   `json:"version"`
	At       instant `json:"at"`
	Event    string  `json:"event" doc:"The event, overdue, or what a person did."`
	From     string  `json:"from" doc:"The state before; empty for a new task."`
	To       string  `json:"to"`
	Note     string  `json:"note" doc:"What a reader should know."`
	Actor    string  `json:"actor" doc:"Set, like reason, when a person made the change."`
	Reason   string  `json:"reason"`
	Callback string  `json:"callback" doc:"Id of the callback that caused it; empty: none."`
}

func (a *API) getTask(c *call) (any, error) {
	flow, id := c.path["flow"], c.path["id"]
	t, lines, err := a.cfg.Browser.Task(c.ctx, flow, id)
	if err != nil {
		return nil, fmt.Errorf("task %q of flow %q: %w", id, flow, err)
	}
	fields := []byte(`{}`)
	if len(t.Fields) > 0 {
		if fields, err = value.Encode(t.Fields); err != nil {
			return nil, fmt.Errorf("encode fields of a task: %w", err)
		}
	}
	out := task{
		ID: t.ID, Flow: t.Flow, State: t.State, Version: t.Version, Fields: fields,
		Next: texts(a.cfg.Engine.Legal(t)), Final: t.Final, Gone: t.Gone,
		CreatedAt: maybe(t.CreatedAt), SinceAt: maybe(t.SinceAt), UpdatedAt: maybe(t.UpdatedAt),
		OverdueAt: maybe(t.OverdueAt), History: []historyEntry{},
	}
	for _, h := range lines {
		out.History = append(out.History, historyEntry{
			Version: h.Version, At: instant(h.At), Event: h.Event, From: h.From, To: h.To,
			Note: h.Note, Actor: h.Actor, Reason: h.Reason, Callback: h.Callback,
		})
	}
	return out, nil
}

// moveTask puts a task into another state. Who and why stand in the task's history.
func (a *API) moveTask(c *call) (any, error) {
	var ch moveChange
	if err := c.change("move", &ch); err != nil {
		return nil, err
	}
	if ch.To == "" {
		return nil, missing("to")
	}
	err := a.cfg.Transactor.Transact(c.ctx, func(v queue.View) (queue.Settlement, error) {
		s, err := a.cfg.Engine.Move(v, c.path["flow"], c.path["id"], ch.To, c.by)
		return s, refused(err)
	})
	if err != nil {
		return nil, err
	}
	return made(a.getTask(c))
}
