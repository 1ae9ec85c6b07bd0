package expr

import (
	"errors"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
)

// Program is a compiled expression, safe for concurrent use.
type Program struct {
	text  string
	uses  uses
	first *first      // set for what needs no CEL
	cel   cel.Program // set otherwise
}

// String returns the expression's text.
func (p *Program) String() string { return p.text }

// Eval returns the expression's result in the terms of internal/value, or [Absent]. Errors are
// *[EvalError]. What it returns may share memory with vars: nobody may change either.
func (p *Program) Eval(vars *Vars) (any, error) {
	if p.first != nil {
		v, err := p.first.walk(vars)
		if err != nil {
			return nil, err.public()
		}
		return plain(v), nil
	}
	out, _, err := p.cel.Eval(vars)
	if err != nil {
		return nil, p.explain(err, vars)
	}
	v, err := fromCEL(out, 0)
	if err != nil {
		return nil, p.explain(err, vars)
	}
	return v, nil
}

// plain turns a whole header or query into a value.
func plain(v any) any {
	f, ok := v.(*fields)
	if !ok {
		return v
	}
	out := make(map[string]any, len(f.values))
	for name := range f.values {
		if f.kind == headerFields {
			name = strings.ToLower(name)
		}
		if text, found, fault := f.get(name); found && fault == "" {
			out[name] = text
		}
	}
	return out
}

// explain finds the field that an error of CEL is about, since CEL names but its last step: the
// paths of the expression are walked again, and the one that breaks is it.
func (p *Program) explain(err error, vars *Vars) error {
	msg := err.Error()
	var node int64
	var celErr *types.Err
	if errors.As(err, &celErr) {
		node = celErr.NodeID()
	}
	if isOwnError(msg) {
		return &EvalError{Field: p.uses.argument(node), Msg: msg}
	}
	key, isMissing := strings.CutPrefix(msg, "no such key: ")
	var found *EvalError
	for i := range p.uses.chains {
		c := &p.uses.chains[i]
		if c.local {
			if isMissing && c.last() == key && found == nil {
				found = &EvalError{Field: c.String(), Msg: "no such field", Missing: true}
			}
			continue
		}
		_, broken := c.walk(vars)
		if broken == nil || isMissing && broken.key != key {
			continue
		}
		if found == nil || c.id == node {
			found = broken.public()
		}
	}
	if found != nil && (isMissing || !found.Missing) {
		return found
	}
	if msg, ok := strings.CutPrefix(msg, "there is no "); ok {
		return &EvalError{Field: msg, Msg: noVariable, Missing: true}
	}
	out := &EvalError{Msg: cleanEval(msg), Missing: isMissing}
	if isMissing && isIdentifier(key) && strings.Contains(p.text, key) {
		out.Field = key // of a function's result; a name in the text is no value of the message
	}
	return out
}
