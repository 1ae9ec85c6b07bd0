package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/oncekit/once"
	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/expr"
	"github.com/oncekit/once/internal/value"
)

// sourceKey is what a source is unique by.
type sourceKey struct {
	vars         expr.VarSet   // of its expressions
	scope        *expr.Program // nil: the source alone
	alternatives [][]*expr.Program
}

// keys reads `key`: a list of expressions, or a list of such lists, of which the first complete one
// counts; and `scope`.
func (r *reader) keys(name *node, o *object, vars expr.VarSet) sourceKey {
	k := sourceKey{vars: vars}
	k.scope = r.expression(o.exprNode("scope"), "scope", vars)
	n := o.exprNode("key")
	switch {
	case n == nil && !o.has("key"):
		r.add(name.at, "the source %s has no `key`; expected a list of expressions that are unique"+
			" together, such as [\"body.id\"]", quote(name.text))
	case n == nil || n.kind == badKind:
	case n.kind != listKind:
		r.alternative(&k, []*node{n})
	case len(n.items) == 0:
		r.add(n.at, "key is empty; expected at least one expression, such as \"body.id\"")
	case n.items[0].kind == listKind:
		for _, item := range n.items {
			switch {
			case item.kind == badKind:
			case item.kind != listKind || len(item.items) == 0:
				r.add(item.at, "key is a list of alternatives; expected each of them as a"+
					" list such as [\"body.id\"]")
			default:
				r.alternative(&k, item.items)
			}
		}
	default:
		r.alternative(&k, n.items)
	}
	return k
}

func (r *reader) alternative(k *sourceKey, nodes []*node) {
	var list []*expr.Program
	if len(nodes) > once.MaxKeyParts {
		r.add(nodes[once.MaxKeyParts].at, "key has more than %d parts; expected fewer",
			once.MaxKeyParts)
		return
	}
	reads := false
	for _, n := range nodes {
		p := r.expression(n, "key", k.vars)
		if p == nil {
			reads = true // told already
			continue
		}
		list = append(list, p)
		for _, ref := range p.References() {
			reads = reads || ref != "source"
		}
	}
	if !reads {
		r.add(nodes[0].at, "key reads nothing of the message, so that all messages would be one;"+
			" expected an expression such as \"body.id\"")
	}
	k.alternatives = append(k.alternatives, list)
}

// messageVars are the variables of an incoming message.
func messageVars(m *inbox.Message) expr.Vars {
	return expr.Vars{
		Body: m.Body, Item: m.Item, Header: m.Header, Query: m.Query,
		Source: m.Source, Error: m.Error,
	}
}

// keyFunc makes a source's Key. A scope is the first part, so that it separates identities. From
// the second alternative on its number follows, so that equal values of two alternatives are two
// keys.
func keyFunc(k sourceKey) func(*inbox.Message) (once.Key, error) {
	return func(m *inbox.Message) (once.Key, error) {
		vars := messageVars(m)
		var scope []any
		if k.scope != nil {
			v, err := keyPart(k.scope, &vars)
			if err != nil {
				return nil, fmt.Errorf("scope: %w", err)
			}
			scope = []any{v}
		}
		var first, last error
		for i, alternative := range k.alternatives {
			key, err := makeKey(scope, alternative, &vars)
			if err == nil {
				return key.Alternative(i + 1), nil
			}
			if !errors.Is(err, once.ErrKeyIncomplete) {
				return nil, err
			}
			if last = err; first == nil {
				first = err
			}
		}
		switch {
		case len(k.alternatives) == 1:
			return nil, first
		case last.Error() == first.Error():
			return nil, fmt.Errorf("none of the keys is complete, the first one: %w", first)
		}
		return nil, fmt.Errorf("none of the keys is complete, the first one: %w, the last one: %w",
			first, last)
	}
}

func makeKey(scope []any, parts []*expr.Program, vars *expr.Vars) (once.Key, error) {
	values := make([]any, len(scope), len(scope)+len(parts))
	copy(values, scope)
	for _, p := range parts {
		v, err := keyPart(p, vars)
		if err != nil {
			return nil, err
		}
		if v == "" { // the next parts needn't be made
			return nil, partError(p, "is empty", once.ErrKeyIncomplete)
		}
		values = append(values, v)
	}
	key, err := once.KeyOf(values...)
	var ke *once.KeyError
	if errors.As(err, &ke) && ke.Index >= len(scope) && ke.Index < len(values) {
		return nil, partError(parts[ke.Index-len(scope)], ke.Reason, ke.Err)
	}
	return key, err
}

// keyPart evaluates one part. A missing field is an incomplete key; so is an absent value.
func keyPart(p *expr.Program, vars *expr.Vars) (any, error) {
	v, err := p.Eval(vars)
	if err != nil {
		var ee *expr.EvalError
		if errors.As(err, &ee) && ee.Missing {
			return nil, &keyFault{ee.Error(), once.ErrKeyIncomplete}
		}
		return nil, &keyFault{err.Error(), once.ErrKeyInvalid}
	}
	if v == expr.Absent || v == nil {
		return nil, partError(p, "is missing", once.ErrKeyIncomplete)
	}
	return v, nil
}

// partError names the part by its expression, which people know better than its number.
func partError(p *expr.Program, reason string, err error) error {
	return &keyFault{"key part " + partText(p) + " " + reason, err}
}

// partText is an expression on one line.
func partText(p *expr.Program) string { return strings.Join(strings.Fields(p.String()), " ") }

// keyFault is a key that can't be made, in words for the sender. It unwraps to the sentinel.
type keyFault struct {
	msg string
	err error
}

func (e *keyFault) Error() string { return e.msg }

func (e *keyFault) Unwrap() error { return e.err }

// textFunc makes a function of a message that gives a text. An absent value is the empty text.
func textFunc(p evaluator, what string) func(*inbox.Message) (string, error) {
	return func(m *inbox.Message) (string, error) {
		vars := messageVars(m)
		s, err := textOf(p, &vars)
		if err != nil {
			return "", fmt.Errorf("%s: %w", what, err)
		}
		return s, nil
	}
}

// fingerprintFunc makes a source's Fingerprint. Where a message carries several callbacks, each
// element is compared by itself, so that it is known again in another company.
func fingerprintFunc(how string, ignore []value.Path, hasItems bool,
) func(*inbox.Message) (once.Fingerprint, error) {
	switch {
	case how == "raw":
		return func(m *inbox.Message) (once.Fingerprint, error) {
			content, err := m.Content()
			return once.FingerprintRaw(content), err
		}
	case hasItems:
		return func(m *inbox.Message) (once.Fingerprint, error) {
			return value.Digest(m.Item, ignore)
		}
	}
	return func(m *inbox.Message) (once.Fingerprint, error) {
		return value.Digest(m.Body, ignore)
	}
}
