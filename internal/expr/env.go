package expr

import (
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"
)

// Limits of an expression and of its work.
const (
	maxExpression = 8 << 10   // runes of one expression
	maxNesting    = 64        // of one expression
	maxCost       = 2_000_000 // CEL's units for one evaluation: some 100 ms at the very worst
	maxPrecision  = 100       // decimals that format() writes
)

// Env compiles expressions, templates and trees. It is safe for concurrent use.
type Env struct {
	base *cel.Env

	mu   sync.Mutex
	envs map[VarSet]*cel.Env // at most one for each place of the configuration
}

// New returns an environment without any state of its own but what it has compiled for.
func New() (*Env, error) {
	opts := []cel.EnvOption{
		cel.CustomTypeAdapter(adapter{}),
		cel.OptionalTypes(),
		cel.CrossTypeNumericComparisons(true),
		ext.Strings(ext.StringsMaxPrecision(maxPrecision)),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(maxNesting),
	}
	opts = append(append(opts, numberOptions()...), functionOptions()...)
	base, err := cel.NewEnv(opts...)
	if err != nil {
		return nil, fmt.Errorf("set up expressions: %w", err)
	}
	return &Env{base: base, envs: map[VarSet]*cel.Env{}}, nil
}

// Position is the rune offset of an expression in the text that holds it. Errors are shifted by
// it; it is 0 for a text that is one expression as a whole.
type Position int

// Compile compiles a whole text as one expression that may use the allowed variables. Errors are
// *[CompileError].
func (e *Env) Compile(text string, allowed VarSet, pos Position) (*Program, error) {
	if strings.TrimSpace(text) == "" {
		return nil, &CompileError{Offset: int(pos), Msg: "the expression is empty"}
	}
	env, err := e.with(allowed)
	if err != nil {
		return nil, &CompileError{Offset: int(pos), Msg: err.Error()}
	}
	checked, iss := env.Compile(text)
	if iss.Err() != nil {
		return nil, compileError(iss, text, allowed, pos)
	}
	p := &Program{text: text, uses: usesOf(checked.NativeRep())}
	if err := p.uses.check(checked.NativeRep(), text, pos); err != nil {
		return nil, err
	}
	if f, ok := firstOf(checked.NativeRep().Expr()); ok {
		p.first = &f
		return p, nil
	}
	if err := p.plan(env, checked, pos); err != nil {
		return nil, err
	}
	return p, nil
}

// plan prepares a checked expression for CEL.
func (p *Program) plan(env *cel.Env, checked *cel.Ast, pos Position) (err error) {
	opts := []cel.ProgramOption{
		cel.EvalOptions(cel.OptOptimize),
		cel.CustomDecoratorV2(decorate),
	}
	if !isCheap(checked.NativeRep().Expr()) {
		opts = append(opts, cel.CostLimit(maxCost), functionCosts())
	}
	if p.cel, err = env.Program(checked, opts...); err != nil {
		return &CompileError{Offset: int(pos), Msg: cleanEval(err.Error())}
	}
	return nil
}

// with returns the environment that declares a set of variables.
func (e *Env) with(allowed VarSet) (*cel.Env, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if env, ok := e.envs[allowed]; ok {
		return env, nil
	}
	var opts []cel.EnvOption
	for _, v := range variables() {
		if allowed&v.set != 0 {
			opts = append(opts, cel.Variable(v.name, typeOf(v.set)))
		}
	}
	env, err := e.base.Extend(opts...)
	if err != nil {
		return nil, fmt.Errorf("set up expressions: %w", err)
	}
	e.envs[allowed] = env
	return env, nil
}

func typeOf(v VarSet) *cel.Type {
	switch v {
	case Header, Query:
		return cel.MapType(cel.StringType, cel.StringType)
	case Source, Error:
		return cel.StringType
	case Auth:
		return cel.MapType(cel.StringType, cel.MapType(cel.StringType, cel.StringType))
	case Task, Resource, Effect, JWT:
		return cel.MapType(cel.StringType, cel.DynType)
	}
	return cel.DynType
}
