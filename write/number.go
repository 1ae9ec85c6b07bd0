package write

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/value"
)

// Number turns a number of any Go type that Fields hold into the form of [Result.Numbers]: an
// int64, or where no int64 holds it exactly a json.Number with the canonical spelling of
// once.CanonicalNumber. A float64 counts as its shortest decimal form. The error is for anything
// else.
func Number(v any) (any, error) {
	var literal string
	switch n := v.(type) {
	case int:
		return int64(n), nil
	case int64:
		return n, nil
	case float64:
		literal = strconv.FormatFloat(n, 'e', -1, 64)
	case json.Number:
		literal = string(n)
	default:
		return nil, fmt.Errorf("%T is no number", v)
	}
	text, ok := once.CanonicalNumber(literal)
	if !ok || len(literal) > maxNumber {
		return nil, errors.New("not a finite number")
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	return json.Number(text), nil
}

// EncodeNumbers writes [Result.Numbers] as a JSON object; "" for none.
func EncodeNumbers(numbers Fields) (string, error) {
	if len(numbers) == 0 {
		return "", nil
	}
	object := make(map[string]any, len(numbers))
	for name, v := range numbers {
		n, err := Number(v)
		if err != nil {
			return "", fmt.Errorf("encode numbers: %w", err)
		}
		if literal, isLiteral := n.(json.Number); isLiteral {
			n = value.Number(literal)
		}
		object[name] = n
	}
	b, err := value.Encode(object)
	return string(b), err
}

// DecodeNumbers reads what [EncodeNumbers] wrote, and any JSON object of numbers.
func DecodeNumbers(text string) (Fields, error) {
	if text == "" {
		return nil, nil
	}
	var numbers map[string]json.Number
	if err := json.Unmarshal([]byte(text), &numbers); err != nil {
		return nil, fmt.Errorf("decode numbers: %w", once.ErrCorrupt)
	}
	if len(numbers) == 0 {
		return nil, nil
	}
	fields := make(Fields, len(numbers))
	for name, n := range numbers {
		v, err := Number(n)
		if err != nil {
			return nil, fmt.Errorf("decode numbers: %w", once.ErrCorrupt)
		}
		fields[name] = v
	}
	return fields, nil
}
