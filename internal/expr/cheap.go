package expr

import (
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

// maxCheapReads is how many functions that read whole texts a cheap expression may call.
const maxCheapReads = 8

// isCheap reports whether the work of an expression is bounded by its own length and a few readings
// of the message: no loop, and none of the functions that build texts or compare lists. Then
// counting the cost isn't needed, which would take longer than the evaluation.
func isCheap(e ast.Expr) bool {
	cheap, reads := true, 0
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ComprehensionKind:
			cheap = false
		case ast.CallKind:
			switch call := e.AsCall(); call.FunctionName() {
			case jsonFunction, urldecodeFunction:
				reads++
			case operators.Equals, operators.NotEquals:
				args := call.Args()
				cheap = cheap && (isSmall(args[0]) || isSmall(args[1]))
			case operators.In:
				cheap = cheap && isSmall(call.Args()[1])
			default:
				cheap = cheap && isCheapCall(call.FunctionName())
			}
		}
	}))
	return cheap && reads <= maxCheapReads
}

// isSmall reports whether a value is as small as its writing: to compare with it takes no longer.
func isSmall(e ast.Expr) bool {
	switch e.Kind() {
	case ast.LiteralKind:
		return true
	case ast.IdentKind:
		return !isVariable(e.AsIdent()) // the name of a type; loops are never cheap
	case ast.CallKind:
		return e.AsCall().FunctionName() == "type"
	case ast.ListKind:
		for _, el := range e.AsList().Elements() {
			if !isSmall(el) {
				return false
			}
		}
		return true
	}
	return false
}

func isCheapCall(name string) bool {
	switch name {
	case "_?_:_", "_&&_", "_||_", "!_", "_?._", "_[_]", "_[?_]", "orValue", "or", "hasValue",
		"value", "optional.of", "optional.none", "optional.ofNonZeroValue", "size", "_<_", "_<=_",
		"_>_", "_>=_", "type", "string":
		return true
	}
	return false
}
