package config

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/expr"
	"github.com/oncekit/once/internal/route"
	"github.com/oncekit/once/outbox"
)

// Gateway is what the file says of the reverse proxy that adds idempotency keys to an API.
type Gateway struct {
	Upstream string
	// Host is keep or upstream; empty: by the upstream's scheme.
	Host string
	// TLS of an https upstream; nil: the system's authorities.
	TLS *outbox.TLSFiles
	// Strict compares and sends paths in their normal form.
	Strict bool
	Auth   *GatewayAuth
	JWT    *GatewayJWT
	// Scope says whose a key is; nil: all callers share their keys.
	Scope  func(*expr.Vars) (once.Scope, error)
	Routes []Route
	// Lease of a claim.
	Lease    time.Duration
	Timeouts GatewayTimeouts
	// Records is the URL of a Redis, a PostgreSQL or a MongoDB that keeps the records; empty: the
	// store does.
	Records string
	// MayForget accepts that Redis forgets a record that waits for a person, MayEvict that it
	// removes records when its memory is full.
	MayForget, MayEvict bool
	// Seal are the keys that encrypt kept answers, 32 bytes each; none: they aren't encrypted.
	Seal [][]byte
	// Docs is the URL of a page about the API's keys; empty: there is none.
	Docs string

	scopeTexts []string // as they are written
	// at are the places of what only the program that serves can judge.
	at map[string]Problem
}

// Wrong is a problem of what was accepted at first: field is records or jwks.
func (g *Gateway) Wrong(field, format string, args ...any) Problem {
	p := g.at[field]
	p.Msg = fmt.Sprintf(format, args...)
	return p
}

// GatewayAuth is asked before a claim and before each replay.
type GatewayAuth struct {
	URL     string
	Timeout time.Duration
}

// GatewayJWT says which tokens are believed.
type GatewayJWT struct {
	// File with the keys (RFC 7517, a set).
	File             string
	Issuer, Audience string
}

// GatewayTimeouts bound the parts of a request that is handed on.
type GatewayTimeouts struct {
	Dial, Answer, Idle time.Duration
}

// The defaults of a gateway.
const (
	defaultGatewayRetention = 24 * time.Hour
	defaultGatewayLease     = 30 * time.Second
	shortestLease           = time.Second
	defaultGatewayWork      = 15 * time.Minute
	defaultDial             = 5 * time.Second
	defaultAnswer           = time.Minute
	defaultUpstreamIdle     = 1500 * time.Millisecond
	defaultGatewayMaxBody   = 32 << 20
	defaultMaxAnswer        = 1 << 20
)

// gateway reads the gateway's part of the file.
func (r *reader) gateway(o *object) {
	g := o.optional("gateway")
	if g == nil || g.n == nil {
		return
	}
	c := &Gateway{at: map[string]Problem{}}
	r.c.Gateway = c
	if to := g.n.member("to"); to != nil && !g.has("upstream") {
		r.add(to.at, "the gateway has no `to`; expected upstream: http://HOST[:PORT]")
		g.known = append(g.known, "upstream", "to") // it was told
	} else {
		c.Upstream = r.urlField(g, "upstream")
	}
	c.Host = g.choice("host", "", "keep", "upstream")
	c.TLS = r.tls(g, c.Upstream)
	c.Strict = g.choice("normalize", "strict", "strict", "none") == "strict"
	if a := g.optional("auth"); a != nil && a.n != nil {
		c.Auth = &GatewayAuth{URL: r.urlField(a, "url"), Timeout: a.duration("timeout",
			defaultTimeout)}
		a.close("auth")
	}
	c.JWT = r.jwt(g)
	r.scopeOfCaller(g, c)
	c.Lease = g.duration("lease", defaultGatewayLease)
	if c.Lease < shortestLease && g.get("lease") != nil && g.get("lease").kind != badKind {
		r.add(g.get("lease").pos(), "lease is below %s, and a slow disk or network would end it;"+
			" expected at least that", formatDuration(shortestLease))
	}
	t := g.object("timeouts")
	c.Timeouts = GatewayTimeouts{Dial: t.duration("dial", defaultDial),
		Answer: t.duration("answer", defaultAnswer),
		Idle:   t.duration("idle", defaultUpstreamIdle)}
	t.close("timeouts")
	r.records(g, c)
	r.seal(g, c)
	if n := g.textNode("docs", "the URL of a page about the keys"); n != nil {
		r.checkURL(n, "docs", "https", "http")
		g.out.put("docs", r.urlOut(n))
		c.Docs = n.text
	}
	r.gatewayRoutes(g, c)
	r.c.plan.Gateway = &GatewayPlan{Scope: c.scopeTexts, Records: recordsPlace(c.Records)}
	g.close("gateway")
}

