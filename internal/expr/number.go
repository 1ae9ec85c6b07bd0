package expr

import (
	"errors"
	"reflect"
	"strconv"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"github.com/oncekit/once/internal/value"
)

// number is a [value.Number] in CEL: it has ==, !=, in and an order, but no arithmetic, which
// would have to round it.
type number value.Number

var (
	_ ref.Val         = number("")
	_ traits.Comparer = number("")
)

const numberTypeName = "number"

func numberType() *types.Type { return types.NewObjectType(numberTypeName, traits.ComparerType) }

// numberOptions give CEL the conversions of a number.
func numberOptions() []cel.EnvOption {
	arg := []*cel.Type{cel.ObjectType(numberTypeName)}
	to := func(t ref.Type) cel.OverloadOpt {
		return cel.UnaryBinding(func(v ref.Val) ref.Val { return v.ConvertToType(t) })
	}
	return []cel.EnvOption{
		cel.Function("string",
			cel.Overload("number_to_string", arg, cel.StringType, to(types.StringType))),
		cel.Function("double",
			cel.Overload("number_to_double", arg, cel.DoubleType, to(types.DoubleType))),
	}
}

// Compare implements traits.Comparer: numbers of all kinds by exact value.
func (n number) Compare(other ref.Val) ref.Val { return compareNumbers(n, other) }

func compareNumbers(a, b ref.Val) ref.Val {
	x, xOK := numberValue(a)
	y, yOK := numberValue(b)
	if xOK && yOK {
		if order, ok := value.Compare(x, y); ok {
			return types.Int(order)
		}
	}
	return types.NoSuchOverloadErr()
}

func numberValue(v ref.Val) (any, bool) {
	switch v := v.(type) {
	case types.Int:
		return int64(v), true
	case types.Uint:
		return uint64(v), true
	case types.Double:
		return float64(v), true
	case number:
		return value.Number(v), true
	}
	return nil, false
}

// Equal implements ref.Val: only the same number is equal.
func (n number) Equal(other ref.Val) ref.Val {
	m, ok := other.(number)
	return types.Bool(ok && value.Equal(value.Number(n), value.Number(m)))
}

// ConvertToNative implements ref.Val.
func (n number) ConvertToNative(t reflect.Type) (any, error) {
	if t.Kind() == reflect.String {
		return reflect.ValueOf(string(n)).Convert(t).Interface(), nil
	}
	return nil, errors.New("a number kept as its literal has no other Go type")
}

// ConvertToType implements ref.Val. double(x) rounds, as its author asked for.
func (n number) ConvertToType(t ref.Type) ref.Val {
	switch t.TypeName() {
	case types.StringType.TypeName():
		return types.String(n)
	case types.DoubleType.TypeName():
		f, err := strconv.ParseFloat(string(n), 64)
		if err != nil {
			return types.NewErr("number is out of the range of double")
		}
		return types.Double(f)
	case types.TypeType.TypeName():
		return numberType()
	}
	return types.NewErr("this number has no exact %s", t.TypeName())
}

// Type implements ref.Val.
func (n number) Type() ref.Type { return numberType() }

// Value implements ref.Val.
func (n number) Value() any { return value.Number(n) }

// orderCall lets <, <=, >, >= take a number on the right of another type, for which CEL has no
// overload. Everything else is left to CEL.
type orderCall struct{ interpreter.InterpretableCall }

// Exec implements interpreter.InterpretableV2.
func (c orderCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	out := c.InterpretableCall.Exec(frame)
	if !types.IsError(out) {
		return out
	}
	args := c.Args()
	right, isNumber := args[1].Exec(frame).(number)
	if !isNumber {
		return out
	}
	order, ok := compareNumbers(args[0].Exec(frame), right).(types.Int)
	if !ok {
		return out
	}
	switch c.Function() {
	case operators.Less:
		return types.Bool(order < 0)
	case operators.LessEquals:
		return types.Bool(order <= 0)
	case operators.Greater:
		return types.Bool(order > 0)
	}
	return types.Bool(order >= 0)
}

// replaceCall refuses a replacement whose result would be out of proportion, before it is made.
type replaceCall struct{ interpreter.InterpretableCall }

// maxReplaced bounds a text that replace() makes, in bytes.
const maxReplaced = 4 << 20

// Exec implements interpreter.InterpretableV2.
func (c replaceCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	args := c.Args()
	text, _ := args[0].Exec(frame).(types.String)
	replacement, _ := args[2].Exec(frame).(types.String)
	if (len(text)+1)*(len(replacement)+1) > maxReplaced {
		return types.NewErr("the text that replace() would make is too long")
	}
	return c.InterpretableCall.Exec(frame)
}

// decorate puts orderCall and replaceCall around the calls that need them.
func decorate(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok {
		return i, nil
	}
	switch call.Function() {
	case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		if len(call.Args()) == 2 {
			return orderCall{call}, nil
		}
	case "replace":
		if len(call.Args()) >= 3 {
			return replaceCall{call}, nil
		}
	}
	return i, nil
}
