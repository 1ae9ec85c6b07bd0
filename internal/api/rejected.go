package api

import (
	"github.com/oncekit/once/internal/wire"
	"github.com/oncekit/once/queue"
)

func (a *API) listRejected(c *call) (any, error) {
	list, err := a.cfg.Browser.Rejected(c.ctx, c.query["source"], c.limit())
	if err != nil {
		return nil, err
	}
	out := wire.RejectedList{Items: []wire.Rejected{}}
	for i := range list {
		out.Items = append(out.Items, a.rejectedOf(&list[i]))
	}
	return out, nil
}

func (a *API) rejectedOf(r *queue.Rejected) wire.Rejected {
	req := a.requestOf(r.Meta)
	return wire.Rejected{
		ID: r.ID, Source: r.Source, At: wire.Instant(r.At), Outcome: string(r.Outcome),
		Reason: r.Reason, Peer: r.Peer, Size: r.Size, Request: requestLine(req),
		Headers: headersOf(req.Header), Payload: wire.PayloadOf(r.Body),
	}
}
