package config

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/oncekit/once/flow"
	"github.com/oncekit/once/internal/expr"
	"github.com/oncekit/once/outbox"
)

// effects reads a list of what is to be sent out.
func (r *reader) effects(o *object, field string, vars expr.VarSet) []flow.Effect {
	n := o.get(field)
	if n == nil || n.kind == badKind {
		return nil
	}
	if n.kind != listKind {
		r.add(n.at, "%s is %s; expected a list such as [{name: tell, to: DESTINATION}]", field,
			n.what())
		return nil
	}
	var list []flow.Effect
	names := map[string]bool{}
	shown := &out{list: true}
	for _, item := range n.items {
		e := r.object(item, "an effect")
		if e.n == nil {
			continue
		}
		ef := r.effect(e, vars)
		if names[ef.Name] && ef.Name != "" {
			r.add(e.n.member("name").pos(), "the effect %s is here twice; expected a name of its"+
				" own, since its id is made of it", quote(ef.Name))
		}
		names[ef.Name] = true
		list = append(list, ef)
		shown.items = append(shown.items, e.out)
	}
	o.out.put(field, shown)
	return list
}

func (r *reader) effect(o *object, vars expr.VarSet) flow.Effect {
	ef := flow.Effect{}
	if n := o.textNode("name", "the effect's name"); n != nil && r.checkName(n, "name") {
		o.out.put("name", nodeOut(n))
		ef.Name = n.text
	} else if !o.has("name") {
		r.add(o.at(), "an effect has no `name`; expected one, since its id is made of it")
	}
	kind := ""
	if n := o.textNode("to", "the name of a destination"); n != nil {
		o.out.put("to", nodeOut(n))
		if r.reference(n, "to", "destination", r.destinationNames) {
			ef.Destination, kind = n.text, r.destinationKind[n.text]
		}
	} else if !o.has("to") {
		r.add(o.at(), "an effect has no `to`; expected the name of a destination")
	}
	b := r.builder(o, kind, vars)
	ef.Build = b.build
	ef.Expires = o.duration("expires", 0)
	if p := r.expression(o.exprNode("when"), "when", vars); p != nil {
		ef.When = flowExpr(p)
	}
	o.close("the effect")
	return ef
}

// builder makes the addressing and payload of an effect.
type builder struct {
	topic, path, contentType *expr.Template
	headers                  []namedTemplate
	method                   string
	retain                   bool
	payload                  *expr.Tree
	uses                     uses
}

type namedTemplate struct {
	name string
	t    *expr.Template
}

// builder reads the fields that its kind of destination understands.
func (r *reader) builder(o *object, kind string, vars expr.VarSet) *builder {
	b := &builder{}
	opts := expr.TemplateOptions{}
	text := func(name string) *expr.Template {
		n := o.exprNode(name)
		return r.template(n, name, vars, opts)
	}
	for _, name := range []string{"topic", "retain"} {
		if kind == "http" && o.has(name) {
			r.add(o.get(name).pos(), "%s has no meaning for a destination of kind http; expected"+
				" path, method, headers", name)
		}
	}
	for _, name := range []string{"path", "method"} {
		if kind == "mqtt" && o.has(name) {
			r.add(o.get(name).pos(), "%s has no meaning for a destination of kind mqtt; expected"+
				" topic, retain, headers", name)
		}
	}
	b.topic = text("topic")
	r.checkTopic(o, kind)
	b.retain = o.has("retain") && o.boolean("retain", false)
	b.path = text("path")
	if n := o.n.member("path"); n != nil && n.kind == textKind && !strings.HasPrefix(n.text, "/") &&
		!strings.HasPrefix(n.text, "?") && !strings.HasPrefix(n.text, "${") {
		r.add(n.at, "path is %s; expected one that begins with / or ?", n.show())
	}
	b.method = o.choice("method", "", "POST", "PUT", "PATCH", "DELETE", "GET")
	if h := o.n.member("headers"); h != nil && h.kind == mapKind && kind == "http" {
		for _, e := range h.entries {
			r.reserved(e.key)
		}
	}
	for name, t := range r.headers(o, vars, opts) {
		b.headers = append(b.headers, namedTemplate{name, t})
	}
	b.contentType = text("content_type")
	if n := o.exprNode("payload"); n != nil {
		b.payload = r.tree(n, "payload", vars, opts)
	}
	b.uses = b.used()
	return b
}

// checkTopic refuses what no broker takes (MQTT 5, section 4.7).
func (r *reader) checkTopic(o *object, kind string) {
	n := o.n.member("topic")
	switch {
	case n == nil && kind == "mqtt":
		r.add(o.at(), "an effect for a destination of kind mqtt has no `topic`; expected one")
	case n != nil && n.kind == textKind && strings.ContainsAny(literalPart(n.template), "+#\x00"):
		r.add(n.at, "topic is %s; expected one without the wildcards + and #", n.show())
	}
}

// used says what the builder's templates read.
func (b *builder) used() uses {
	var u uses
	for _, t := range []*expr.Template{b.topic, b.path, b.contentType} {
		if t != nil {
			u = u.with(t)
		}
	}
	for _, h := range b.headers {
		u = u.with(h.t)
	}
	if b.payload != nil {
		u = u.with(b.payload)
	}
	return u
}

// build is a flow.Effect's Build.
func (b *builder) build(v *flow.Vars) (meta, body []byte, err error) {
	vars, err := flowVars(v, b.uses)
	if err != nil {
		return nil, nil, err
	}
	m := outbox.Meta{Retain: b.retain, Method: b.method}
	if b.payload != nil {
		if body, m.ContentType, err = encode(b.payload, &vars); err != nil {
			return nil, nil, fmt.Errorf("payload: %w", err)
		}
	}
	for _, part := range []struct {
		name string
		t    *expr.Template
		to   *string
	}{{"topic", b.topic, &m.Topic}, {"path", b.path, &m.Path},
		{"content_type", b.contentType, &m.ContentType}} {
		if part.t == nil {
			continue
		}
		if *part.to, err = textOf(part.t, &vars); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	for _, h := range b.headers {
		text, err := textOf(h.t, &vars)
		if err != nil {
			return nil, nil, fmt.Errorf("header %s: %w", h.name, err)
		}
		if m.Header == nil {
			m.Header = make(map[string]string, len(b.headers))
		}
		m.Header[h.name] = text
	}
	if v.Resource != nil {
		m.Fence = v.Resource.Fence
	}
	if meta, err = json.Marshal(m); err != nil {
		return nil, nil, fmt.Errorf("encode addressing: %w", err)
	}
	return meta, body, nil
}
