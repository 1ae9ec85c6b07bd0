package value

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrNoText is returned by [Text] for what has no text of its own.
var ErrNoText = errors.New("has no text")

// Text returns the text of a scalar: "3" for 3, "true" for true, a text itself; a [Number] as it
// came. Objects, lists and null are an error that wraps [ErrNoText].
func Text(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case uint64:
		return strconv.FormatUint(v, 10), nil
	case Number:
		return string(v), nil
	case float64:
		if s, ok := canonicalNumber(v); ok {
			return s, nil
		}
	}
	return "", fmt.Errorf("%s %w", KindOf(v), ErrNoText)
}

// KindOf names a value's kind for people: "an object", "a list", "null", "a text", "a number",
// "true or false".
func KindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case int64, uint64, float64, Number:
		return "a number"
	}
	return fmt.Sprintf("a Go %T", v)
}

// Normalize turns the Go values that YAML readers and callers have (all integer and float types,
// map[string]any, []any, []string) into a value. It copies objects and lists; what is none of
// this is an error. Floats are taken as [FromFloat] does.
func Normalize(v any) (any, error) { return normalize(v, 0) }

func normalize(v any, depth int) (any, error) {
	if depth > MaxDepth {
		return nil, errors.New("nested too deep")
	}
	switch v := v.(type) {
	case nil, bool, string, int64:
		return v, nil
	case float64:
		if n, ok := FromFloat(v); ok {
			return n, nil
		}
		return nil, errors.New("no finite number")
	case Number:
		if _, ok := canonicalNumber(v); !ok {
			return nil, errors.New("no number")
		}
		return v, nil
	case []string:
		out := make([]any, len(v))
		for i, s := range v {
			out[i] = s
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			n, err := normalize(e, depth+1)
			if err != nil {
				return nil, err
			}
			out[i] = n
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, e := range v {
			n, err := normalize(e, depth+1)
			if err != nil {
				return nil, err
			}
			out[name] = n
		}
		return out, nil
	}
	return normalizeNumber(v)
}

func normalizeNumber(v any) (any, error) {
	switch v := v.(type) {
	case int:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case int8:
		return int64(v), nil
	case uint:
		return fromUint(uint64(v)), nil
	case uint64:
		return fromUint(v), nil
	case uint32:
		return int64(v), nil
	case uint16:
		return int64(v), nil
	case uint8:
		return int64(v), nil
	case float32:
		return normalize(float64(v), 0)
	}
	return nil, fmt.Errorf("%T is no value", v)
}

func fromUint(u uint64) any {
	if u <= 1<<63-1 {
		return int64(u)
	}
	return u
}
