package api

import (
	"fmt"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/queue"
)

// callback is one line of the list of callbacks.
type callback struct {
	ID         string   `json:"id" doc:"Public id, stable for the life of the callback."`
	Source     string   `json:"source"`
	Key        []string `json:"key" doc:"The parts of the key, as texts."`
	Event      string   `json:"event"`
	Task       string   `json:"task" doc:"The task that it belongs to; empty: none."`
	State      string   `json:"state" enum:"callback"`
	Attempt    int      `json:"attempt" doc:"Tries so far, the running one included."`
	ReceivedAt instant  `json:"received_at"`
	NextTryAt  *instant `json:"next_try_at" doc:"Next try, or end of the wait of a parked one."`
	Error      string   `json:"error" doc:"The reason for the state; empty: none."`
	Duplicates int64    `json:"duplicates" doc:"Later arrivals with the same content."`
	Conflicts  int64    `json:"conflicts" doc:"Later arrivals with other content."`
}

type callbackPage struct {
	Items []callback `json:"items" doc:"Latest first."`
	Next  string     `json:"next" doc:"Cursor of the next page; empty: there is none."`
}

// callbackDetail is a callback with everything that is kept about it.
type callbackDetail struct {
	callback
	Flow          string   `json:"flow" doc:"The flow of the task; empty: none."`
	Revision      int      `json:"revision" doc:"0; n for the nth content accepted by a person."`
	RevisionOf    string   `json:"revision_of" doc:"The callback that it is a revision of."`
	DeadCause     string   `json:"dead_cause" enum:"cause" doc:"Why it is dead; empty: it is not."`
	Waits         []string `json:"waits" doc:"What a parked one waits for."`
	LastArrivalAt instant  `json:"last_arrival_at"`
	StartedAt     *instant `json:"started_at" doc:"Start of the last try."`
	FinishedAt    *instant `json:"finished_at"`
	Request       request  `json:"request"`
	Headers       headers  `json:"headers" doc:"As they came, but those that are not kept."`
	HiddenHeaders headers  `json:"hidden_headers" doc:"Keyed digests of headers that are not kept."`
	Payload
	Receipts []receipt `json:"receipts" doc:"The arrivals; of very many the first and last 20."`
	Attempts []attempt `json:"attempts" doc:"The latest tries, earliest first."`
	Audit    []action  `json:"audit" doc:"What people did to it, earliest first."`
}

type headers map[string][]string

// request is how a message came.
type request struct {
	Method string `json:"method" doc:"Empty here and below: no longer kept."`
	Path   string `json:"path"`
	Query  string `json:"query"`
	Host   string `json:"host"`
	Peer   string `json:"peer" doc:"Address of the sender."`
}

type receipt struct {
	N        int64   `json:"n" doc:"0 is the first arrival."`
	At       instant `json:"at"`
	Outcome  string  `json:"outcome" enum:"outcome"`
	Peer     string  `json:"peer"`
	Accepted string  `json:"accepted" doc:"The revision that a person made of it; empty: none."`
	*Payload
}

type attempt struct {
	N         int      `json:"n"`
	StartedAt *instant `json:"started_at"`
	EndedAt   *instant `json:"ended_at"`
	Result    string   `json:"result" doc:"retry, lost, or the state that it led to."`
	Error     string   `json:"error"`
}

type action struct {
	At     instant `json:"at"`
	Action string  `json:"action"`
	Actor  string  `json:"actor"`
	Reason string  `json:"reason"`
}

func callbackOf(r *queue.Row) callback {
	return callback{
		ID: r.ID(), Source: r.Source, Key: texts(r.Key), Event: r.Event, Task: r.Task,
		State: string(r.State), Attempt: r.Attempt, ReceivedAt: instant(r.ReceivedAt),
		NextTryAt: nextTry(r), Error: r.Error, Duplicates: r.Duplicates, Conflicts: r.Conflicts,
	}
}

// nextTry is the next try of a row that waits; whatever others carry there is none.
func nextTry(r *queue.Row) *instant {
	if r.State != queue.Pending && r.State != queue.Parked {
		return nil
	}
	return maybe(r.NextAt)
}

func (a *API) listCallbacks(c *call) (any, error) {
	page, err := a.rows(c, queue.RowQuery{
		Kind: queue.Callback, Source: c.query["source"], State: queue.State(c.query["state"]),
		Event: c.query["event"], Task: c.query["task"], Key: c.query["key"],
	})
	if err != nil {
		return nil, err
	}
	out := callbackPage{Items: []callback{}, Next: c.next(page.Next)}
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
	out := callbackDetail{
		callback: callbackOf(r), Flow: r.Flow, Revision: r.Revision, RevisionOf: r.Cause,
		DeadCause: string(r.DeadCause), Waits: texts(r.Waits), LastArrivalAt: instant(r.LastAt),
		StartedAt: maybe(r.StartedAt), FinishedAt: maybe(r.FinishedAt),
		Request: requestLine(req), Headers: headersOf(req.Header),
		HiddenHeaders: headersOf(req.Digests), Payload: payload(r.Body),
		Attempts: attemptsOf(d.Attempts), Audit: auditOf(d.Audit),
		Receipts: []receipt{{
			At: instant(r.ReceivedAt), Outcome: string(queue.Accepted), Peer: req.Peer,
		}},
	}
	for _, s := range d.Arrivals {
		one := receipt{N: s.N, At: instant(s.At), Outcome: string(s.Outcome), Peer: s.Peer,
			Accepted: s.Accepted}
		if s.Outcome == queue.Conflict {
			p := payload(s.Body)
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

func requestLine(r inbox.Request) request {
	return request{Method: r.Method, Path: r.Path, Query: r.Query, Host: r.Host, Peer: r.Peer}
}

func headersOf(h map[string][]string) headers {
	if h == nil {
		return headers{}
	}
	return h
}

func attemptsOf(list []queue.Attempt) []attempt {
	out := []attempt{}
	for _, t := range list {
		out = append(out, attempt{N: t.N, StartedAt: maybe(t.StartedAt), EndedAt: maybe(t.EndedAt),
			Result: t.Result, Error: t.Error})
	}
	return out
}

func auditOf(list []queue.AuditEntry) []action {
	out := []action{}
	for _, e := range list {
		out = append(out, action{At: instant(e.At), Action: e.Action.Name, Actor: e.Action.Actor,
			Reason: e.Action.Reason})
	}
	return out
}

func (a *API) retryCallback(c *call) (any, error) {
	if err := c.change("retry", &Change{}); err != nil {
		return nil, err
	}
	err := a.cfg.Operator.Retry(c.ctx, queue.Callback, c.path["id"], c.by, a.place)
	if err != nil {
		return nil, err
	}
	return made(a.getCallback(c))
}

func (a *API) discardCallback(c *call) (any, error) {
	if err := c.change("discard", &Change{}); err != nil {
		return nil, err
	}
	if err := a.cfg.Operator.Discard(c.ctx, queue.Callback, c.path["id"], c.by, nil); err != nil {
		return nil, err
	}
	return made(a.getCallback(c))
}

func (a *API) acceptCallback(c *call) (any, error) {
	var ch acceptChange
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
