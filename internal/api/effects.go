package api

import (
	"encoding/json"
	"fmt"

	"github.com/oncekit/once/internal/wire"
	"github.com/oncekit/once/queue"
)

func effectOf(r *queue.Row) wire.Effect {
	return wire.Effect{
		ID: r.ID(), Destination: r.Source, Name: r.Event, Flow: r.Flow, Task: r.Task,
		Resource: r.Resource, Cause: r.Cause, State: string(r.State), Attempt: r.Attempt,
		CreatedAt: wire.Instant(r.ReceivedAt), NextTryAt: nextTry(r), Error: r.Error,
	}
}

func (a *API) listEffects(c *call) (any, error) {
	page, err := a.rows(c, queue.RowQuery{
		Kind: queue.Effect, Source: c.query["destination"], State: queue.State(c.query["state"]),
		Event: c.query["name"], Task: c.query["task"],
	})
	if err != nil {
		return nil, err
	}
	out := wire.EffectPage{Items: []wire.Effect{}, Next: c.next(page.Next)}
	for i := range page.Rows {
		out.Items = append(out.Items, effectOf(&page.Rows[i]))
	}
	return out, nil
}

func (a *API) getEffect(c *call) (any, error) {
	d, err := a.cfg.Browser.Row(c.ctx, queue.Effect, c.path["id"])
	if err != nil {
		return nil, fmt.Errorf("effect %q: %w", c.path["id"], err)
	}
	r := &d.Row
	return wire.EffectDetail{
		Effect: effectOf(r), Frees: r.Frees, DeadCause: string(r.DeadCause),
		ExpiresAt: wire.Maybe(r.ExpiresAt), StartedAt: wire.Maybe(r.StartedAt),
		FinishedAt: wire.Maybe(r.FinishedAt), Addressing: objectOf(r.Meta),
		Payload:  wire.PayloadOf(r.Body),
		Attempts: attemptsOf(d.Attempts), Audit: auditOf(d.Audit),
	}, nil
}

// objectOf returns what is stored as JSON; an empty object for anything else.
func objectOf(b []byte) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(b, &object) != nil || object == nil {
		return json.RawMessage(`{}`)
	}
	return b
}

func (a *API) retryEffect(c *call) (any, error) {
	if err := c.change("retry", &wire.Change{}); err != nil {
		return nil, err
	}
	if err := a.cfg.Operator.Retry(c.ctx, queue.Effect, c.path["id"], c.by, nil); err != nil {
		return nil, err
	}
	return made(a.getEffect(c))
}

func (a *API) discardEffect(c *call) (any, error) {
	if err := c.change("discard", &wire.Change{}); err != nil {
		return nil, err
	}
	if err := a.cfg.Operator.Discard(c.ctx, queue.Effect, c.path["id"], c.by,
		a.cfg.Engine.Acknowledged); err != nil {
		return nil, err
	}
	return made(a.getEffect(c))
}

// ackEffect says that an effect happened, with what follows from it for its resource.
func (a *API) ackEffect(c *call) (any, error) {
	if err := c.change("done", &wire.Change{}); err != nil {
		return nil, err
	}
	err := a.cfg.Operator.Acknowledge(c.ctx, c.path["id"], c.by, a.cfg.Engine.Acknowledged)
	if err != nil {
		return nil, err
	}
	return made(a.getEffect(c))
}
