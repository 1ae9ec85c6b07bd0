package config

import (
	"errors"
	"fmt"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/expr"
	"github.com/oncekit/once/internal/value"
)

// The limits of a message that carries several callbacks.
const (
	defaultMaxElements = 1000
	highestMaxElements = 10_000
)

// elements reads `each`: how a message that carries several callbacks is taken apart. It returns
// the variables of the expressions that are about one callback, and `each` as the plan has it.
func (r *reader) elements(o *object, s *inbox.Source) (vars expr.VarSet, text string) {
	n := o.get("each")
	if n == nil || n.kind == badKind {
		return varsMessage, ""
	}
	e := o.l.object(eachAsMap(n), "each")
	o.out.put("each", e.out)
	items := e.exprNode("items")
	if items == nil && !e.has("items") {
		r.add(n.at, "each has no `items`; expected an expression such as \"body.data\"")
	}
	s.RefuseBad = e.choice("bad", "keep_good", "keep_good", "refuse") == "refuse"
	s.MaxElements = e.whole("max", defaultMaxElements, 1, highestMaxElements)
	e.close("each")
	restore := r.withoutItem("it is what `each` finds in the message")
	p := r.expression(items, "each", varsMessage)
	restore()
	if p == nil {
		return varsMessage | expr.Item, "" // told, and what uses item isn't wrong because of it
	}
	s.Each = eachFunc(p)
	return varsMessage | expr.Item, p.String()
}

// eachFunc finds the elements: those of a list, or one object as a whole.
func eachFunc(p *expr.Program) func(*inbox.Message) ([]any, error) {
	return func(m *inbox.Message) ([]any, error) {
		vars := messageVars(m)
		v, err := p.Eval(&vars)
		if err != nil {
			return nil, fmt.Errorf("each: %w", err)
		}
		switch v := v.(type) {
		case []any:
			return v, nil
		case map[string]any:
			return []any{v}, nil
		}
		text := partText(p)
		if v == nil || v == expr.Absent {
			return nil, errors.New("each: " + text + " is missing")
		}
		return nil, fmt.Errorf("each: %s is %s, no list or object", text, value.KindOf(v))
	}
}

// withoutItem says why the expressions that are read next have no item, until the returned function
// is called.
func (l *loader) withoutItem(reason string) (restore func()) {
	before := l.noItem
	l.noItem = reason
	return func() { l.noItem = before }
}

// feed is what one source is to a flow.
type feed struct {
	source   string
	hasItems bool
}

// fedBy finds the sources of each flow before they are read, since the expressions of a flow have
// the variable item only if each of its callbacks has one.
func (r *reader) fedBy() map[string][]feed {
	all := map[string][]feed{}
	sources := r.root.member("sources")
	if sources == nil || sources.kind != mapKind {
		return all
	}
	for _, e := range sources.entries {
		if flow := e.value.member("to").member("flow"); flow != nil {
			all[flow.text] = append(all[flow.text],
				feed{e.key.text, e.value.member("each") != nil})
		}
	}
	return all
}

// itemOf returns the variable item if a flow has it, else the reason why it hasn't.
func (r *reader) itemOf(flow string) (vars expr.VarSet, whyNot string) {
	if r.unread {
		return expr.Item, "" // one of the sources that can't be known may have it
	}
	feeds := r.feedsOf[flow]
	for _, f := range feeds {
		if !f.hasItems {
			return 0, "the source " + quote(f.source) + ", which feeds the flow, has no `each`" +
				" (with each: \"body\" its item is the body)"
		}
	}
	if len(feeds) == 0 {
		return 0, "no source with `each` feeds the flow"
	}
	return expr.Item, ""
}
