package expr

import (
	"strings"

	"cel.dev/cel-go/common/ast"

	"github.com/oncekit/once/internal/value"
)

// TemplateOptions say how a template or tree is evaluated. The zero value works.
type TemplateOptions struct {
	// ErrorEmpty: a ${…} that has no result for this message is an empty text, as in replies, and
	// the rest is kept. Default: it is an error.
	ErrorEmpty bool
}

// Template is a text with ${…}, compiled. It is safe for concurrent use.
type Template struct {
	text  string
	parts []part
	opts  TemplateOptions
}

// part is a literal text or a program.
type part struct {
	literal string
	program *Program
}

// CompileTemplate compiles a text with ${…}, which may use the allowed variables. $${ is a
// literal ${. A text without ${…} that reads as an expression over our variables, such as
// body.taskCode, is refused: most likely the ${…} was forgotten. Errors are *[CompileError].
func (e *Env) CompileTemplate(
	text string, allowed VarSet, opts TemplateOptions,
) (*Template, error) {
	pieces, bad := split(text)
	if bad != nil {
		return nil, bad
	}
	t := &Template{text: text, opts: opts}
	for _, p := range pieces {
		if !p.isExpr {
			t.parts = append(t.parts, part{literal: p.literal})
			continue
		}
		program, err := e.Compile(p.expr, allowed, Position(p.offset))
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, part{program: program})
	}
	if len(pieces) == 1 && !pieces[0].isExpr && e.readsAsExpression(text) {
		return nil, &CompileError{Msg: `this reads as an expression: write "${` + limit(text) +
			`}", or {text: …} if the text is meant`}
	}
	return t, nil
}

// String returns the template's text.
func (t *Template) String() string { return t.text }

// Eval returns a text; where the whole template is one ${…}, it returns the value of that, which
// may be [Absent]. Among other text an absent or null value gives nothing, and an object or list
// is an error, or nothing with ErrorEmpty. Errors are *[EvalError].
func (t *Template) Eval(vars *Vars) (any, error) {
	switch {
	case len(t.parts) == 0:
		return "", nil
	case len(t.parts) == 1 && t.parts[0].program == nil:
		return t.parts[0].literal, nil
	case len(t.parts) == 1:
		return t.evalPart(t.parts[0], vars)
	}
	var b strings.Builder
	for _, p := range t.parts {
		v, err := t.evalPart(p, vars)
		if err != nil {
			return nil, err
		}
		if v == nil || v == Absent {
			continue
		}
		s, err := value.Text(v)
		if err != nil && t.opts.ErrorEmpty {
			continue
		}
		if err != nil {
			return nil, &EvalError{
				Field: p.program.String(),
				Msg:   value.KindOf(v) + " can't stand inside a text",
			}
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

func (t *Template) evalPart(p part, vars *Vars) (any, error) {
	if p.program == nil {
		return p.literal, nil
	}
	v, err := p.program.Eval(vars)
	if err != nil && t.opts.ErrorEmpty {
		return "", nil
	}
	return v, err
}

// References returns what the template uses, as [Program.References].
func (t *Template) References() []string { return references(t.allUses()...) }

func (t *Template) allUses() []uses {
	var all []uses
	for _, p := range t.parts {
		if p.program != nil {
			all = append(all, p.program.uses)
		}
	}
	return all
}

// readsAsExpression reports whether a text without ${…} is an expression that reads a field of
// one of our variables, and names nothing else. A lone word such as "error" is a text.
func (e *Env) readsAsExpression(text string) bool {
	if !strings.ContainsAny(text, ".[") || len(text) > maxExpression {
		return false
	}
	parsed, iss := e.base.Parse(text)
	if iss.Err() != nil {
		return false
	}
	c := newCollector()
	c.visit(parsed.NativeRep().Expr())
	reads := false
	for _, ch := range c.found {
		reads = reads || !ch.local && (len(ch.steps) > 0 || ch.tested != "")
	}
	return reads && !namesOthers(parsed.NativeRep().Expr(), c.loopNames)
}

// namesOthers reports whether an expression has a name that is neither a variable of ours nor
// one of a loop.
func namesOthers(e ast.Expr, loopNames map[string]bool) bool {
	others := false
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.IdentKind {
			name := e.AsIdent()
			others = others || !isVariable(name) && !loopNames[name]
		}
	}))
	return others
}
