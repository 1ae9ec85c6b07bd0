package value

import (
	"errors"

	"github.com/oncekit/once"
)

var errSkeleton = errors.New("being built")

// Number is a number that no Go number type holds exactly, as its literal.
type Number string

// DecimalText returns the literal; it lets [once.KeyOf] take a Number.
func (n Number) DecimalText() string { return string(n) }

// Limits bound what Decode accepts. The zero value works.
type Limits struct {
	Depth int // nested objects and lists; default 64
}

// SyntaxError says where and why a text isn't acceptable JSON.
type SyntaxError struct {
	Path   string // such as body.items[0].t, without the leading "body"; empty at the top
	Offset int    // in bytes, in the text as it came
	Msg    string // for people
}

func (e *SyntaxError) Error() string { return e.Msg }

// Decode reads one JSON value strictly. Errors are *[SyntaxError].
func Decode(b []byte, lim Limits) (any, error) { return nil, errSkeleton }

// Encode writes a value as compact JSON with sorted members and exact numbers.
func Encode(v any) ([]byte, error) { return nil, errSkeleton }

// Normalize turns what a YAML or Go caller has (int, map[string]any, []any, …) into a value.
func Normalize(v any) (any, error) { return nil, errSkeleton }

// Path names a place in a value: members and list indexes.
type Path struct{}

// ParsePath reads a path such as body.items[0].t; the prefix body is dropped.
func ParsePath(text string) (Path, error) { return Path{}, errSkeleton }

// Digest returns the fingerprint of a value's content without what ignore names. The error is
// for Go values that are no value of this package, which Decode never returns.
func Digest(v any, ignore []Path) (once.Fingerprint, error) {
	return once.Fingerprint{}, errSkeleton
}

// Compare compares two scalars; ok is false if they have no order.
func Compare(a, b any) (order int, ok bool) { return 0, false }

// Equal reports whether two values have the same content; numbers by exact value.
func Equal(a, b any) bool { return false }

// Text returns the text of a scalar; an object, a list and null are an error.
func Text(v any) (string, error) { return "", errSkeleton }
