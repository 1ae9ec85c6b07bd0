package write_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/write"
)

var (
	utc  = time.Date(2030, 1, 2, 3, 4, 5, 600, time.UTC)
	east = utc.In(time.FixedZone("east", 3600))
)

// changes are of every kind, with values of every type.
var changes = []write.Change{
	write.Insert{},
	write.Insert{Set: write.Fields{
		"nil": nil, "bool": true, "text": "ä\n", "int64": int64(9007199254740993),
		"double": 5.0, "tenth": 0.1, "exact": json.Number("0.10"), "bytes": []byte{0, 255},
		"time": utc, "list": []any{int64(1), []any{}, map[string]any{}},
		"object": map[string]any{"a": "b", "time": []any{utc}},
	}},
	write.Upsert{Set: write.Fields{"a": "x"}},
	write.Upsert{
		Set: write.Fields{"v": utc}, SetOnInsert: write.Fields{"b": false},
		Increment: write.Fields{"n": int64(-1)}, Newer: "v",
	},
	write.Increment{By: write.Fields{"n": json.Number("1e30")}},
	write.Increment{By: write.Fields{"n": 1.5}, SetOnInsert: write.Fields{"at": utc}},
	write.Append{To: "l", Values: []any{"a", nil, int64(2)}},
	write.Append{To: "l", Values: []any{[]byte("x")}, SetOnInsert: write.Fields{"m": int64(1)}},
	write.Transition{Field: "s", From: []string{"a", "b"}, To: "c"},
	write.Transition{
		Field: "s", From: []string{"a"}, To: "c", Set: write.Fields{"v": int64(2)}, Newer: "v",
	},
}

func TestAChangeIsReadAsItWasWritten(t *testing.T) {
	for _, c := range changes {
		b, err := write.EncodeChange(c)
		if err != nil {
			t.Errorf("%v: %v", c, err)
			continue
		}
		got, err := write.DecodeChange(b)
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%s: %#v, %v, want %#v", b, got, err, c)
		}
	}
}

func TestAnEncodedChangeIsJSONThatNeverChanges(t *testing.T) {
	b, err := write.EncodeChange(write.Upsert{
		Set:       write.Fields{"v": east, "n": 1, "f": 0.5},
		Increment: write.Fields{"d": json.Number("0.10")}, Newer: "v",
	})
	const want = `{"do":"upsert","increment":{"d":{"$number":"0.10"}},"newer":"v",` +
		`"set":{"f":{"$double":"0.5"},"n":1,"v":{"$time":"2030-01-02T03:04:05.0000006Z"}}}`
	if err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}

func TestWhatIsNoChangeIsNotDecoded(t *testing.T) {
	for _, text := range []string{
		``, `[]`, `{}`, `{"do":"drop"}`, `{"do":"insert","set":[]}`, `{"do":"append","to":1}`,
		`{"do":"insert","set":{"a":1.5}}`, `{"do":"insert","set":{"a":{"$time":"now"}}}`,
		`{"do":"insert","set":{"a":{"$bytes":"?"}}}`, `{"do":"transition","from":[1]}`,
	} {
		if c, err := write.DecodeChange([]byte(text)); err == nil {
			t.Errorf("%s: %v", text, c)
		}
	}
}

func digest(t *testing.T, e write.Event) once.Fingerprint {
	t.Helper()
	f, err := write.Digest(e)
	if err != nil || f.Version() != once.FingerprintEventV1 {
		t.Fatalf("%v: %v, %v", e, f, err)
	}
	return f
}

func TestEqualChangesHaveEqualDigests(t *testing.T) {
	set := func(v any) write.Event { return event(write.Upsert{Set: write.Fields{"f": v}}) }
	for _, c := range [][]write.Event{
		{set(1), set(int64(1)), set(1.0), set(json.Number("1")), set(json.Number("10e-1"))},
		{set(0.1), set(json.Number("0.1")), set(json.Number("0.10"))},
		{set(utc), set(east)},
		{set([]any{}), set([]any(nil))},
		{
			event(write.Upsert{Set: write.Fields{"f": 1}, SetOnInsert: write.Fields{}}),
			event(write.Upsert{Set: write.Fields{"f": 1}}),
		},
		{
			{ID: "a", In: "accounts", Key: 7, Change: write.Insert{}},
			{ID: "b", In: "accounts", Key: int64(7), Change: write.Insert{Set: write.Fields{}}},
		},
	} {
		want := digest(t, c[0])
		for _, e := range c[1:] {
			if digest(t, e) != want {
				t.Errorf("%v and %v differ", c[0], e)
			}
		}
	}
}

