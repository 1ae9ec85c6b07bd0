package once_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/oncekit/once"
)

// sumOf is the id of a content whose canonical writing is text.
func sumOf(version, text string) string {
	sum := sha256.Sum256([]byte(text))
	return version + ":" + hex.EncodeToString(sum[:])
}

func TestContentIDIsTheDigestOfTheCanonicalWriting(t *testing.T) {
	for _, c := range []struct {
		content any
		want    string
	}{
		{[]byte(`{"b":1}`), sumOf("1", `{"b":1}`)},
		{"text", sumOf("1", "text")},
		{json.RawMessage(" {\"b\" : 1.0 ,\r\n \"a\":[ true,null , {} , [] ] } "),
			sumOf("2", `{"a":[true,null,{},[]],"b":1}`)},
		{map[string]any{"b": 1, "a": "ä<"}, sumOf("2", `{"a":"ä<","b":1}`)},
		{struct {
			N int64     `json:"n"`
			F float64   `json:"f"`
			T time.Time `json:"t"`
		}{9007199254740993, 0.1, time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)},
			sumOf("2", `{"f":0.1,"n":9007199254740993,"t":"2030-01-02T03:04:05Z"}`)},
		{json.RawMessage(`[9007199254740993,9007199254740992,1e21,100e-2,-0]`),
			sumOf("2", `[9007199254740993,9007199254740992,1e+21,1,0]`)},
		{json.RawMessage(`"\u0041\u00e4\/\ud83d\ude00\u0007\u000a\"\\"`),
			sumOf("2", "\"Aä/\U0001F600\\u0007\\n\\\"\\\\\"")},
		{json.RawMessage(`{"\ufb33":2,"\ud83d\ude00":1}`), // UTF-16 order
			sumOf("2", "{\"\U0001F600\":1,\"\uFB33\":2}")},
		{3, sumOf("2", "3")}, {nil, sumOf("2", "null")},
	} {
		got, err := once.ContentID(c.content)
		if err != nil || got != c.want {
			t.Errorf("%v: %s, %v, want %s", c.content, got, err, c.want)
		}
	}
}

func TestWhatHasNoOneWritingHasNoContentID(t *testing.T) {
	for _, content := range []any{
		json.RawMessage(""), json.RawMessage("{"), json.RawMessage(`{"a":1,"a":2}`),
		json.RawMessage(`{"a":1,"\u0061":2}`), json.RawMessage("1 2"),
		json.RawMessage(`1e9999999`), json.RawMessage(`"\ud800"`), json.RawMessage(`"\ud800\u0041"`),
		json.RawMessage("\"\xff\""), map[string]any{"a": "\xff"}, make(chan int),
		json.RawMessage(strings.Repeat("[", 300) + strings.Repeat("]", 300)),
	} {
		if got, err := once.ContentID(content); err == nil {
			t.Errorf("%v: %s, want an error", content, got)
		}
	}
}

func FuzzContentIDTakesAnyText(f *testing.F) {
	f.Add(`[{"a":[1e9999999,{"b":1,"b":2}]},"\ud800",3]`)
	f.Fuzz(func(t *testing.T, text string) {
		id, err := once.ContentID(json.RawMessage(text))
		if (err == nil) != (len(id) == 66) {
			t.Fatalf("%q: %q, %v", text, id, err)
		}
	})
}
