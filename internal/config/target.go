package config

import (
	"fmt"
	"slices"
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
	// HTTP is the service that is handed the callback; nil: a handler in Go.
	HTTP *HTTPConfig
	// Probe is how long after a refusal (401, 403) of the service one callback is tried again.
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

// policy reads the fields of a policy.
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
	p.HoldUnknown = o.choice("on_unknown", unknown, "retry", "hold") == "hold"
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
			r.add(key.at, "the source %s has no `to`; expected {flow: NAME}, {http: URL} or"+
				" {handler: NAME}", quote(key.text))
		}
		return
	}
	var chosen []string
	for _, name := range []string{"flow", "http", "handler"} {
		if to.has(name) {
			chosen = append(chosen, name)
		}
	}
	if len(chosen) != 1 {
		for _, name := range []string{"flow", "http", "handler"} {
			to.get(name)
		}
		r.add(to.at(), "`to` names %d targets; expected exactly one of flow, http, handler",
			len(chosen))
		return
	}
	if chosen[0] == "flow" {
		r.toFlow(o, to, s, settings)
	} else {
		r.toHandler(chosen[0], to, order, events, s, settings)
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

func (r *reader) toHandler(kind string, to *object, order *expr.Program, events []*node,
	s *inbox.Source, settings *SourceSettings,
) {
	h := &Handler{Lane: "source/" + s.Name}
	if kind == "http" {
		h.HTTP = r.calledURL(to)
		h.Probe = to.duration("probe", defaultProbe)
	} else if n := to.textNode("handler", "the name of a handler"); n != nil &&
		r.checkName(n, "handler") {
		to.out.put("handler", nodeOut(n))
		h.Name = n.text
	}
	h.Policy = r.policy(to, "retry", "block")
	var only map[string]bool
	for _, n := range events {
		if only == nil {
			only = map[string]bool{}
		}
		only[n.text] = true
		h.Events = append(h.Events, n.text)
	}
	settings.Handler = h
	s.Route = handlerRoute(h.Lane, only, order)
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
func handlerRoute(lane string, only map[string]bool, order *expr.Program,
) func(*inbox.Message, string) (inbox.Route, error) {
	return func(m *inbox.Message, event string) (inbox.Route, error) {
		if only != nil && !only[event] {
			return inbox.Route{Lane: lane, Unrouted: true}, nil
		}
		route := inbox.Route{Lane: lane}
		if order == nil {
			return route, nil
		}
		vars := messageVars(m)
		v, err := order.Eval(&vars)
		if err != nil {
			return inbox.Route{}, fmt.Errorf("order_by: %w", err)
		}
		if v != expr.Absent {
			if route.OrderKey, err = value.Text(v); err != nil {
				return inbox.Route{}, fmt.Errorf("order_by: %w", err)
			}
		}
		return route, nil
	}
}
