package expr

import "cel.dev/cel-go/common/ast"

// first is the most usual kind of expression: a path, or the first of several that is there, such
// as body.?data.?seq.orValue(0), or a constant. It is walked without CEL, with the same results.
type first struct {
	optional []chain // the first one that has a value is the result
	last     *chain  // else this one, which has to be there
	constant any     // else this one
	hasConst bool    // else the result is absent
}

// firstOf returns what an expression is, if it is of this kind.
func firstOf(e ast.Expr) (first, bool) {
	if c, ok := chainOf(e); ok && isVariable(c.root) {
		if c.plain() {
			return first{last: &c}, true
		}
		return first{optional: []chain{c}}, true
	}
	switch e.Kind() {
	case ast.LiteralKind:
		return first{}.orValue(e)
	case ast.CallKind:
	default:
		return first{}, false
	}
	call := e.AsCall()
	if !call.IsMemberFunction() || len(call.Args()) != 1 {
		return first{}, false
	}
	f, ok := firstOf(call.Target())
	if !ok || len(f.optional) == 0 || f.last != nil || f.hasConst {
		return first{}, false
	}
	switch arg := call.Args()[0]; call.FunctionName() {
	case "or":
		other, ok := firstOf(arg)
		if !ok || len(other.optional) == 0 || other.last != nil || other.hasConst {
			return first{}, false
		}
		f.optional = append(f.optional, other.optional...)
		return f, true
	case "orValue":
		return f.orValue(arg)
	}
	return first{}, false
}

func (f first) orValue(arg ast.Expr) (first, bool) {
	if arg.Kind() == ast.LiteralKind {
		constant, err := fromCEL(arg.AsLiteral(), 0)
		f.constant, f.hasConst = constant, true
		return f, err == nil
	}
	other, ok := firstOf(arg)
	if !ok || len(other.optional) > 0 && other.last == nil && !other.hasConst {
		return first{}, false // an optional as the value of another
	}
	f.optional = append(f.optional, other.optional...)
	f.last, f.constant, f.hasConst = other.last, other.constant, other.hasConst
	return f, true
}

// walk returns the value of the first path that is there.
func (f *first) walk(vars *Vars) (any, *brokenError) {
	for i := range f.optional {
		v, err := f.optional[i].walk(vars)
		if err != nil || v != Absent {
			return v, err
		}
	}
	switch {
	case f.last != nil:
		return f.last.walk(vars)
	case f.hasConst:
		return f.constant, nil
	}
	return Absent, nil
}
