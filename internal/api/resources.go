package api

import (
	"fmt"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/wire"
	"github.com/oncekit/once/queue"
)

func resourceOf(r *queue.Resource) wire.Resource {
	out := wire.Resource{Kind: r.Kind, Name: r.Name, Fence: r.Fence, Since: wire.Instant(r.SinceAt),
		Freeing: r.Freeing}
	if r.Flow != "" || r.Task != "" {
		out.Owner = &wire.Owner{Flow: r.Flow, Task: r.Task}
	}
	return out
}

func (a *API) listResources(c *call) (any, error) {
	cursor, err := c.cursor()
	if err != nil {
		return nil, err
	}
	page, err := a.cfg.Browser.Resources(c.ctx, queue.ResourceQuery{
		Kind: c.query["kind"], Limit: c.limit(), Cursor: cursor,
	})
	if err != nil {
		return nil, err
	}
	out := wire.ResourcePage{Items: []wire.ListedResource{}, Next: c.next(page.Next)}
	for i := range page.Resources {
		r := &page.Resources[i]
		out.Items = append(out.Items, wire.ListedResource{
			Resource: resourceOf(&r.Resource), Waiting: r.Waiting})
	}
	return out, nil
}

func (a *API) releaseResource(c *call) (any, error) {
	var ch wire.ReleaseChange
	if err := c.change("release", &ch); err != nil {
		return nil, err
	}
	return a.changeResource(c, ch.From, func(v queue.View) (queue.Settlement, error) {
		return a.cfg.Engine.ReleaseResource(v, c.path["kind"], c.path["name"], c.by)
	})
}

func (a *API) transferResource(c *call) (any, error) {
	var ch wire.TransferChange
	if err := c.change("transfer", &ch); err != nil {
		return nil, err
	}
	if ch.To == nil || ch.To.Flow == "" || ch.To.Task == "" {
		return nil, missing(`to: {"flow": …, "task": …}`)
	}
	return a.changeResource(c, ch.From, func(v queue.View) (queue.Settlement, error) {
		return a.cfg.Engine.TransferResource(v, c.path["kind"], c.path["name"], ch.To.Flow,
			ch.To.Task, c.by)
	})
}

// changeResource decides inside the store's transaction and returns the resource as the decision
// leaves it. The histories of the tasks concerned say who did it and why; since a resource may have
// none, the action is recorded under the resource too. With from nothing is done if another task
// has it by now.
func (a *API) changeResource(c *call, from *wire.Owner,
	decide func(queue.View) (queue.Settlement, error)) (any, error) {
	kind, name := c.path["kind"], c.path["name"]
	var after queue.Resource
	err := a.cfg.Transactor.Transact(c.ctx, func(v queue.View) (queue.Settlement, error) {
		if err := ownedBy(v, kind, name, from); err != nil {
			return queue.Settlement{}, refused(err)
		}
		s, err := decide(v)
		if err != nil {
			return s, refused(err)
		}
		for _, r := range s.Resources {
			if r.Kind == kind && r.Name == name {
				after = r
				return s, nil
			}
		}
		return s, fmt.Errorf("resource %s/%s stays as it is: %w", kind, name, once.ErrState)
	})
	if err != nil {
		return nil, err
	}
	return resourceOf(&after), nil
}

// ownedBy refuses a change of a resource that another task has than the one that is meant. Nil:
// any.
func ownedBy(v queue.View, kind, name string, from *wire.Owner) error {
	if from == nil {
		return nil
	}
	r, err := v.Resource(kind, name)
	if err != nil {
		return err
	}
	if r.Flow == from.Flow && r.Task == from.Task {
		return nil
	}
	has := "nobody has it"
	if r.Task != "" {
		has = "task " + r.Flow + "/" + r.Task + " has it"
	}
	return fmt.Errorf("resource %s/%s: %s, not task %s/%s: %w", kind, name, has, from.Flow,
		from.Task, once.ErrState)
}
