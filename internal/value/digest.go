package value

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"

	"github.com/oncekit/once"

	"github.com/go-json-experiment/json/jsontext"
)

// Digest returns the fingerprint of a value's content: members in the order of their UTF-16 code
// units and texts as in RFC 8785, numbers by their exact decimal value (1, 1.0 and 1e0 are one;
// RFC 8785 would round them to doubles), without the members and elements that ignore names. The
// error is for Go values that are no values of this package, which Decode never returns.
func Digest(v any, ignore []Path) (once.Fingerprint, error) {
	text, err := AppendCanonicalValue(make([]byte, 0, 512), v, ignore)
	if err != nil {
		return once.Fingerprint{}, err
	}
	return once.NewFingerprint(once.FingerprintJSONV1, sha256.Sum256(text)), nil
}

// AppendCanonicalValue appends the writing of which [Digest] is the digest: what [AppendCanonical]
// appends for the value's text, without what ignore names.
func AppendCanonicalValue(dst []byte, v any, ignore []Path) ([]byte, error) {
	w := writer{buf: dst, canonical: true}
	if err := w.value(v, ignore, 0); err != nil {
		return dst, fmt.Errorf("digest value: %w", err)
	}
	return w.buf, nil
}

// Encode writes a value as compact JSON: members sorted, numbers with all their digits and
// [Number] as it came, no escapes beyond those that JSON demands. The error is for Go values that
// are no values of this package, and for what is nested deeper than [MaxDepth]. What Encode writes,
// Decode with a limit of MaxDepth reads as an equal value.
func Encode(v any) ([]byte, error) { return AppendEncode(nil, v) }

// AppendEncode is [Encode] into a buffer that the caller has.
func AppendEncode(dst []byte, v any) ([]byte, error) {
	w := writer{buf: dst}
	if err := w.value(v, nil, 0); err != nil {
		return dst, fmt.Errorf("encode value: %w", err)
	}
	return w.buf, nil
}

// writer writes JSON; canonical numbers have one spelling for each value.
type writer struct {
	buf       []byte
	canonical bool
}

// value writes v, which lies depth steps below the top. paths are those that lead through v.
func (w *writer) value(v any, paths []Path, depth int) error {
	if depth > MaxDepth {
		return fmt.Errorf("nested too deep")
	}
	var err error
	switch v := v.(type) {
	case nil:
		w.buf = append(w.buf, "null"...)
	case bool:
		w.buf = strconv.AppendBool(w.buf, v)
	case string:
		if w.buf, err = jsontext.AppendQuote(w.buf, v); err != nil {
			return fmt.Errorf("text is not valid UTF-8")
		}
	case int64:
		w.buf = strconv.AppendInt(w.buf, v, 10)
	case uint64:
		w.buf = strconv.AppendUint(w.buf, v, 10)
	case float64, Number:
		return w.number(v)
	case []any:
		return w.list(v, paths, depth)
	case map[string]any:
		return w.object(v, paths, depth)
	default:
		return fmt.Errorf("%T is no value", v)
	}
	return nil
}

// MaxDepth is the deepest nesting that is written. It stops values that hold themselves, and leaves
// room for trees that wrap a decoded value: a source may let in bodies of up to 1000 levels.
const MaxDepth = 1100

func (w *writer) number(v any) error {
	if f, isFloat := v.(float64); isFloat && isPlainFloat(f) {
		w.buf = strconv.AppendFloat(w.buf, f, 'f', -1, 64)
		return nil
	}
	text, ok := canonicalNumber(v)
	if !ok {
		return fmt.Errorf("%T holds no finite number", v)
	}
	if n, isNumber := v.(Number); isNumber && !w.canonical {
		text = string(n)
	}
	w.buf = append(w.buf, text...)
	return nil
}

func (w *writer) list(l []any, paths []Path, depth int) error {
	w.buf = append(w.buf, '[')
	first := true
	for i, v := range l {
		below, skip := descend(paths, depth, step{index: i})
		if skip {
			continue
		}
		if !first {
			w.buf = append(w.buf, ',')
		}
		first = false
		if err := w.value(v, below, depth+1); err != nil {
			return err
		}
	}
	w.buf = append(w.buf, ']')
	return nil
}

func (w *writer) object(m map[string]any, paths []Path, depth int) error {
	var room [16]string // most objects are small: no allocation for their names
	names := room[:0]
	for name := range m {
		names = append(names, name)
	}
	slices.SortFunc(names, compareUTF16[string])
	w.buf = append(w.buf, '{')
	first := true
	for _, name := range names {
		below, skip := descend(paths, depth, step{name: name})
		if skip {
			continue
		}
		if !first {
			w.buf = append(w.buf, ',')
		}
		first = false
		var err error
		if w.buf, err = jsontext.AppendQuote(w.buf, name); err != nil {
			return fmt.Errorf("name is not valid UTF-8")
		}
		w.buf = append(w.buf, ':')
		if err := w.value(m[name], below, depth+1); err != nil {
			return err
		}
	}
	w.buf = append(w.buf, '}')
	return nil
}

// descend returns the paths that lead on through the step at depth; skip is true if one ends
// there.
func descend(paths []Path, depth int, s step) (below []Path, skip bool) {
	for _, p := range paths {
		if depth >= len(p.steps) || p.steps[depth] != s {
			continue
		}
		if len(p.steps) == depth+1 {
			return nil, true
		}
		below = append(below, p)
	}
	return below, false
}

// compareUTF16 orders texts by UTF-16 code units (RFC 8785, section 3.2.3). UTF-8 bytes give the
// same order but for one thing: characters from U+10000, which UTF-16 writes with surrogates
// (0xD800–0xDFFF), come before U+E000–U+FFFF.
func compareUTF16[T string | []byte](a, b T) int {
	const leadE000, leadU10000 = 0xEE, 0xF0 // first bytes of UTF-8 for U+E000 and U+10000
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x >= leadE000 && y >= leadE000 && (x >= leadU10000) != (y >= leadU10000) {
			x, y = y, x
		}
		if x < y {
			return -1
		}
		return 1
	}
	return len(a) - len(b)
}
