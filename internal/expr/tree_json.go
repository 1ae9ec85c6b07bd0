package expr

import (
	"fmt"

	"github.com/oncekit/once/internal/value"
)

// Members is a map in the order in which it was written. [Env.CompileTree] takes it in the place of
// a map[string]any, whose members it sorts.
type Members []Member

// Member is one of [Members].
type Member struct {
	Name  string
	Value any
}

// prepare encodes what doesn't depend on a message: whole values, and the names of members.
func (n *node) prepare() error {
	isConstant := true
	for i := range n.members {
		m := &n.members[i]
		if err := m.node.prepare(); err != nil {
			return err
		}
		name, err := value.Encode(m.name)
		if err != nil {
			return err
		}
		m.prefix = append(name, ':')
		isConstant = isConstant && m.node.json != nil
	}
	for i := range n.list {
		if err := n.list[i].prepare(); err != nil {
			return err
		}
		isConstant = isConstant && n.list[i].json != nil
	}
	var err error
	switch {
	case n.template != nil:
		if text, ok := n.template.constant(); ok {
			n.json, err = value.Encode(text)
		}
	case !n.isMap && !n.isList:
		n.json, err = value.Encode(n.constant)
	case isConstant:
		n.json, _, err = n.appendJSON(nil, nil)
	}
	return err
}

// constant returns the text of a template without ${…}.
func (t *Template) constant() (string, bool) {
	switch {
	case len(t.parts) == 0:
		return "", true
	case len(t.parts) == 1 && t.parts[0].program == nil:
		return t.parts[0].literal, true
	}
	return "", false
}

// IsText reports whether the tree is a single text, with or without ${…}, and no map or list.
func (t *Tree) IsText() bool { return !t.root.isMap && !t.root.isList }

// AppendJSON appends the tree's value to dst as compact JSON, members in the order in which they
// were written. A member or element whose value is absent is left out, and nothing is appended if
// the whole is absent. Errors are *[EvalError], or say that a value can't be encoded.
func (t *Tree) AppendJSON(dst []byte, vars *Vars) ([]byte, error) {
	out, _, err := t.root.appendJSON(dst, vars)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// appendJSON reports whether the value is there.
func (n *node) appendJSON(dst []byte, vars *Vars) (out []byte, found bool, err error) {
	switch {
	case n.json != nil:
		return append(dst, n.json...), true, nil
	case n.isMap:
		return n.appendMap(dst, vars)
	case n.isList:
		return n.appendList(dst, vars)
	}
	v, err := n.template.Eval(vars)
	if err != nil || v == Absent {
		return dst, false, err
	}
	if out, err = value.AppendEncode(dst, v); err != nil {
		return dst, false, fmt.Errorf("encode %s: %w", n.template, err)
	}
	return out, true, nil
}

func (n *node) appendMap(dst []byte, vars *Vars) ([]byte, bool, error) {
	dst = append(dst, '{')
	first := true
	for i := range n.members {
		m, start := &n.members[i], len(dst)
		if !first {
			dst = append(dst, ',')
		}
		out, found, err := m.node.appendJSON(append(dst, m.prefix...), vars)
		if err != nil {
			return dst, false, err
		}
		if !found {
			dst = out[:start]
			continue
		}
		dst, first = out, false
	}
	return append(dst, '}'), true, nil
}

func (n *node) appendList(dst []byte, vars *Vars) ([]byte, bool, error) {
	dst = append(dst, '[')
	first := true
	for i := range n.list {
		start := len(dst)
		if !first {
			dst = append(dst, ',')
		}
		out, found, err := n.list[i].appendJSON(dst, vars)
		if err != nil {
			return dst, false, err
		}
		if !found {
			dst = out[:start]
			continue
		}
		dst, first = out, false
	}
	return append(dst, ']'), true, nil
}
