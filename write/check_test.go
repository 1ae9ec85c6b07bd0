package write_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/write"
)

// event is a valid one whose change is given.
func event(c write.Change) write.Event {
	return write.Event{ID: "e1", In: "accounts", Key: "a1", Change: c}
}

func nested(depth int) any {
	var v any = "core"
	for range depth {
		v = []any{v}
	}
	return v
}

func TestAWrongEventIsRefusedAndSaysWhere(t *testing.T) {
	ok := write.Insert{Set: write.Fields{"n": 1}}
	set := func(v any) write.Event { return event(write.Insert{Set: write.Fields{"f": v}}) }
	named := func(name string) write.Event {
		return event(write.Insert{Set: write.Fields{name: 1}})
	}
	for _, c := range []struct {
		event write.Event
		field string
		large bool
	}{
		{write.Event{In: "t", Key: "k", Change: ok}, "ID", false},
		{write.Event{ID: strings.Repeat("x", 1<<20), In: "t", Key: "k", Change: ok}, "ID", true},
		{write.Event{ID: strings.Repeat("x", 513), In: "t", Key: "k", Change: ok}, "ID", true},
		{write.Event{ID: "a\x00", In: "t", Key: "k", Change: ok}, "ID", false},
		{write.Event{ID: "\xff", In: "t", Key: "k", Change: ok}, "ID", false},
		{write.Event{ID: "e", Key: "k", Change: ok}, "In", false},
		{write.Event{ID: "e", In: "t", Change: ok}, "Key", false},
		{write.Event{ID: "e", In: "t", Key: "", Change: ok}, "Key", false},
		{write.Event{ID: "e", In: "t", Key: 1.5, Change: ok}, "Key", false},
		{write.Event{ID: "e", In: "t", Key: strings.Repeat("x", 513), Change: ok}, "Key", true},
		{event(nil), "Change", false},
		{event(&ok), "Change", false},
		{event(write.Upsert{}), "Change", false},
		{event(write.Upsert{Newer: "v"}), "Change", false},
		{event(write.Increment{}), "Change", false},
		{event(write.Increment{SetOnInsert: write.Fields{"a": 1}}), "Change", false},
		{event(write.Increment{By: write.Fields{"n": "1"}}), "By.n", false},
		{event(write.Increment{By: write.Fields{"n": true}}), "By.n", false},
		{event(write.Append{Values: []any{1}}), "To", false},
		{event(write.Append{To: "l"}), "Values", false},
		{event(write.Transition{Field: "s", To: "b"}), "From", false},
		{event(write.Transition{Field: "s", From: []string{"a"}}), "To", false},
		{event(write.Transition{From: []string{"a"}, To: "b"}), "Field", false},
		{event(write.Transition{Field: "s", From: []string{""}, To: "b"}), "From", false},
		{set(math.NaN()), "Set.f", false},
		{set(math.Inf(-1)), "Set.f", false},
		{set(json.Number("one")), "Set.f", false},
		{set(json.Number(strings.Repeat("1", 401))), "Set.f", false},
		{set("a\x00b"), "Set.f", false},
		{set("\xff"), "Set.f", false},
		{set(struct{}{}), "Set.f", false},
		{set(uint8(1)), "Set.f", false},
		{set(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)), "Set.f", false},
		{set(nested(65)), "Set.f", false},
		{set(map[string]any{"x": map[string]any{"$y": 1}}), "Set.f.x.$y", false},
		{set([]any{map[string]any{"a.b": 1}}), "Set.f.a.b", false},
		{set(strings.Repeat("x", 16<<20)), "Change", true},
		{set([]any{strings.Repeat("x", 8<<20), strings.Repeat("x", 8<<20)}), "Change", true},
		{named("a.b"), "Set.a.b", false},
		{named("$inc"), "Set.$inc", false},
		{named(""), "Set", false},
		{named("a\x00"), "Set", false},
		{named(strings.Repeat("n", 256)), "Set", false},
		{event(write.Upsert{Set: write.Fields{"v": 1}, Newer: "w"}), "Newer", false},
		{event(write.Upsert{Set: write.Fields{"v": nil}, Newer: "v"}), "Newer", false},
		{event(write.Upsert{Set: write.Fields{"v": true}, Newer: "v"}), "Newer", false},
		{event(write.Upsert{
			SetOnInsert: write.Fields{"n": 1}, Increment: write.Fields{"n": 1},
		}), "Increment.n", false},
		{event(write.Upsert{
			Set: write.Fields{"n": 1}, SetOnInsert: write.Fields{"n": 1},
		}), "SetOnInsert.n", false},
		{event(write.Increment{
			By: write.Fields{"n": 1}, SetOnInsert: write.Fields{"n": 1},
		}), "SetOnInsert.n", false},
		{event(write.Append{
			To: "l", Values: []any{1}, SetOnInsert: write.Fields{"l": []any{}},
		}), "SetOnInsert.l", false},
		{event(write.Transition{
			Field: "s", From: []string{"a"}, To: "b", Set: write.Fields{"s": "c"},
		}), "Set.s", false},
	} {
		err := write.Check(c.event)
		var bad *write.EventError
		if !errors.As(err, &bad) || bad.Field != c.field || !errors.Is(err, write.ErrEvent) ||
			errors.Is(err, once.ErrTooLarge) != c.large {
			t.Errorf("%.60v: %v, want %s, too large %v", c.event, err, c.field, c.large)
		}
	}
}

