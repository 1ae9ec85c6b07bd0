package config

import (
	"strings"
	"time"
)

// Gateway is what the file says of the reverse proxy that adds idempotency keys to an API.
type Gateway struct {
	Upstream string
	Auth     *GatewayAuth
	// Scope is the expression that says whose a key is, or none.
	Scope  string
	Routes []Route
}

// GatewayAuth is asked before a claim and before each replay.
type GatewayAuth struct {
	URL     string
	Timeout time.Duration
}

// Route says how requests are treated. The most specific one counts.
type Route struct {
	// Match is a method and a path, as net/http's ServeMux reads it.
	Match string
	// Key is required, optional or ignored.
	Key       string
	Retention time.Duration
	// Wait is how long a repeat waits for the first one; 0: it is rejected (409).
	Wait time.Duration
	// HoldUnknown keeps what had an attempt of unknown result for a person.
	HoldUnknown bool
}

const defaultGatewayRetention = 24 * time.Hour

// gateway reads the gateway's part of the file.
func (r *reader) gateway(o *object) {
	g := o.optional("gateway")
	if g == nil || g.n == nil {
		return
	}
	c := &Gateway{}
	c.Upstream = r.urlField(g, "upstream")
	if a := g.optional("auth"); a != nil && a.n != nil {
		c.Auth = &GatewayAuth{URL: r.urlField(a, "url"), Timeout: a.duration("timeout",
			defaultTimeout)}
		a.close("auth")
	}
	c.Scope = g.text("scope", "", "an expression, or none")
	if !g.has("scope") {
		r.add(g.at(), "the gateway has no `scope`; expected an expression that says whose a key"+
			" is, or none")
	}
	shown := &out{list: true}
	for _, n := range g.list("routes", "a list of routes") {
		route := r.object(n, "a route")
		if route.n != nil {
			c.Routes = append(c.Routes, r.route(route))
			shown.items = append(shown.items, route.out)
		}
	}
	if !g.has("routes") {
		r.add(g.at(), "the gateway has no `routes`; expected at least one")
	}
	g.out.put("routes", shown)
	g.close("gateway")
	r.c.Gateway = c
}

func (r *reader) urlField(o *object, name string) string {
	n := o.textNode(name, "a URL such as http://HOST")
	if n == nil {
		if !o.has(name) {
			r.add(o.at(), "`%s` is missing; expected http://HOST[:PORT]", name)
		}
		return ""
	}
	o.out.put(name, r.urlOut(n))
	r.checkURL(n, name, "http", "https")
	return n.text
}

func (r *reader) route(o *object) Route {
	route := Route{Match: o.text("match", "", "a method and a path such as POST /payments")}
	if n := o.get("match"); n != nil && n.kind == textKind {
		method, path, found := strings.Cut(n.text, " ")
		if !found || strings.ToUpper(method) != method || method == "" ||
			!strings.HasPrefix(path, "/") {
			r.add(n.at, "match is %s; expected a method and a path such as POST /payments",
				n.show())
		}
	} else if n == nil && !o.has("match") {
		r.add(o.at(), "a route has no `match`; expected a method and a path such as POST /payments")
	}
	route.Key = o.choice("key", "optional", "required", "optional", "ignored")
	route.Retention = o.duration("retention", defaultGatewayRetention)
	if n := o.get("in_flight"); n != nil && n.kind == mapKind {
		wait := o.object("in_flight")
		route.Wait = wait.duration("wait", defaultTimeout)
		wait.close("in_flight")
	} else {
		if n != nil && n.kind == textKind && n.text != "reject" {
			r.add(n.at, "in_flight is %s; expected reject or {wait: 10s}", n.show())
			n = &node{kind: badKind}
		}
		if n == nil || n.kind != badKind {
			o.choice("in_flight", "reject", "reject")
		}
	}
	route.HoldUnknown = o.choice("on_unknown", "retry", "retry", "hold") == "hold"
	o.close("a route")
	return route
}
