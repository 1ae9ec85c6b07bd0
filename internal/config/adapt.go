package config

import (
	"strings"

	"github.com/oncekit/once/flow"
	"github.com/oncekit/once/internal/expr"
)

// uses says which of the variables that have to be made are read.
type uses struct{ resource, effect bool }

func (u uses) with(e evaluator) uses {
	for _, ref := range e.References() {
		name, _, _ := strings.Cut(ref, ".")
		u.resource = u.resource || name == "resource"
		u.effect = u.effect || name == "effect"
	}
	return u
}

// flowExpr makes an expression of a flow out of a compiled one.
func flowExpr(e evaluator) flow.Expr {
	u := uses{}.with(e)
	return func(v *flow.Vars) (any, error) {
		vars := flowVars(v, u)
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
func flowVars(v *flow.Vars, u uses) expr.Vars {
	vars := expr.Vars{
		Body: v.Body, Header: v.Header, Query: v.Query, Source: v.Source, Task: v.Task,
	}
	if u.resource && v.Resource != nil {
		vars.Resource = map[string]any{
			"kind": v.Resource.Kind, "name": v.Resource.Name, "fence": v.Resource.Fence,
		}
	}
	if u.effect && v.Effect != nil {
		vars.Effect = map[string]any{"id": v.Effect.ID, "name": v.Effect.Name}
	}
	return vars
}
