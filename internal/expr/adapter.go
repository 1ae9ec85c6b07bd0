package expr

import (
	"fmt"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/oncekit/once/internal/value"
)

// Absent is the result of an expression whose optional has no value. Compare with ==.
var Absent any = absent{}

type absent struct{}

// maxResultDepth bounds the nesting of what an expression builds.
const maxResultDepth = 64

// adapter shows values of internal/value to CEL without copying them.
type adapter struct{}

// NativeToValue implements types.Adapter.
func (a adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case nil:
		return types.NullValue
	case string:
		return types.String(v)
	case bool:
		return types.Bool(v)
	case int64:
		return types.Int(v)
	case uint64:
		if v <= 1<<63-1 {
			return types.Int(v)
		}
		return types.Uint(v)
	case float64:
		return types.Double(v)
	case value.Number:
		return number(v)
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	case *fields:
		return fieldMap{v}
	case ref.Val:
		return v
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}

// fromCEL turns a result into a value, or [Absent].
func fromCEL(v ref.Val, depth int) (any, error) {
	if depth > maxResultDepth {
		return nil, fmt.Errorf("the result is nested too deep")
	}
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.String:
		return string(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		return value.Normalize(uint64(v))
	case types.Double:
		n, ok := value.FromFloat(float64(v))
		if !ok {
			return nil, fmt.Errorf("the result is not a finite number")
		}
		return n, nil
	case number:
		return value.Number(v), nil
	case *types.Optional:
		if !v.HasValue() {
			return Absent, nil
		}
		return fromCEL(v.GetValue(), depth)
	case *types.Err:
		return nil, v
	case traits.Lister:
		return listFromCEL(v, depth)
	case traits.Mapper:
		return mapFromCEL(v, depth)
	}
	return nil, fmt.Errorf("the result is of type %s, which is no JSON", v.Type().TypeName())
}

func listFromCEL(l traits.Lister, depth int) (any, error) {
	if raw, ok := l.Value().([]any); ok {
		return raw, nil // as it came in
	}
	out := []any{}
	for it := l.Iterator(); it.HasNext() == types.True; {
		v, err := fromCEL(it.Next(), depth+1)
		if err != nil {
			return nil, err
		}
		if v != Absent {
			out = append(out, v)
		}
	}
	return out, nil
}

func mapFromCEL(m traits.Mapper, depth int) (any, error) {
	if raw, ok := m.Value().(map[string]any); ok {
		return raw, nil // as it came in
	}
	out := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("the result has a member whose name is no text")
		}
		v, err := fromCEL(m.Get(key), depth+1)
		if err != nil {
			return nil, err
		}
		if v != Absent {
			out[string(name)] = v
		}
	}
	return out, nil
}
