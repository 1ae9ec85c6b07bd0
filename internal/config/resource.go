package config

import (
	"github.com/oncekit/once/flow"
	"github.com/oncekit/once/internal/expr"
)

// resources reads what must happen outside before a freed resource may be owned again. The effects
// are made however it was freed, also by a person, so they see no message.
func (r *reader) resources(o *object) {
	n := o.get("resources")
	shown := &out{byKey: map[string]*out{}}
	r.each(n, "resources", func(key, value *node) {
		k := r.object(value, "the resource "+quote(key.text))
		kind := flow.ResourceKind{Kind: key.text}
		kind.OnRelease = r.effects(k, "on_release", varsRelease)
		kind.AtOnce = k.choice("free", "acknowledged", "acknowledged", "at_once") == "at_once"
		if !kind.AtOnce {
			r.warnOfExpiry(k.n.member("on_release"))
		}
		k.close("the resource " + quote(key.text))
		r.c.Kinds = append(r.c.Kinds, kind)
		shown.put(key.text, k.out)
	})
	if n != nil {
		o.out.put("resources", shown)
	}
}

// varsRelease are the variables of an effect of a release.
const varsRelease = expr.Task | expr.Resource | expr.Effect

// warnOfExpiry warns of effects that have to be acknowledged and are given up all the same.
func (r *reader) warnOfExpiry(effects *node) {
	if effects == nil || effects.kind != listKind {
		return
	}
	for _, e := range effects.items {
		if n := e.member("expires"); n != nil {
			r.warn(n.at, "an effect that expires is never acknowledged, so its resource stays"+
				" `freeing` until a person acts; better no expires here, or free: at_once")
		}
	}
}
