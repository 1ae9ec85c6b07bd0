package expr

import (
	"fmt"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/oncekit/once/internal/value"
)

// chain is a path in an expression: a variable and the constant steps that lead on from it.
type chain struct {
	id     int64  // of the last step in CEL's tree
	root   string // the variable
	steps  []chainStep
	tested string // the field whose presence has() asks for, after the steps
	local  bool   // root is the variable of a loop, not one of ours
}

// chainStep is a member's name, or a list index if name is empty and isIndex.
type chainStep struct {
	name     string
	index    int64
	isIndex  bool
	optional bool
}

// chainOf returns the path that an expression is.
func chainOf(e ast.Expr) (chain, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return chain{id: e.ID(), root: e.AsIdent()}, true
	case ast.SelectKind:
		sel := e.AsSelect()
		if sel.IsTestOnly() {
			return chain{}, false
		}
		return extend(e.ID(), sel.Operand(), chainStep{name: sel.FieldName()})
	case ast.CallKind:
		call := e.AsCall()
		args := call.Args()
		if len(args) != 2 || args[1].Kind() != ast.LiteralKind {
			return chain{}, false
		}
		s := chainStep{}
		switch lit := args[1].AsLiteral().(type) {
		case types.String:
			s.name = string(lit)
		case types.Int:
			s.index, s.isIndex = int64(lit), true
		default:
			return chain{}, false
		}
		switch call.FunctionName() {
		case operators.Index:
		case operators.OptIndex, operators.OptSelect:
			s.optional = true
		default:
			return chain{}, false
		}
		return extend(e.ID(), args[0], s)
	}
	return chain{}, false
}

func extend(id int64, operand ast.Expr, s chainStep) (chain, bool) {
	c, ok := chainOf(operand)
	if !ok {
		return chain{}, false
	}
	c.id = id
	c.steps = append(c.steps, s)
	return c, true
}

// plain reports whether the path is free of optional steps.
func (c *chain) plain() bool {
	for _, s := range c.steps {
		if s.optional {
			return false
		}
	}
	return true
}

func (c *chain) last() string {
	if len(c.steps) == 0 {
		return c.root
	}
	return c.steps[len(c.steps)-1].name
}

// String writes the path as its author would.
func (c *chain) String() string { return c.upTo(len(c.steps)) }

// upTo writes the first n steps.
func (c *chain) upTo(n int) string {
	var b strings.Builder
	b.WriteString(c.root)
	for _, s := range c.steps[:n] {
		switch {
		case s.isIndex:
			b.WriteString("[" + strconv.FormatInt(s.index, 10) + "]")
		case isIdentifier(s.name):
			b.WriteString("." + s.name)
		default:
			b.WriteString("['" + s.name + "']")
		}
	}
	return b.String()
}

func isIdentifier(s string) bool {
	for i, r := range s {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// brokenError is where a walk ended.
type brokenError struct {
	EvalError
	key string // the step that wasn't there
}

func (b *brokenError) public() *EvalError { return &b.EvalError }

// walk follows the path through the variables. Its optional steps end it with [Absent].
func (c *chain) walk(vars *Vars) (any, *brokenError) {
	at, known := vars.ResolveName(c.root)
	if types.IsError(asVal(at)) || !known {
		return nil, &brokenError{EvalError: EvalError{
			Field: c.root, Msg: noVariable, Missing: true,
		}}
	}
	optional := false
	for i, s := range c.steps {
		optional = optional || s.optional
		next, found, fault := s.take(at)
		if fault != "" && !(optional && at == nil) {
			return nil, c.broken(i, fault, false)
		}
		if !found && optional {
			return Absent, nil
		}
		if !found {
			return nil, c.broken(i, noSuchField(c, i, at), true)
		}
		at = next
	}
	return at, nil
}

// noVariable is said of a variable that the caller didn't set.
const noVariable = "there is none here"

func asVal(v any) ref.Val {
	val, _ := v.(ref.Val)
	return val
}

// noSuchField says what is missing; a parent of the wrong kind is named.
func noSuchField(c *chain, i int, at any) string {
	switch at.(type) {
	case map[string]any, *fields:
		return "no such field"
	case []any:
		return "no such element"
	}
	return fmt.Sprintf("no such field, %s is %s", c.upTo(i), value.KindOf(at))
}

func (c *chain) broken(i int, msg string, missing bool) *brokenError {
	key := c.steps[i].name
	if c.steps[i].isIndex {
		key = strconv.FormatInt(c.steps[i].index, 10)
	}
	return &brokenError{
		EvalError: EvalError{Field: c.upTo(i + 1), Msg: msg, Missing: missing},
		key:       key,
	}
}

// take goes one step down from a value. fault is set where the step makes no sense or reads a
// field that came more than once.
func (s chainStep) take(at any) (next any, found bool, fault string) {
	switch at := at.(type) {
	case map[string]any:
		if s.isIndex {
			return nil, false, ""
		}
		next, found = at[s.name]
		return next, found, ""
	case []any:
		if !s.isIndex {
			return nil, false, "no such field, a list has numbers"
		}
		if s.index < 0 || s.index >= int64(len(at)) {
			return nil, false, ""
		}
		return at[s.index], true, ""
	case *fields:
		text, found, fault := at.get(s.name)
		return text, found, fault
	}
	return nil, false, ""
}
