package writetest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oncekit/once/write"
)

// Model is a writer in memory, as simple as can be: what all others are compared with. Safe for
// concurrent use.
type Model struct {
	mu      sync.Mutex
	targets write.Targets
	docs    map[place]write.Fields
	events  map[string]write.Record
}

type place struct {
	in  string
	key any
}

func placeOf(in string, key any) place {
	if n, isInt := key.(int); isInt {
		key = int64(n)
	}
	return place{in, key}
}

// NewModel makes an empty one with the suite's targets.
func NewModel() *Model {
	targets, err := write.NewTargets(Targets(), "id")
	if err != nil {
		panic(err) // Targets is right
	}
	return &Model{
		targets: targets, docs: map[place]write.Fields{}, events: map[string]write.Record{},
	}
}

// Targets are those of the suite.
func Targets() []write.Target { return []write.Target{{Name: "accounts"}, {Name: "counters"}} }

// Read returns a document's members, numbers as write.Number gives them.
func (m *Model) Read(in string, key any) (write.Fields, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	doc, found := m.docs[placeOf(in, key)]
	return maps.Clone(doc), found
}

// Write is that of write.Writer.
func (m *Model) Write(ctx context.Context, e write.Event) (write.Result, error) {
	if err := ctx.Err(); err != nil {
		return write.Result{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.write(e)
}

// WriteAll is that of write.Writer.
func (m *Model) WriteAll(ctx context.Context, events []write.Event) ([]write.Result, error) {
	if err := write.CheckBatch(events); err != nil {
		return nil, err
	}
	results := make([]write.Result, len(events))
	for i, e := range events {
		r, err := m.Write(ctx, e)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r.Err = err
		results[i] = r
	}
	return results, nil
}

func (m *Model) write(e write.Event) (write.Result, error) {
	if _, err := m.targets.Check(e); err != nil {
		return write.Result{}, err
	}
	digest, err := write.Digest(e)
	if err != nil {
		return write.Result{}, err
	}
	if r, found := m.events[e.ID]; found {
		return r.Answer(digest), nil
	}
	at := placeOf(e.In, e.Key)
	doc, numbers, outcome, err := change(e, m.docs[at])
	if err != nil {
		return write.Result{}, err
	}
	if outcome == write.Applied {
		m.docs[at] = doc
	}
	m.events[e.ID] = write.Record{
		Digest:  digest,
		First:   write.First{Outcome: outcome, At: time.Now(), In: e.In, Key: at.key},
		Numbers: numbers,
	}
	return write.Result{Outcome: outcome, Numbers: numbers}, nil
}

// change returns a document as it is after an event; before is nil if there is none.
func change(e write.Event, before write.Fields) (
	doc, numbers write.Fields, outcome write.Outcome, err error,
) {
	doc = maps.Clone(before)
	made := doc == nil
	if made {
		doc = write.Fields{}
	}
	switch ch := e.Change.(type) {
	case write.Insert:
		if !made {
			return nil, nil, "", write.ErrExists
		}
		set(doc, ch.Set)
	case write.Upsert:
		if isStale(before, ch.Set, ch.Newer) {
			return before, nil, write.Stale, nil
		}
		set(doc, ch.Set)
		if made {
			set(doc, ch.SetOnInsert)
		}
		numbers, err = add(e.In, doc, ch.Increment)
	case write.Increment:
		if made {
			set(doc, ch.SetOnInsert)
		}
		numbers, err = add(e.In, doc, ch.By)
	case write.Append:
		if made {
			set(doc, ch.SetOnInsert)
		}
		err = appendTo(e.In, doc, ch)
	case write.Transition:
		if isStale(before, ch.Set, ch.Newer) {
			return before, nil, write.Stale, nil
		}
		state, _ := before[ch.Field].(string)
		if made || !slices.Contains(ch.From, state) {
			return nil, nil, "", &write.StateError{
				Missing: made, State: state, From: ch.From, To: ch.To,
			}
		}
		set(doc, ch.Set)
		doc[ch.Field] = ch.To
	}
	return doc, numbers, write.Applied, err
}

func set(doc, fields write.Fields) {
	for name, v := range fields {
		if v = plain(v); v == nil {
			delete(doc, name)
		} else {
			doc[name] = v
		}
	}
}

// plain is a value as documents are compared: numbers by write.Number, times in UTC.
func plain(v any) any {
	switch v := v.(type) {
	case int, int64, float64, json.Number:
		n, err := write.Number(v)
		if err != nil {
			panic(err) // checked
		}
		return n
	case time.Time:
		return v.UTC()
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = plain(element)
		}
		return list
	}
	return v
}

func add(in string, doc, by write.Fields) (write.Fields, error) {
	if len(by) == 0 {
		return nil, nil
	}
	numbers := write.Fields{}
	for name, v := range by {
		there, found := doc[name]
		if !found {
			there = int64(0)
		}
		sum, ok := plus(there, plain(v))
		if !ok {
			return nil, &write.ShapeError{In: in, Field: name, Reason: "holds no number"}
		}
		doc[name], numbers[name] = sum, sum
	}
	return numbers, nil
}

// plus adds exactly.
func plus(a, b any) (any, bool) {
	x, okX := new(big.Rat).SetString(fmt.Sprint(a))
	y, okY := new(big.Rat).SetString(fmt.Sprint(b))
	if _, isText := a.(string); isText || !okX || !okY {
		return nil, false
	}
	const digits = 12
	text := new(big.Rat).Add(x, y).FloatString(digits)
	return plain(json.Number(strings.TrimSuffix(text, "."))), true
}

func appendTo(in string, doc write.Fields, ch write.Append) error {
	there, found := doc[ch.To]
	list, isList := there.([]any)
	if found && !isList {
		return &write.ShapeError{In: in, Field: ch.To, Reason: "holds no list"}
	}
	values, _ := plain(ch.Values).([]any)
	doc[ch.To] = append(slices.Clone(list), values...)
	return nil
}

// isStale reports whether a document is as new as what would be set, or newer.
func isStale(before, set write.Fields, newer string) bool {
	there, found := before[newer]
	if newer == "" || !found {
		return false
	}
	switch v := plain(set[newer]).(type) {
	case string:
		s, _ := there.(string)
		return v <= s
	case time.Time:
		t, _ := there.(time.Time)
		return !v.After(t)
	default:
		x, okX := new(big.Rat).SetString(fmt.Sprint(v))
		y, okY := new(big.Rat).SetString(fmt.Sprint(there))
		return okX && okY && x.Cmp(y) <= 0
	}
}

var _ write.Writer = (*Model)(nil)
