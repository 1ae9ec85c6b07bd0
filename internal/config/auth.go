package config

import (
	"strings"

	"github.com/oncekit/once/inbox"
)

// auth reads how a sender proves who it is.
func (r *reader) auth(o *object) inbox.Verifier {
	a := o.optional("auth")
	if a == nil {
		return nil
	}
	defer a.close("auth")
	n := a.get("bearer")
	if n == nil {
		if a.n != nil && !a.has("bearer") {
			r.add(a.at(), "auth names no way to prove who the sender is; expected"+
				" {bearer: \"${env:NAME}\"}")
		}
		return nil
	}
	a.out.put("bearer", textOut(masked))
	nodes := []*node{n}
	if n.kind == listKind {
		if nodes = n.items; len(nodes) == 0 {
			r.add(n.at, "bearer is empty; expected at least one token")
		}
	}
	v := &inbox.Bearer{}
	for _, t := range nodes {
		token := r.secret(t, "bearer", "a token")
		if t.kind == textKind && token != "" && strings.TrimSpace(token) != token {
			r.add(t.at, "bearer begins or ends with a blank; expected a token without")
		}
		v.Tokens = append(v.Tokens, token)
	}
	return v
}
