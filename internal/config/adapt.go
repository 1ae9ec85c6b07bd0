package config

import (
	"strings"

	"github.com/oncekit/once/flow"
	"github.com/oncekit/once/internal/expr"
)

// uses says which of the variables that have to be made are read.
type uses struct{ item, request, resource, effect bool }

func (u uses) with(e evaluator) uses {
	for _, ref := range e.References() {
		name, _, _ := strings.Cut(ref, ".")
		u.item = u.item || name == "item"
		u.request = u.request || name == "header" || name == "query"
		u.resource = u.resource || name == "resource"
		u.effect = u.effect || name == "effect"
	}
	return u
}

// flowExpr makes an expression of a flow out of a compiled one.
func flowExpr(e evaluator) flow.Expr {
	u := uses{}.with(e)
	return func(v *flow.Vars) (any, error) {
		vars, err := flowVars(v, u)
		if err != nil {
			return nil, err
		}
		got, err := e.Eval(&vars)
		if err != nil {
			return nil, err
		}
		if got == expr.Absent {
			return flow.Absent, nil
		}
		return got, nil
	}
}

// flowVars hands a flow's variables to an expression; only what is read is made.
func flowVars(v *flow.Vars, u uses) (expr.Vars, error) {
	vars := expr.Vars{Body: v.Body, Source: v.Source, Task: v.Task}
	if u.item && v.Item != nil {
		var err error
		if vars.Item, err = v.Item(); err != nil {
			return vars, err
		}
	}
	if u.request && v.Request != nil {
		r, err := v.Request()
		if err != nil {
			return vars, err
		}
		vars.Header, vars.Query = r.Header, r.Query
	}
	if u.resource && v.Resource != nil {
		vars.Resource = map[string]any{
			"kind": v.Resource.Kind, "name": v.Resource.Name, "fence": v.Resource.Fence,
		}
	}
	if u.effect && v.Effect != nil {
		vars.Effect = map[string]any{"id": v.Effect.ID, "name": v.Effect.Name}
	}
	return vars, nil
}
