package once

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of a key. A key is indexed by its digest, so they bound what is shown and kept, not
// what an index can bear.
const (
	MaxKeyParts = 32   // parts in one key
	MaxKeyBytes = 4096 // bytes of all parts' texts together
)

// Key is an idempotency key: the parts from which it is built, in order. Make one with [KeyOf].
type Key []Part

// Part is one part of a key with its type. The zero value is no part. Parts compare by ==:
// equal type and equal value; numbers by their exact decimal value, so 1 and 1.0 are one part,
// 3 and "3" are two.
type Part struct {
	kind PartKind
	text string
}

// PartKind is the type of a key's part. Its values are part of every identity and never change.
type PartKind byte

// The types that a part can have.
const (
	PartText   PartKind = 1
	PartNumber PartKind = 2
	PartBool   PartKind = 3
	// partAlternative is no value of the sender's: it tells the keys of two alternatives apart.
	partAlternative PartKind = 4
)

// decimalText is a number kept as its literal because no Go number holds it exactly.
type decimalText interface{ DecimalText() string }

// KeyOf makes a key of values as they come from decoded JSON, CEL or Go code: string, bool, the
// integer types, float32, float64, and types with a method DecimalText() string that returns a
// JSON number. A float counts as its shortest decimal form. Anything else, nil and the empty text
// are refused with a *[KeyError].
func KeyOf(values ...any) (Key, error) {
	key := make(Key, len(values))
	for i, v := range values {
		p, err := partOf(v)
		if err != nil {
			err.Index = i
			return nil, err
		}
		key[i] = p
	}
	if err := key.check(); err != nil {
		return nil, err
	}
	return key, nil
}

// PartOf makes one part of a value; [KeyOf] says which values have one. The error is a
// *[KeyError] with index 0.
func PartOf(v any) (Part, error) {
	p, err := partOf(v)
	if err != nil {
		return Part{}, err
	}
	return p, nil
}

// Kind returns the part's type.
func (p Part) Kind() PartKind { return p.kind }

// String returns the part as people read it: the text itself, the number's shortest exact
// decimal form, "true" or "false".
func (p Part) String() string { return p.text }

// Alternative returns the key as the nth of several ways, counted from 1, in which a sender may be
// unique: equal values of two of them are two keys, and so have two identities. The first one is
// the key itself. The number isn't shown by [Key.Strings].
func (k Key) Alternative(n int) Key {
	if n <= 1 {
		return k
	}
	return append(slices.Clip(k), Part{partAlternative, strconv.Itoa(n)})
}

// Strings returns the key's parts as people read them. The types are lost: it is for display
// and for search, never for identity.
func (k Key) Strings() []string {
	out := make([]string, 0, len(k))
	for _, p := range k {
		if p.kind != partAlternative {
			out = append(out, p.text)
		}
	}
	return out
}

// check refuses keys that were put together by hand and aren't complete.
func (k Key) check() error {
	if len(k) == 0 {
		return &KeyError{Index: -1, Reason: "has no parts", Err: ErrKeyIncomplete}
	}
	if len(k) > MaxKeyParts {
		reason := fmt.Sprintf("has more than %d parts", MaxKeyParts)
		return &KeyError{Index: -1, Reason: reason, Err: ErrKeyInvalid}
	}
	size := 0
	for i, p := range k {
		if p.text == "" {
			return &KeyError{Index: i, Reason: "is missing", Err: ErrKeyIncomplete}
		}
		size += len(p.text)
	}
	if size > MaxKeyBytes {
		reason := fmt.Sprintf("is longer than %d bytes", MaxKeyBytes)
		return &KeyError{Index: -1, Reason: reason, Err: ErrKeyInvalid}
	}
	return nil
}

func partOf(v any) (Part, *KeyError) {
	switch v := v.(type) {
	case nil:
		return Part{}, &KeyError{Reason: "is missing", Err: ErrKeyIncomplete}
	case string:
		return textPart(v)
	case bool:
		return Part{PartBool, strconv.FormatBool(v)}, nil
	case int:
		return Part{PartNumber, strconv.Itoa(v)}, nil
	case int64:
		return Part{PartNumber, strconv.FormatInt(v, 10)}, nil
	case int32:
		return Part{PartNumber, strconv.FormatInt(int64(v), 10)}, nil
	case uint64:
		return Part{PartNumber, strconv.FormatUint(v, 10)}, nil
	case uint32:
		return Part{PartNumber, strconv.FormatUint(uint64(v), 10)}, nil
	case float64:
		return floatPart(v)
	case float32:
		return floatPart(float64(v))
	case decimalText:
		return numberPart(v.DecimalText())
	case map[string]any:
		return Part{}, &KeyError{Reason: "is an object", Err: ErrKeyInvalid}
	case []any:
		return Part{}, &KeyError{Reason: "is a list", Err: ErrKeyInvalid}
	}
	return Part{}, &KeyError{Reason: "is neither text, number nor bool", Err: ErrKeyInvalid}
}

func textPart(s string) (Part, *KeyError) {
	switch {
	case s == "":
		return Part{}, &KeyError{Reason: "is empty", Err: ErrKeyIncomplete}
	case !utf8.ValidString(s):
		return Part{}, &KeyError{Reason: "is not valid UTF-8", Err: ErrKeyInvalid}
	case strings.IndexByte(s, 0) >= 0:
		return Part{}, &KeyError{Reason: "holds a NUL", Err: ErrKeyInvalid}
	}
	return Part{PartText, s}, nil
}

func floatPart(f float64) (Part, *KeyError) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Part{}, &KeyError{Reason: "is not a finite number", Err: ErrKeyInvalid}
	}
	return numberPart(strconv.FormatFloat(f, 'e', -1, 64))
}

func numberPart(literal string) (Part, *KeyError) {
	text, ok := canonicalNumber(literal)
	if !ok {
		return Part{}, &KeyError{Reason: "is not a number", Err: ErrKeyInvalid}
	}
	return Part{PartNumber, text}, nil
}
