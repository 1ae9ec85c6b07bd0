package api

import "github.com/oncekit/once/queue"

// rejected is a message that became no callback.
type rejected struct {
	ID      int64   `json:"id"`
	Source  string  `json:"source" doc:"Empty: no source has the path."`
	At      instant `json:"at"`
	Outcome string  `json:"outcome" enum:"outcome"`
	Reason  string  `json:"reason"`
	Peer    string  `json:"peer" doc:"Address of the sender."`
	Size    int64   `json:"size" doc:"Bytes of the body as far as it was read."`
	Request request `json:"request"`
	Headers headers `json:"headers"`
	Payload
}

type rejectedList struct {
	Items []rejected `json:"items" doc:"Latest first; the ring of a source is bounded."`
}

func (a *API) listRejected(c *call) (any, error) {
	list, err := a.cfg.Browser.Rejected(c.ctx, c.query["source"], c.limit())
	if err != nil {
		return nil, err
	}
	out := rejectedList{Items: []rejected{}}
	for i := range list {
		out.Items = append(out.Items, a.rejectedOf(&list[i]))
	}
	return out, nil
}

func (a *API) rejectedOf(r *queue.Rejected) rejected {
	req := a.requestOf(r.Meta)
	return rejected{
		ID: r.ID, Source: r.Source, At: instant(r.At), Outcome: string(r.Outcome),
		Reason: r.Reason, Peer: r.Peer, Size: r.Size, Request: requestLine(req),
		Headers: headersOf(req.Header), Payload: payload(r.Body),
	}
}
