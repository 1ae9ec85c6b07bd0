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
	if err := c.change("release", &wire.Change{}); err != nil {
		return nil, err
	}
	return a.changeResource(c, func(v queue.View) (queue.Settlement, error) {
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
	return a.changeResource(c, func(v queue.View) (queue.Settlement, error) {
		return a.cfg.Engine.TransferResource(v, c.path["kind"], c.path["name"], ch.To.Flow,
			ch.To.Task, c.by)
	})
}

// changeResource decides inside the store's transaction and returns the resource as the decision
// leaves it. The histories of the tasks concerned say who did it and why; since a resource may have
// none, the action is recorded under the resource too.
func (a *API) changeResource(c *call,
	decide func(queue.View) (queue.Settlement, error)) (any, error) {
	kind, name := c.path["kind"], c.path["name"]
	var after queue.Resource
	err := a.cfg.Transactor.Transact(c.ctx, func(v queue.View) (queue.Settlement, error) {
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
