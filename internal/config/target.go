package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncekit/once/flow"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/expr"
	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/outbox"
)

// Handler says who works a source's callbacks, and how.
type Handler struct {
	// Lane of its rows: one a source, so that each keeps its own policy, order and pace.
	Lane string
	// Name of a handler in Go; empty: HTTP is called.
	Name string
	// HTTP is the service that is handed the callback, Document what it changes in a database; both
	// nil: a handler in Go.
	HTTP     *HTTPConfig
	Document *DocumentConfig
	// Probe is how long after a refusal of the service or the database one callback is tried again.
	Probe time.Duration
	// Events that are handed over; nil: all of them.
	Events []string
	Policy Policy
}

// Policy says how something is tried.
type Policy struct {
	Retry       outbox.Retry
	Timeout     time.Duration // of one try
	Concurrency int           // tries at the same time
	// HoldUnknown keeps what had an attempt of unknown result for a person (on_unknown: hold).
	HoldUnknown bool
	// Block keeps later rows of an order key waiting behind a dead one (on_dead: block).
	Block bool
}

// The defaults of a policy.
const (
	defaultRetryBase   = 500 * time.Millisecond
	defaultRetryCap    = 5 * time.Minute
	defaultTimeout     = 10 * time.Second
	defaultConcurrency = 16
	highestConcurrency = 1024
	highestAttempts    = 1_000_000
)

// policy reads the fields of a policy, with the defaults of on_unknown and on_dead. An empty one of
// on_unknown: there is no such field.
func (r *reader) policy(o *object, unknown, dead string) Policy {
	var p Policy
	p.Timeout = o.duration("timeout", defaultTimeout)
	retry := o.object("retry")
	p.Retry.Base = retry.duration("base", defaultRetryBase)
	p.Retry.Cap = retry.duration("cap", max(defaultRetryCap, p.Retry.Base))
	p.Retry.Attempts = retry.whole("attempts", 0, 0, highestAttempts)
	retry.close("retry")
	if p.Retry.Cap < p.Retry.Base {
		r.add(retry.get("cap").pos(), "cap is below base (%s); expected at least as long",
			formatDuration(p.Retry.Base))
	}
	p.Concurrency = o.whole("concurrency", defaultConcurrency, 1, highestConcurrency)
	if unknown != "" {
		p.HoldUnknown = o.choice("on_unknown", unknown, "retry", "hold") == "hold"
	}
	p.Block = o.choice("on_dead", dead, "continue", "block") == "block"
	return p
}

// target reads `to`: who works the callbacks.
func (r *reader) target(key *node, o *object, s *inbox.Source, vars expr.VarSet) {
	r.c.SourceSettings = append(r.c.SourceSettings, SourceSettings{Name: key.text})
	settings := &r.c.SourceSettings[len(r.c.SourceSettings)-1]
	order := r.expression(o.exprNode("order_by"), "order_by", vars)
	events := o.texts("events", "names of events")
	to := o.optional("to")
	if to == nil || to.n == nil {
		if !o.has("to") {
			r.add(key.at, "the source %s has no `to`; expected {flow: NAME}, {http: URL},"+
				" {document: …} or {handler: NAME}", quote(key.text))
		}
		return
	}
	var chosen []string
	targets := []string{"flow", "http", "document", "handler"}
	for _, name := range targets {
		if to.has(name) {
			chosen = append(chosen, name)
		}
	}
	if len(chosen) != 1 {
		for _, name := range targets {
			to.get(name)
		}
		r.add(to.at(), "`to` names %d targets; expected exactly one of %s", len(chosen),
			strings.Join(targets, ", "))
		return
	}
	if chosen[0] == "flow" {
		r.toFlow(o, to, s, settings)
	} else {
		r.toHandler(chosen[0], to, ordering{vars, order}, events, s, settings)
	}
	to.close("to")
}

func (r *reader) toFlow(o, to *object, s *inbox.Source, settings *SourceSettings) {
	for _, name := range []string{"order_by", "events"} {
		if n := o.get(name); n != nil {
			r.add(n.at, "%s has no meaning with to: {flow}; the task is the order and the flow"+
				" knows its events, expected no such line", name)
		}
	}
	n := to.textNode("flow", "the name of a flow")
	if n == nil {
		return
	}
	to.out.put("flow", nodeOut(n))
	if !r.reference(n, "flow", "flow", r.flowNames) {
		return
	}
	settings.Flow = n.text
	r.feeds[n.text] = max(r.feeds[n.text], s.Retention)
	for i, m := range r.c.Machines {
		if m.Name == n.text && r.c.FlowSettings[i].task != nil {
			s.Route = flowRoute(m.Name, eventNames(m), r.c.FlowSettings[i].task)
		}
	}
}

// reference tells a name that isn't declared.
func (r *reader) reference(n *node, field, what string, names []string) bool {
	if slices.Contains(names, n.text) {
		return true
	}
	wrong := n.text
	if n.filled {
		wrong = ""
	}
	r.add(n.at, "%s names the %s %s, which isn't declared; %s", field, what, n.show(),
		oneOf(wrong, names))
	return false
}