func TestTooManyFieldsAndEventsAreRefused(t *testing.T) {
	fields := write.Fields{}
	for i := range write.MaxFields {
		fields[strings.Repeat("f", i%200+1)+string(rune('a'+i/200))] = i
	}
	if err := write.Check(event(write.Insert{Set: fields})); err != nil {
		t.Errorf("as many as allowed: %v", err)
	}
	fields["one more"] = 1
	if err := write.Check(event(write.Insert{Set: fields})); !errors.Is(err, write.ErrEvent) {
		t.Errorf("one more field: %v", err)
	}
	if err := write.CheckBatch(make([]write.Event, write.MaxBatch)); err != nil {
		t.Error(err)
	}
	err := write.CheckBatch(make([]write.Event, write.MaxBatch+1))
	if !errors.Is(err, once.ErrTooLarge) {
		t.Errorf("one more event: %v", err)
	}
}

func TestAGoodEventIsTaken(t *testing.T) {
	day := time.Date(2030, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	for _, c := range []write.Change{
		write.Insert{},
		write.Insert{Set: write.Fields{"a$b": nil, "Ä": []byte("\xff\x00"), "t": day}},
		write.Upsert{SetOnInsert: write.Fields{"n": 1}},
		write.Upsert{Set: write.Fields{"v": day, "x": nested(64)}, Newer: "v"},
		write.Increment{By: write.Fields{"n": -1, "m": 0.1, "d": json.Number("1e30")}},
		write.Append{To: "l", Values: []any{nil}},
		write.Transition{Field: "s", From: []string{"a", "b"}, To: "a"},
	} {
		if err := write.Check(event(c)); err != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
	for _, key := range []any{1, int64(-1), " ", strings.Repeat("x", 512)} {
		e := write.Event{ID: "e", In: "t", Key: key, Change: write.Insert{}}
		if err := write.Check(e); err != nil {
			t.Errorf("key %v: %v", key, err)
		}
	}
}

func TestTargetsRefuseWhatTheyDoNotHaveAndTheirKeys(t *testing.T) {
	targets, err := write.NewTargets([]write.Target{
		{Name: "accounts"}, {Name: "orders", Key: "no"},
	}, "id")
	if err != nil {
		t.Fatal(err)
	}
	want := []write.Target{{Name: "accounts", Key: "id"}, {Name: "orders", Key: "no"}}
	if all := targets.All(); !slices.Equal(all, want) {
		t.Errorf("targets %v", all)
	}
	for _, c := range []struct {
		in     string
		change write.Change
		field  string
	}{
		{"accounts", write.Insert{Set: write.Fields{"no": 1}}, ""},
		{"orders", write.Insert{Set: write.Fields{"id": 1}}, ""},
		{"other", write.Insert{}, "In"},
		{"accounts", write.Insert{Set: write.Fields{"id": 1}}, "Set.id"},
		{"accounts", write.Upsert{Increment: write.Fields{"id": 1}}, "Increment.id"},
		{"orders", write.Increment{By: write.Fields{"no": 1}}, "By.no"},
		{"orders", write.Append{To: "no", Values: []any{1}}, "To.no"},
		{"orders", write.Transition{Field: "no", From: []string{"a"}, To: "b"}, "Field.no"},
	} {
		target, err := targets.Check(write.Event{ID: "e", In: c.in, Key: "k", Change: c.change})
		var bad *write.EventError
		switch {
		case c.field == "" && (err != nil || target.Name != c.in):
			t.Errorf("%v: %v, %v", c.change, target, err)
		case c.field != "" && (!errors.As(err, &bad) || bad.Field != c.field):
			t.Errorf("%v: %v, want %s", c.change, err, c.field)
		}
	}
	for _, wrong := range [][]write.Target{
		nil, {{Name: ""}}, {{Name: "a"}, {Name: "a", Key: "b"}},
	} {
		if _, err := write.NewTargets(wrong, "id"); err == nil {
			t.Errorf("targets %v are taken", wrong)
		}
	}
}

func TestErrorsAreWhatTheyAreSaidToBe(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range []struct {
		err error
		is  []error
	}{
		{write.ErrExists, []error{once.ErrConflict}},
		{write.ErrBusy, []error{once.ErrUnavailable}},
		{&write.StateError{State: "a"}, []error{once.ErrState}},
		{&write.StateError{Missing: true}, []error{once.ErrState, once.ErrNotFound}},
		{&write.ShapeError{Err: cause}, []error{write.ErrShape, cause}},
		{&write.IndexError{}, []error{write.ErrIndex}},
	} {
		for _, want := range c.is {
			if !errors.Is(c.err, want) {
				t.Errorf("%v is no %v", c.err, want)
			}
		}
	}
	if errors.Is(&write.StateError{State: "a"}, once.ErrNotFound) {
		t.Error("a document in another state counts as missing")
	}
	index := &write.IndexError{
		In: "t", Key: "k", Command: "CREATE",
		Duplicates: []write.DuplicateKey{{"a\n", 2}, {"b", 3}},
	}
	const want = `t has no unique index over k alone; these keys are there more than once and have ` +
		`to be put right first: "a\n" (2 times), "b" (3 times); create it with: CREATE`
	if index.Error() != want {
		t.Errorf("%q", index.Error())
	}
}
