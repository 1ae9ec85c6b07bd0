package api

import (
	"fmt"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/wire"
	"github.com/oncekit/once/queue"
)

func callbackOf(r *queue.Row) wire.Callback {
	return wire.Callback{
		ID: r.ID(), Source: r.Source, Key: texts(r.Key), Event: r.Event, Task: r.Task,
		State: string(r.State), Attempt: r.Attempt, ReceivedAt: wire.Instant(r.ReceivedAt),
		NextTryAt: nextTry(r), Error: r.Error, Duplicates: r.Duplicates, Conflicts: r.Conflicts,
	}
}

// nextTry is the next try of a row that waits; whatever others carry there is none.
func nextTry(r *queue.Row) *wire.Instant {
	if r.State != queue.Pending && r.State != queue.Parked {
		return nil
	}
	return wire.Maybe(r.NextAt)
}

func (a *API) listCallbacks(c *call) (any, error) {
	page, err := a.rows(c, queue.RowQuery{
		Kind: queue.Callback, Source: c.query["source"], State: queue.State(c.query["state"]),
		Event: c.query["event"], Task: c.query["task"], Key: c.query["key"],
	})
	if err != nil {
		return nil, err
	}
	out := wire.CallbackPage{Items: []wire.Callback{}, Next: c.next(page.Next)}
	for i := range page.Rows {
		out.Items = append(out.Items, callbackOf(&page.Rows[i]))
	}
	return out, nil
}

func (a *API) rows(c *call, q queue.RowQuery) (queue.RowPage, error) {
	var err error
	if q.Cursor, err = c.cursor(); err != nil {
		return queue.RowPage{}, err
	}
	q.Limit = c.limit()
	return a.cfg.Browser.Rows(c.ctx, q)
}

func (a *API) getCallback(c *call) (any, error) {
	d, err := a.cfg.Browser.Row(c.ctx, queue.Callback, c.path["id"])
	if err != nil {
		return nil, fmt.Errorf("callback %q: %w", c.path["id"], err)
	}
	r := &d.Row
	req := a.requestOf(r.Meta)
	out := wire.CallbackDetail{
		Callback: callbackOf(r), Flow: r.Flow, Revision: r.Revision, RevisionOf: r.Cause,
		DeadCause: string(r.DeadCause), Waits: texts(r.Waits),
		LastArrivalAt: wire.Instant(r.LastAt),
		StartedAt:     wire.Maybe(r.StartedAt), FinishedAt: wire.Maybe(r.FinishedAt),
		Element: elementOf(req), Request: requestLine(req), Headers: headersOf(req.Header),
		HiddenHeaders: headersOf(req.Digests), Payload: wire.PayloadOf(r.Body),
		Attempts: attemptsOf(d.Attempts), Audit: auditOf(d.Audit),
		Receipts: []wire.Receipt{{
			At: wire.Instant(r.ReceivedAt), Outcome: string(queue.Accepted), Peer: req.Peer,
		}},
	}
	for _, s := range d.Arrivals {
		one := wire.Receipt{N: s.N, At: wire.Instant(s.At), Outcome: string(s.Outcome),
			Peer: s.Peer, Accepted: s.Accepted}
		if s.Outcome == queue.Conflict {
			p := wire.PayloadOf(s.Body)
			one.Payload = &p
		}
		out.Receipts = append(out.Receipts, one)
	}
	return out, nil
}

// requestOf reads what is kept of a request. A callback whose request can't be read is shown all
// the same.
func (a *API) requestOf(meta []byte) inbox.Request {
	req, err := inbox.DecodeMeta(meta)
	if err != nil {
		a.log.Warn("read the request of a callback", "error", err)
	}
	return req
}

func elementOf(r inbox.Request) *wire.Element {
	if r.Element == nil || r.Element.Of < 2 {
		return nil
	}
	return &wire.Element{Index: r.Element.Index, Of: r.Element.Of}
}

func requestLine(r inbox.Request) wire.Request {
	return wire.Request{Method: r.Method, Path: r.Path, Query: r.Query, Host: r.Host, Peer: r.Peer}
}

func headersOf(h map[string][]string) wire.Headers {
	if h == nil {
		return wire.Headers{}
	}
	return h
}

func attemptsOf(list []queue.Attempt) []wire.Attempt {
	out := []wire.Attempt{}
	for _, t := range list {
		out = append(out, wire.Attempt{N: t.N, StartedAt: wire.Maybe(t.StartedAt),
			EndedAt: wire.Maybe(t.EndedAt),
			Result:  t.Result, Error: t.Error})
	}
	return out
}

func auditOf(list []queue.AuditEntry) []wire.Action {
	out := []wire.Action{}
	for _, e := range list {
		out = append(out, wire.Action{At: wire.Instant(e.At), Action: e.Action.Name,
			Actor:  e.Action.Actor,
			Reason: e.Action.Reason})
	}
	return out
}

func (a *API) retryCallback(c *call) (any, error) {
	if err := c.change("retry", &wire.Change{}); err != nil {
		return nil, err
	}
	err := a.cfg.Operator.Retry(c.ctx, queue.Callback, c.path["id"], c.by, a.place)
	if err != nil {
		return nil, err
	}
	return made(a.getCallback(c))
}

func (a *API) discardCallback(c *call) (any, error) {
	if err := c.change("discard", &wire.Change{}); err != nil {
		return nil, err
	}
	if err := a.cfg.Operator.Discard(c.ctx, queue.Callback, c.path["id"], c.by, nil); err != nil {
		return nil, err
	}
	return made(a.getCallback(c))
}

func (a *API) acceptCallback(c *call) (any, error) {
	var ch wire.AcceptChange
	if err := c.change("accept", &ch); err != nil {
		return nil, err
	}
	if ch.Receipt == nil {
		return nil, missing("receipt")
	}
	id, err := a.cfg.Operator.Accept(c.ctx, c.path["id"], *ch.Receipt, c.by, a.place)
	if err != nil {
		return nil, err
	}
	c.w.Header().Set("Location", prefix+"/callbacks/"+id)
	return made(a.getCallback(c))
}

// place routes a row by today's configuration. That it can't be routed is a refusal.
func (a *API) place(r queue.Row) (queue.Arrival, error) {
	arrival, err := a.cfg.Route(r)
	return arrival, refused(err)
}

// made passes on the state after a change. That the change was made has to be told when its result
// can't be read.
func made(v any, err error) (any, error) {
	if err == nil {
		return v, nil
	}
	return nil, &unreadError{err}
}

type unreadError struct{ err error }

// Error tells that the change was made.
func (e *unreadError) Error() string {
	return "the change was made, its result can't be read: " + e.err.Error()
}

// Is makes it an error of the store, which it is.
func (e *unreadError) Is(target error) bool { return target == once.ErrUnavailable }
