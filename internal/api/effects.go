package api

import (
	"encoding/json"
	"fmt"

	"github.com/oncekit/once/queue"
)

// effect is one line of the list of effects.
type effect struct {
	ID          string   `json:"id" doc:"Public id; the Idempotency-Key of every try."`
	Destination string   `json:"destination"`
	Name        string   `json:"name"`
	Flow        string   `json:"flow"`
	Task        string   `json:"task" doc:"The task that it comes from; empty: none."`
	Resource    string   `json:"resource" doc:"kind/name that it is about; empty: none."`
	Cause       string   `json:"cause" doc:"Id of the callback, task/FLOW/ID, or person."`
	State       string   `json:"state" enum:"effect"`
	Attempt     int      `json:"attempt" doc:"Tries so far, the running one included."`
	CreatedAt   instant  `json:"created_at"`
	NextTryAt   *instant `json:"next_try_at"`
	Error       string   `json:"error" doc:"The reason for the state; empty: none."`
}

type effectPage struct {
	Items []effect `json:"items" doc:"Latest first."`
	Next  string   `json:"next" doc:"Cursor of the next page; empty: there is none."`
}

// effectDetail is an effect with everything that is kept about it.
type effectDetail struct {
	effect
	Frees      bool            `json:"frees" doc:"Its acknowledgement sets its resource free."`
	DeadCause  string          `json:"dead_cause" enum:"cause" doc:"Why it is dead, or empty."`
	ExpiresAt  *instant        `json:"expires_at" doc:"It is not sent later than this."`
	StartedAt  *instant        `json:"started_at" doc:"Start of the last try."`
	FinishedAt *instant        `json:"finished_at"`
	Addressing json.RawMessage `json:"addressing" doc:"Topic, path, headers; what it needs."`
	Payload
	Attempts []attempt `json:"attempts" doc:"The latest tries, earliest first."`
	Audit    []action  `json:"audit" doc:"What people did to it, earliest first."`
}

func effectOf(r *queue.Row) effect {
	return effect{
		ID: r.ID(), Destination: r.Source, Name: r.Event, Flow: r.Flow, Task: r.Task,
		Resource: r.Resource, Cause: r.Cause, State: string(r.State), Attempt: r.Attempt,
		CreatedAt: instant(r.ReceivedAt), NextTryAt: nextTry(r), Error: r.Error,
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
	out := effectPage{Items: []effect{}, Next: c.next(page.Next)}
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
	return effectDetail{
		effect: effectOf(r), Frees: r.Frees, DeadCause: string(r.DeadCause),
		ExpiresAt: maybe(r.ExpiresAt), StartedAt: maybe(r.StartedAt),
		FinishedAt: maybe(r.FinishedAt), Addressing: objectOf(r.Meta), Payload: payload(r.Body),
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
	if err := c.change("retry", &Change{}); err != nil {
		return nil, err
	}
	if err := a.cfg.Operator.Retry(c.ctx, queue.Effect, c.path["id"], c.by, nil); err != nil {
		return nil, err
	}
	return made(a.getEffect(c))
}

func (a *API) discardEffect(c *call) (any, error) {
	if err := c.change("discard", &Change{}); err != nil {
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
	if err := c.change("done", &Change{}); err != nil {
		return nil, err
	}
	err := a.cfg.Operator.Acknowledge(c.ctx, c.path["id"], c.by, a.cfg.Engine.Acknowledged)
	if err != nil {
		return nil, err
	}
	return made(a.getEffect(c))
}