func (r *reader) gatewayRoutes(g *object, c *Gateway) {
	shown := &out{list: true}
	var seen []route.Pattern
	for _, n := range g.list("routes", "a list of routes") {
		o := r.object(n, "a route")
		if o.n == nil {
			continue
		}
		one := r.route(o, c)
		for _, p := range seen {
			if one.Pattern.Method() != "" && p.Same(one.Pattern) {
				r.add(o.get("match").pos(), "match names the same requests as %s; expected each"+
					" route once", quote(p.String()))
			}
		}
		seen = append(seen, one.Pattern)
		c.Routes = append(c.Routes, one)
		shown.items = append(shown.items, o.out)
	}
	if !g.has("routes") {
		r.add(g.at(), "the gateway has no `routes`; expected at least one")
	}
	g.out.put("routes", shown)
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

// jwt reads which tokens are believed. Issuer and audience are needed: a token that was made for
// another service says nothing here.
func (r *reader) jwt(g *object) *GatewayJWT {
	o := g.optional("jwt")
	if o == nil || o.n == nil {
		return nil
	}
	const want = "the path of a file with a key set (JWKS)"
	j := &GatewayJWT{File: r.path(o, "jwks", want),
		Issuer:   o.text("issuer", "", "the iss of the tokens"),
		Audience: o.text("audience", "", "the aud that stands for this API")}
	for _, name := range []string{"jwks", "issuer", "audience"} {
		if !o.has(name) {
			r.add(o.at(), "jwt has no `%s`; expected jwks, issuer and audience", name)
		}
	}
	if n := o.get("jwks"); n != nil && n.kind == textKind && n.text == "" {
		r.add(n.at, "jwks is empty; expected %s", want)
	} else if n != nil {
		r.c.Gateway.at["jwks"] = r.problems.at(n.at, "")
	}
	o.close("jwt")
	return j
}

// sealKeySize is that of AES-256.
const sealKeySize = 32

// seal reads the keys that encrypt kept answers. The first one seals, all of them open.
func (r *reader) seal(g *object, c *Gateway) {
	o := g.optional("seal")
	if o == nil || o.n == nil {
		return
	}
	const want = "a key of 32 bytes in base64 or hex, such as \"${file:seal.key}\" (openssl rand" +
		" -base64 32)"
	shown := &out{list: true}
	for _, n := range o.list("keys", "a list of keys") {
		text := r.secret(n, "keys", want)
		shown.items = append(shown.items, textOut(masked))
		if n.kind != textKind || text == "" || text == masked {
			continue
		}
		key, err := hex.DecodeString(text)
		if err != nil {
			key, err = base64.StdEncoding.DecodeString(text)
		}
		if err != nil || len(key) != sealKeySize {
			r.add(n.at, "keys holds a text that is no key; expected %s", want)
			continue
		}
		if slices.ContainsFunc(c.Seal, func(k []byte) bool { return bytes.Equal(k, key) }) {
			r.add(n.at, "keys holds the same key twice; expected each one once")
			continue
		}
		c.Seal = append(c.Seal, key)
	}
	if !o.has("keys") {
		r.add(o.at(), "seal has no `keys`; expected a list, of which the first one seals")
	}
	o.out.put("keys", shown)
	o.close("seal")
}

// scopeOfCaller reads whose a key is.
func (r *reader) scopeOfCaller(g *object, c *Gateway) {
	if !g.has("scope") {
		r.add(g.at(), "the gateway has no `scope`; expected an expression that says whose a key"+
			" is, or none")
		return
	}
	vars := expr.Header | expr.Query
	if c.Auth != nil {
		vars |= expr.Auth
	}
	if c.JWT != nil {
		vars |= expr.JWT
	}
	n := g.get("scope")
	if n == nil {
		return
	}
	if n.kind == textKind && n.text == "none" {
		g.out.put("scope", textOut("none"))
		return
	}
	if n.kind == textKind && c.Auth == nil && strings.Contains(n.text, "auth.") ||
		n.kind == textKind && c.JWT == nil && strings.Contains(n.text, "jwt.") {
		r.add(n.at, "scope reads auth or jwt, and the gateway has no such field; expected auth:"+
			" {url: URL} for auth.header, jwt: {jwks: FILE, issuer: …, audience: …} for jwt")
		return
	}
	list := []*node{n}
	if n.kind == listKind {
		list = n.items
		if len(list) == 0 || len(list) > once.MaxScopeParts {
			r.add(n.at, "scope has %d parts; expected 1 to %d", len(list), once.MaxScopeParts)
			return
		}
	}
	var parts []*expr.Program
	for _, part := range list {
		p := r.expression(part, "scope", vars)
		if p == nil {
			return
		}
		parts = append(parts, p)
		c.scopeTexts = append(c.scopeTexts, p.String())
	}
	if !slices.ContainsFunc(parts, func(p *expr.Program) bool { return len(p.References()) > 0 }) {
		r.add(n.at, "scope reads nothing of the request, so all callers would share their keys;"+
			" expected scope: none if that is meant, or an expression over header, query, auth or"+
			" jwt")
		return
	}
	g.out.put("scope", nodeOut(n))
	c.Scope = func(v *expr.Vars) (once.Scope, error) { return scopeOf(parts, v) }
}

// scopeOf makes a scope of what is known of a caller. What is missing or empty is no scope.
func scopeOf(parts []*expr.Program, v *expr.Vars) (once.Scope, error) {
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		text, err := textOf(p, v)
		if err != nil || text == "" {
			return once.Scope{}, once.ErrScopeMissing
		}
		texts = append(texts, text)
	}
	return once.NewScope(texts...)
}
