package expr

import (
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common/ast"
)

// uses is what an expression reads.
type uses struct {
	chains []chain // the longest paths, in the order in which they stand
	reads  []read  // calls of functions of ours
}

// read is a call of json or urldecode on a path.
type read struct {
	id   int64 // in CEL's tree
	path string
}

// argument returns the path that a call reads; empty: it reads something else.
func (u uses) argument(call int64) string {
	for _, r := range u.reads {
		if r.id == call {
			return r.path
		}
	}
	return ""
}

// usesOf collects the paths of an expression.
func usesOf(a *ast.AST) uses {
	c := newCollector()
	c.visit(a.Expr())
	slices.SortStableFunc(c.found, func(x, y chain) int { return int(x.id - y.id) })
	return uses{chains: c.found, reads: c.reads}
}

// collector walks CEL's tree and knows which names are variables of loops.
type collector struct {
	locals    map[string]int  // variables of the loops around
	loopNames map[string]bool // variables of any loop
	found     []chain
	reads     []read
}

func newCollector() *collector {
	return &collector{locals: map[string]int{}, loopNames: map[string]bool{}}
}

func (c *collector) visit(e ast.Expr) {
	tested := ""
	if e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly() {
		tested = e.AsSelect().FieldName() // has(a.b) reads a, and b may be absent
		e = e.AsSelect().Operand()
	}
	if ch, ok := chainOf(e); ok {
		ch.local, ch.tested = c.locals[ch.root] > 0, tested
		if ch.local || isVariable(ch.root) {
			c.found = append(c.found, ch)
		}
		return
	}
	switch e.Kind() {
	case ast.SelectKind:
		c.visit(e.AsSelect().Operand())
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			c.visit(call.Target())
		}
		for _, arg := range call.Args() {
			c.visit(arg)
		}
		switch call.FunctionName() {
		case jsonFunction, urldecodeFunction:
			if ch, ok := chainOf(call.Args()[0]); ok {
				c.reads = append(c.reads, read{e.ID(), ch.String()})
			}
		}
	case ast.ListKind:
		for _, el := range e.AsList().Elements() {
			c.visit(el)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			c.visit(entry.AsMapEntry().Key())
			c.visit(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			c.visit(field.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		c.visitLoop(e.AsComprehension())
	}
}

func (c *collector) visitLoop(loop ast.ComprehensionExpr) {
	c.visit(loop.IterRange())
	c.visit(loop.AccuInit())
	names := []string{loop.IterVar(), loop.IterVar2(), loop.AccuVar()}
	for _, name := range names {
		c.locals[name]++
		c.loopNames[name] = true
	}
	c.visit(loop.LoopCondition())
	c.visit(loop.LoopStep())
	c.visit(loop.Result())
	for _, name := range names {
		c.locals[name]--
	}
}

// check refuses what could never be there: header names are written in lower case.
func (u uses) check(a *ast.AST, text string, pos Position) error {
	for _, c := range u.chains {
		steps := c.steps
		if c.root == "auth" && len(steps) > 0 {
			if steps[0].name != "header" {
				before := text[:max(strings.Index(text, "auth"), 0)]
				return &CompileError{
					Offset: int(pos) + utf8.RuneCountInString(before),
					Msg:    "auth has header alone: auth.header['x-account']",
				}
			}
			steps = steps[1:]
		} else if c.root != "header" {
			continue
		}
		if c.local || len(steps) == 0 {
			continue
		}
		name := steps[0].name
		if name == strings.ToLower(name) {
			continue
		}
		offset := max(strings.Index(text, name), 0)
		return &CompileError{
			Offset: int(pos) + utf8.RuneCountInString(text[:offset]),
			Msg:    "header names are written in lower case: " + strings.ToLower(name),
		}
	}
	return nil
}

// References returns what the program uses, sorted: a variable's name ("body"), and for task,
// resource and effect with the field ("task.roadway"); "task" alone if it is used as a whole.
func (p *Program) References() []string { return references(p.uses) }

func references(all ...uses) []string {
	var names []string
	for _, u := range all {
		for _, c := range u.chains {
			if c.local {
				continue
			}
			name := c.root
			switch c.root {
			case "task", "resource", "effect":
				switch {
				case len(c.steps) > 0 && !c.steps[0].isIndex:
					name += "." + c.steps[0].name
				case len(c.steps) == 0 && c.tested != "":
					name += "." + c.tested
				}
			}
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
