package write

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oncekit/once/internal/value"
)

// JSON writes a value of [Fields] as JSON, for databases that keep objects and lists as such:
// numbers with all their digits, times as RFC 3339 in UTC. The error is for bytes, which JSON does
// not have, and for what [Check] refuses. It is for writers.
func JSON(v any) (string, error) {
	tree, err := jsonTree(v, 0)
	if err != nil {
		return "", err
	}
	b, err := value.Encode(tree)
	return string(b), err
}

func jsonTree(v any, depth int) (any, error) {
	if depth > MaxDepth+1 {
		return nil, errors.New("is nested too deep")
	}
	switch v := v.(type) {
	case nil, bool, string, int64:
		return v, nil
	case int:
		return int64(v), nil
	case float64:
		if n, ok := value.FromFloat(v); ok {
			return n, nil
		}
		return nil, errors.New("has no finite number")
	case json.Number:
		return value.Number(v), nil
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano), nil
	case []byte:
		return nil, errors.New("JSON holds no bytes")
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			var err error
			if list[i], err = jsonTree(element, depth+1); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		object := make(map[string]any, len(v))
		for name, member := range v {
			var err error
			if object[name], err = jsonTree(member, depth+1); err != nil {
				return nil, err
			}
		}
		return object, nil
	}
	return nil, fmt.Errorf("%T is no value", v)
}

// AppendJSON puts values at the end of a list that is a JSON text; "" is an empty one. ok is false
// if the text is no list.
func AppendJSON(list string, values []any) (text string, ok bool, err error) {
	var before []any
	if list != "" {
		v, err := value.Decode([]byte(list), value.Limits{Depth: value.MaxDepth})
		if err != nil {
			return "", false, nil // no JSON
		}
		if before, ok = v.([]any); !ok {
			return "", false, nil
		}
	}
	tree, err := jsonTree(values, 0)
	if err != nil {
		return "", true, err
	}
	more, _ := tree.([]any) // made of a list
	b, err := value.Encode(append(before, more...))
	return string(b), true, err
}
