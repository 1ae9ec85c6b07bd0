package api

import (
	"fmt"

	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/internal/wire"
	"github.com/oncekit/once/queue"
)

func (a *API) listTasks(c *call) (any, error) {
	cursor, err := c.cursor()
	if err != nil {
		return nil, err
	}
	page, err := a.cfg.Browser.Tasks(c.ctx, queue.TaskQuery{Flow: c.query["flow"],
		State: c.query["state"], Limit: c.limit(), Cursor: cursor})
	if err != nil {
		return nil, err
	}
	out := wire.TaskPage{Items: []wire.ListedTask{}, Next: c.next(page.Next)}
	for i := range page.Tasks {
		t := &page.Tasks[i]
		out.Items = append(out.Items, wire.ListedTask{
			ID: t.ID, Flow: t.Flow, State: t.State, Version: t.Version, Final: t.Final,
			CreatedAt: wire.Maybe(t.CreatedAt), SinceAt: wire.Maybe(t.SinceAt),
			UpdatedAt: wire.Maybe(t.UpdatedAt), OverdueAt: wire.Maybe(t.OverdueAt),
		})
	}
	return out, nil
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
	out := wire.Task{
		ID: t.ID, Flow: t.Flow, State: t.State, Version: t.Version, Fields: fields,
		Next: texts(a.cfg.Engine.Legal(t)), Final: t.Final, Gone: t.Gone,
		CreatedAt: wire.Maybe(t.CreatedAt), SinceAt: wire.Maybe(t.SinceAt),
		UpdatedAt: wire.Maybe(t.UpdatedAt), OverdueAt: wire.Maybe(t.OverdueAt),
		History: []wire.HistoryEntry{},
	}
	for _, h := range lines {
		out.History = append(out.History, wire.HistoryEntry{
			Version: h.Version, At: wire.Instant(h.At), Event: h.Event, From: h.From, To: h.To,
			Note: h.Note, Actor: h.Actor, Reason: h.Reason, Callback: h.Callback,
		})
	}
	return out, nil
}

// moveTask puts a task into another state. Who and why stand in the task's history.
func (a *API) moveTask(c *call) (any, error) {
	var ch wire.MoveChange
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