func TestDifferentChangesHaveDifferentDigests(t *testing.T) {
	set := func(v any) write.Event { return event(write.Upsert{Set: write.Fields{"f": v}}) }
	events := []write.Event{
		set(1), set("1"),
		set(json.Number("9007199254740993")), set(json.Number("9007199254740992")),
		set(nil), set(true), set(utc), set(utc.Format(time.RFC3339Nano)), set([]byte("1")),
		set("MQ=="), set([]any{1, 2}), set([]any{2, 1}), set(map[string]any{}), set([]any{}),
		event(write.Insert{Set: write.Fields{"f": 1}}),
		event(write.Upsert{SetOnInsert: write.Fields{"f": 1}}),
		event(write.Upsert{Increment: write.Fields{"f": 1}}),
		event(write.Upsert{Set: write.Fields{"f": 1}, Newer: "f"}),
		event(write.Increment{By: write.Fields{"f": 1}}),
		{ID: "e1", In: "accounts", Key: "7", Change: write.Insert{}},
		{ID: "e1", In: "accounts", Key: 7, Change: write.Insert{}},
		{ID: "e1", In: "orders", Key: 7, Change: write.Insert{}},
		event(write.Transition{Field: "f", From: []string{"a", "b"}, To: "c"}),
		event(write.Transition{Field: "f", From: []string{"b", "a"}, To: "c"}),
	}
	seen := map[once.Fingerprint]write.Event{}
	for _, e := range events {
		f := digest(t, e)
		if other, found := seen[f]; found {
			t.Errorf("%v and %v are one", other, e)
		}
		seen[f] = e
	}
}

// What stands for a user's function has the digest that the root's ContentID writes.
func TestTheDigestOfAContentIsItsContentID(t *testing.T) {
	got, err := write.ContentDigest("e1", map[string]any{"a": 1})
	want, idErr := once.ContentID(json.RawMessage(`{ "a": 1.0 }`))
	if err != nil || idErr != nil || got.String() != want {
		t.Errorf("%v, %v; want %s, %v", got, err, want, idErr)
	}
	for name, c := range map[string]struct {
		id      string
		content any
		field   string
	}{
		"without an id":      {"", "content", "ID"},
		"with a long id":     {strings.Repeat("x", write.MaxID+1), "content", "ID"},
		"of what is no JSON": {"e1", make(chan int), "content"},
	} {
		_, err := write.ContentDigest(c.id, c.content)
		var event *write.EventError
		if !errors.As(err, &event) || event.Field != c.field {
			t.Errorf("%s: %v, want an EventError of %s", name, err, c.field)
		}
	}
}

func TestKeysKeepTheirType(t *testing.T) {
	for _, c := range []struct {
		key  any
		text string
		back any
	}{
		{7, "7", int64(7)}, {int64(-1), "-1", int64(-1)}, {"7", `"7"`, "7"},
		{"ä\"", `"ä\""`, "ä\""},
	} {
		text, err := write.EncodeKey(c.key)
		back, decodeErr := write.DecodeKey(text)
		if err != nil || decodeErr != nil || text != c.text || back != c.back {
			t.Errorf("%v: %s, %v, %v, %v", c.key, text, back, err, decodeErr)
		}
	}
	for _, text := range []string{"", "1.5", "null", "[]"} {
		if key, err := write.DecodeKey(text); err == nil {
			t.Errorf("%q is the key %v", text, key)
		}
	}
}

func TestNumbersAreWholeWhereTheyCanBe(t *testing.T) {
	for _, c := range []struct{ v, want any }{
		{1, int64(1)}, {int64(-5), int64(-5)}, {3.0, int64(3)}, {0.1, json.Number("0.1")},
		{json.Number("1.50"), json.Number("1.5")}, {json.Number("2.0"), int64(2)},
		{json.Number("9223372036854775808"), json.Number("9223372036854775808")},
	} {
		if got, err := write.Number(c.v); err != nil || got != c.want {
			t.Errorf("%v: %v (%T), %v, want %v", c.v, got, got, err, c.want)
		}
	}
	numbers := write.Fields{"a": 1.5, "b": 2}
	text, err := write.EncodeNumbers(numbers)
	if err != nil || text != `{"a":1.5,"b":2}` {
		t.Errorf("%s, %v", text, err)
	}
	back, err := write.DecodeNumbers(text)
	want := write.Fields{"a": json.Number("1.5"), "b": int64(2)}
	if err != nil || !reflect.DeepEqual(back, want) {
		t.Errorf("%v, %v", back, err)
	}
	for _, none := range []string{"", "{}"} {
		if back, err := write.DecodeNumbers(none); back != nil || err != nil {
			t.Errorf("%q: %v, %v", none, back, err)
		}
	}
}

func TestARecordAnswersByItsDigest(t *testing.T) {
	r := write.Record{
		Digest:  once.FingerprintRaw([]byte("a")),
		First:   write.First{Outcome: write.Stale, At: utc, In: "t", Key: "k"},
		Numbers: write.Fields{"n": int64(1)},
	}
	same := r.Answer(once.FingerprintRaw([]byte("a")))
	if same.Outcome != write.Duplicate || *same.First != r.First || same.Numbers["n"] != int64(1) {
		t.Errorf("same content: %+v", same)
	}
	other := r.Answer(once.FingerprintRaw([]byte("b")))
	if other.Outcome != write.Conflict || *other.First != r.First || other.Numbers != nil {
		t.Errorf("other content: %+v", other)
	}
}
