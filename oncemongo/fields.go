package oncemongo

import (
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// fields are the values of a task. They are stored as a document, which people and queries can look
// into; those that a document can't hold exactly (a number above 2^63, a name with a dot) are
// stored as a JSON text of all of them.
type fields struct {
	doc  bson.D
	text string
	set  bool
}

// IsZero lets omitempty leave out what is not there.
func (f fields) IsZero() bool { return !f.set }

func (f fields) size() int {
	if f.doc == nil {
		return len(f.text)
	}
	return 64 * len(f.doc)
}

// MarshalBSONValue writes a document or a text.
func (f fields) MarshalBSONValue() (byte, []byte, error) {
	var v any = f.text
	if f.doc != nil {
		v = f.doc
	}
	t, b, err := bson.MarshalValue(v)
	return byte(t), b, err
}

// UnmarshalBSONValue is the reverse of MarshalBSONValue.
func (f *fields) UnmarshalBSONValue(t byte, b []byte) error {
	v := bson.RawValue{Type: bson.Type(t), Value: b}
	f.set = true
	if s, ok := v.StringValueOK(); ok {
		f.text = s
		return nil
	}
	if _, ok := v.DocumentOK(); !ok {
		return fmt.Errorf("%v where a document or a text was written", v.Type)
	}
	f.doc = bson.D{}
	return v.Unmarshal(&f.doc)
}

func encodeFields(m map[string]any) (fields, error) {
	if doc, ok := toDocument(m, 0); ok {
		return fields{doc: doc, set: true}, nil
	}
	text, err := value.Encode(m)
	return fields{text: string(text), set: true}, err
}

// maxNesting bounds the depth of a document; the server's own bound is 100.
const maxNesting = 40

// toDocument writes an object as a document, if that can hold it exactly.
func toDocument(m map[string]any, depth int) (bson.D, bool) {
	out := bson.D{}
	for name, v := range m {
		if name == "" || strings.ContainsAny(name, ".$\x00") || name == "_id" {
			return nil, false
		}
		as, ok := toBSON(v, depth+1)
		if !ok {
			return nil, false
		}
		out = append(out, bson.E{Key: name, Value: as})
	}
	return sortedDocument(out), true
}

func toBSON(v any, depth int) (any, bool) {
	if depth > maxNesting {
		return nil, false
	}
	switch v := v.(type) {
	case nil, bool, int64:
		return v, true
	case float64:
		return v, v != 0 // a zero has a sign that not every server keeps
	case string:
		return v, isText([]byte(v))
	case map[string]any:
		return toDocument(v, depth)
	}
	return nil, false // a list may hold lists, which not every server takes
}

func (f fields) decode() (map[string]any, error) {
	if f.doc != nil {
		return fromDocument(f.doc)
	}
	v, err := value.Decode([]byte(f.text), value.Limits{Depth: value.MaxDepth})
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("fields: %T where an object was written", v)
	}
	return m, nil
}

func fromDocument(doc bson.D) (map[string]any, error) {
	out := make(map[string]any, len(doc))
	for _, e := range doc {
		switch v := e.Value.(type) {
		case nil, bool, int64, float64, string:
			out[e.Key] = v
		case int32: // somebody else's writing
			out[e.Key] = int64(v)
		case bson.D:
			m, err := fromDocument(v)
			if err != nil {
				return nil, err
			}
			out[e.Key] = m
		default:
			return nil, fmt.Errorf("fields: %s holds a %T", e.Key, v)
		}
	}
	return out, nil
}

// encodeTaken writes what a task has done.
func encodeTaken(m map[string]queue.Taken) (fields, error) {
	out := make(map[string]any, len(m))
	for event, taken := range m {
		one := map[string]any{"n": taken.Count}
		if taken.Newer != nil {
			one["newer"] = taken.Newer
		}
		out[event] = one
	}
	return encodeFields(out)
}

func decodeTaken(f fields) (map[string]queue.Taken, error) {
	m, err := f.decode()
	if err != nil {
		return nil, err
	}
	out := make(map[string]queue.Taken, len(m))
	for event, e := range m {
		one, ok := e.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("taken %s: %T where an object was written", event, e)
		}
		n, ok := one["n"].(int64)
		if !ok {
			return nil, fmt.Errorf("taken %s: no count", event)
		}
		out[event] = queue.Taken{Count: n, Newer: one["newer"]}
	}
	return out, nil
}

func sortedDocument(doc bson.D) bson.D {
	slices.SortFunc(doc, func(a, b bson.E) int { return strings.Compare(a.Key, b.Key) })
	return doc
}