// ordering is what the order of a source's callbacks is made of.
type ordering struct {
	vars expr.VarSet
	by   *expr.Program // order_by; nil: none, or the document
}

func (r *reader) toHandler(kind string, to *object, order ordering, events []*node,
	s *inbox.Source, settings *SourceSettings,
) {
	h := &Handler{Lane: "source/" + s.Name}
	orderKey := orderFunc(order.by)
	unknown := "retry"
	switch kind {
	case "http":
		h.HTTP = r.calledURL(to)
		h.Probe = to.duration("probe", defaultProbe)
	case "document":
		var key keyFn
		h.Document, key = r.document(to, s.Name, order.vars)
		h.Probe = to.duration("probe", defaultProbe)
		orderKey = documentOrder(key, order.by, orderKey)
		unknown = r.neverUnknown(to)
	default:
		if n := to.textNode("handler", "the name of a handler"); n != nil &&
			r.checkName(n, "handler") {
			to.out.put("handler", nodeOut(n))
			h.Name = n.text
		}
	}
	h.Policy = r.policy(to, unknown, "block")
	var only map[string]bool
	for _, n := range events {
		if only == nil {
			only = map[string]bool{}
		}
		only[n.text] = true
		h.Events = append(h.Events, n.text)
	}
	settings.Handler = h
	s.Route = handlerRoute(h.Lane, only, orderKey)
}

// neverUnknown refuses on_unknown where a try that broke off is simply made again.
func (r *reader) neverUnknown(to *object) string {
	if n := to.get("on_unknown"); n != nil {
		r.add(n.at, "on_unknown has no meaning with to: {document}; a write that comes again is"+
			" known by its id, expected no such line")
	}
	return ""
}

// calledURL reads the service that callbacks are handed to.
func (r *reader) calledURL(to *object) *HTTPConfig {
	h := &HTTPConfig{}
	if n := to.textNode("http", "a URL"); n != nil {
		to.out.put("http", r.urlOut(n))
		r.checkURL(n, "http", "http", "https")
		h.URL = n.text
	}
	h.Header = r.staticHeaders(to)
	h.Bearer = to.secret("bearer", "a token")
	h.TLS = r.tls(to, h.URL)
	return h
}

// flowRoute hands known events to a flow, in the order of their task.
func flowRoute(name string, known map[string]bool, task *expr.Program,
) func(*inbox.Message, string) (inbox.Route, error) {
	return func(m *inbox.Message, event string) (inbox.Route, error) {
		vars := messageVars(m)
		id, err := textOf(task, &vars)
		switch {
		case !known[event]:
			// The task is for people only; a message without one is kept as well.
			return inbox.Route{Lane: flow.Lane, Flow: name, Task: id, Unrouted: true}, nil
		case err != nil:
			return inbox.Route{}, fmt.Errorf("task: %w", err)
		case id == "":
			return inbox.Route{}, fmt.Errorf("task %s is empty", task)
		}
		return inbox.Route{
			Lane: flow.Lane, OrderKey: flow.OrderKey(name, id), Flow: name, Task: id,
		}, nil
	}
}

// handlerRoute hands events to a handler; only nil: all of them.
func handlerRoute(lane string, only map[string]bool,
	orderKey func(*inbox.Message) (string, error),
) func(*inbox.Message, string) (inbox.Route, error) {
	return func(m *inbox.Message, event string) (inbox.Route, error) {
		if only != nil && !only[event] {
			return inbox.Route{Lane: lane, Unrouted: true}, nil
		}
		key, err := orderKey(m)
		if err != nil {
			return inbox.Route{}, err
		}
		return inbox.Route{Lane: lane, OrderKey: key}, nil
	}
}

// orderFunc makes the order key of a source; of one without order_by it is empty.
func orderFunc(by *expr.Program) func(*inbox.Message) (string, error) {
	return func(m *inbox.Message) (string, error) {
		if by == nil {
			return "", nil
		}
		vars := messageVars(m)
		v, err := by.Eval(&vars)
		if err != nil {
			return "", fmt.Errorf("order_by: %w", err)
		}
		if v == expr.Absent {
			return "", nil
		}
		key, err := value.Text(v)
		if err != nil {
			return "", fmt.Errorf("order_by: %w", err)
		}
		return key, nil
	}
}

// documentOrder is the order of a source that changes documents: what order_by says, or the
// document. One that can't be named makes the message invalid, as the task of a flow does.
func documentOrder(key keyFn, by *expr.Program, orderKey func(*inbox.Message) (string, error),
) func(*inbox.Message) (string, error) {
	return func(m *inbox.Message) (string, error) {
		vars := messageVars(m)
		id, err := key(&vars)
		if err != nil {
			return "", err
		}
		if by != nil {
			return orderKey(m)
		}
		return value.Text(id)
	}
}
