package write

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/value"
)

// Names of the members that stand for what JSON has no value for. No field begins with "$", so
// they can't be anything else.
const (
	tagTime   = "$time"
	tagBytes  = "$bytes"
	tagDouble = "$double"
	tagNumber = "$number"
)

// The kinds of changes, as they are written. They never change.
const (
	kindInsert     = "insert"
	kindUpsert     = "upsert"
	kindIncrement  = "increment"
	kindAppend     = "append"
	kindTransition = "transition"
)

// Digest returns the fingerprint of what an event does: its target, its key with the type, its
// change. Numbers count by their exact value whatever Go type holds them, times in UTC, members in
// any order; an absent part equals an empty one. The event's id is no part of it. The error is for
// an event that [Check] refuses.
func Digest(e Event) (once.Fingerprint, error) {
	change, err := changeTree(e.Change, true)
	if err != nil {
		return once.Fingerprint{}, fmt.Errorf("digest event: %w", err)
	}
	key, err := plainKey(e.Key)
	if err != nil {
		return once.Fingerprint{}, fmt.Errorf("digest event: %w", err)
	}
	text, err := value.Digest(map[string]any{"in": e.In, "key": key, "change": change}, nil)
	if err != nil {
		return once.Fingerprint{}, fmt.Errorf("digest event: %w", err)
	}
	return once.NewFingerprint(once.FingerprintEventV1, [sha256.Size]byte(text[1:])), nil
}

// ContentDigest checks the id of an event whose change is a function of the user, and returns the
// fingerprint of the content that stands for it, as once.ContentID sees it. The error is an
// *[EventError]. It is for writers.
func ContentDigest(id string, content any) (once.Fingerprint, error) {
	if err := checkText("ID", id, MaxID); err != nil {
		return once.Fingerprint{}, err
	}
	text, err := once.ContentID(content)
	if err != nil {
		return once.Fingerprint{}, &EventError{Field: "content", Reason: err.Error()}
	}
	return once.ParseFingerprint(text)
}

func plainKey(key any) (any, error) {
	switch k := key.(type) {
	case int:
		return int64(k), nil
	case int64, string:
		return k, nil
	}
	return nil, checkKey(key)
}

// EncodeKey writes a key as JSON: a text in quotes, or an integer.
func EncodeKey(key any) (string, error) {
	k, err := plainKey(key)
	if err != nil {
		return "", err
	}
	b, err := value.Encode(k)
	return string(b), err
}

// DecodeKey reads what [EncodeKey] wrote: a string or an int64.
func DecodeKey(text string) (any, error) {
	v, err := value.Decode([]byte(text), value.Limits{})
	if err != nil {
		return nil, fmt.Errorf("decode key: %w", err)
	}
	switch v.(type) {
	case string, int64:
		return v, nil
	}
	return nil, errors.New("decode key: it is neither a text nor an integer")
}

// EncodeChange writes a change as JSON that [DecodeChange] reads as the same change: numbers with
// all digits and their type, bytes and times kept (a time in UTC, without a monotonic reading).
func EncodeChange(c Change) ([]byte, error) {
	tree, err := changeTree(c, false)
	if err != nil {
		return nil, fmt.Errorf("encode change: %w", err)
	}
	b, err := value.Encode(tree)
	if err != nil {
		return nil, fmt.Errorf("encode change: %w", err)
	}
	return b, nil
}

// changeTree is a change as a JSON value. canonical drops the Go type of numbers.
func changeTree(c Change, canonical bool) (map[string]any, error) {
	t := tree{canonical: canonical, out: map[string]any{}}
	switch ch := c.(type) {
	case Insert:
		t.out["do"] = kindInsert
		t.fields("set", ch.Set)
	case Upsert:
		t.out["do"] = kindUpsert
		t.fields("set", ch.Set)
		t.fields("set_on_insert", ch.SetOnInsert)
		t.fields("increment", ch.Increment)
		t.text("newer", ch.Newer)
	case Increment:
		t.out["do"] = kindIncrement
		t.fields("by", ch.By)
		t.fields("set_on_insert", ch.SetOnInsert)
	case Append:
		t.out["do"] = kindAppend
		t.text("to", ch.To)
		t.out["values"] = t.value(ch.Values, 0)
		t.fields("set_on_insert", ch.SetOnInsert)
	case Transition:
		t.out["do"] = kindTransition
		t.text("field", ch.Field)
		from := make([]any, len(ch.From))
		for i, s := range ch.From {
			from[i] = s
		}
		t.out["from"] = from
		t.text("to", ch.To)
		t.fields("set", ch.Set)
		t.text("newer", ch.Newer)
	default:
		return nil, refuse("Change", fmt.Sprintf("is a Go %T, which is no change", c))
	}
	return t.out, t.err
}

// tree builds JSON values and keeps the first error.
type tree struct {
	canonical bool
	out       map[string]any
	err       error
}

func (t *tree) text(name, s string) {
	if s != "" {
		t.out[name] = s
	}
}

func (t *tree) fields(name string, f Fields) {
	if len(f) > 0 {
		t.out[name] = t.value(map[string]any(f), 0)
	}
}

func (t *tree) value(v any, depth int) any {
	if depth > MaxDepth+1 {
		t.fail(refuse("Change", "is nested too deep"))
		return nil
	}
	switch v := v.(type) {
	case nil, bool, string, int64:
		return v
	case int:
		return int64(v)
	case float64:
		return t.double(v)
	case json.Number:
		if t.canonical {
			return value.Number(v)
		}
		return map[string]any{tagNumber: string(v)}
	case []byte:
		return map[string]any{tagBytes: base64.StdEncoding.EncodeToString(v)}
	case time.Time:
		return map[string]any{tagTime: v.UTC().Format(time.RFC3339Nano)}
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = t.value(element, depth+1)
		}
		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for name, member := range v {
			object[name] = t.value(member, depth+1)
		}
		return object
	}
	t.fail(refuse("Change", fmt.Sprintf("has a Go %T, which is no value", v)))
	return nil
}

func (t *tree) double(f float64) any {
	n, ok := value.FromFloat(f)
	switch {
	case !ok:
		t.fail(refuse("Change", "has no finite number"))
		return nil
	case t.canonical:
		return n
	}
	return map[string]any{tagDouble: strconv.FormatFloat(f, 'g', -1, 64)}
}

func (t *tree) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}
