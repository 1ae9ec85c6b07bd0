package expr_test

import (
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/oncekit/once/internal/expr"
	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/queue"
)

// wrapped is a message with JSON and forms inside of texts.
func wrapped(t *testing.T) *expr.Vars {
	return &expr.Vars{Body: decode(t, `{
		"list": "[{\"method\":\"start\",\"n\":18446744073709551617},{\"method\":\"end\"}]",
		"one": "{\"seq\":9007199254740993,\"tenth\":0.1}", "bare": "12", "empty": "",
		"twice": "{\"a\":{\"b\":1,\"b\":2}}", "short": "[1,", "nul": "\"\\u0000\"",
		"deep": "`+strings.Repeat("[", 65)+strings.Repeat("]", 65)+`",
		"n": 3, "s": "3", "obj": {"a": 1}, "none": null,
		"name": "%E8%B4%A7+%e6%9E%b6%2B1", "half": "50% of %2", "plus": "a+b", "plain": "p02",
		"gbk": "%BB%F5", "zero": "a%00b"}`)}
}

func TestJSONInATextIsReadLikeABody(t *testing.T) {
	env, vars := newEnv(t), wrapped(t)
	for text, want := range map[string]any{
		"json(body.list)[1].method":             "end",
		"json(body.list).map(e, e.method)":      []any{"start", "end"},
		"json(body.list)[0].n":                  value.Number("18446744073709551617"),
		"json(body.list)[0].n > 5":              true,
		"json(body.one).seq":                    int64(9007199254740993),
		"json(body.one).tenth":                  value.Number("0.1"),
		"json(body.one).?none.orValue('-')":     "-",
		"json(body.one)":                        decode(t, `{"seq":9007199254740993,"tenth":0.1}`),
		"json(body.list)[1]":                    map[string]any{"method": "end"},
		"json(body.bare)":                       int64(12),
		"body.empty == '' ? 0 : json(body.one)": int64(0),
		"type(json(body.list)) == list":         true,
		"type(json(body.one)) == map":           true,
		"type(json(body.one)) == list ? json(body.one) : [json(body.one)]": []any{
			decode(t, `{"seq":9007199254740993,"tenth":0.1}`)},
	} {
		got, err := compile(t, env, text).Eval(vars)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s = %T %v, %v; want %T %v", text, got, got, err, want, want)
		}
	}
}

func TestURLDecodedTextIsThatOfAForm(t *testing.T) {
	env, vars := newEnv(t), wrapped(t)
	for text, want := range map[string]string{
		"urldecode(body.name)":  "货 架+1",
		"urldecode(body.half)":  "50% of %2",
		"urldecode(body.plus)":  "a b",
		"urldecode(body.plain)": "p02",
		"urldecode(body.empty)": "",
		"urldecode('%%41%4')":   "%A%4",
	} {
		got, err := compile(t, env, text).Eval(vars)
		if err != nil || got != want {
			t.Errorf("%s = %v, %v; want %s", text, got, err, want)
		}
	}
}

// Codes come as numbers from one sender and as texts from the next.
func TestNumbersAndTextsAsCodes(t *testing.T) {
	env, vars := newEnv(t), wrapped(t)
	for _, text := range []string{
		"string(body.n) == '3'", "string(body.s) == '3'", "string(body.n) == string(body.s)",
		"body.n != body.s", "string(body.n) in ['2', '3']",
		"string(json(body.list)[0].n) == '18446744073709551617'",
	} {
		if got, err := compile(t, env, text).Eval(vars); err != nil || got != true {
			t.Errorf("%s = %v, %v; want true", text, got, err)
		}
	}
}

func TestFunctionsNameWhatTheyCannotRead(t *testing.T) {
	env, vars := newEnv(t), wrapped(t)
	for text, want := range map[string]string{
		"json(body.twice)": `body.twice: json: invalid JSON: a: duplicate name "b" (byte 12)`,
		"json(body.empty)": "body.empty: json: invalid JSON: is empty (byte 0)",
		"json(body.short)": "body.short: json: invalid JSON: ends too early (byte 3)",
		"json(body.nul)":   "body.nul: json: invalid JSON: text holds NUL (U+0000) (byte 0)",
		"json(body.deep)":  "body.deep: json: invalid JSON: [0][0]",
		"json(body.n)":     "body.n: json: expected a text, got a number",
		"json(body.obj)":   "body.obj: json: expected a text, got an object",
		"json(body.none)":  "body.none: json: expected a text, got null",
		"json(body.no)":    "body.no: no such field",
		"json(body.one).x": "x: no such field",
		"json(body.one + body.s)": "json: invalid JSON: something follows the value (byte " +
			"36)",
		"urldecode(body.gbk)":  "body.gbk: urldecode: the decoded text is not valid UTF-8",
		"urldecode(body.zero)": "body.zero: urldecode: the text holds NUL (%00)",
		"urldecode(body.n)":    "body.n: urldecode: expected a text, got a number",
		"body.s == 'x' || json(body.twice).a == 1": `body.twice: json: invalid JSON: a: ` +
			`duplicate name "b" (byte 12)`,
	} {
		_, err := compile(t, env, text).Eval(vars)
		var e *expr.EvalError
		if !errors.As(err, &e) || !strings.HasPrefix(e.Error(), want) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{ // what a log may show
		"json(body.twice)": "body.twice: json: invalid JSON (byte 12)",
		"json(body.short)": "body.short: json: invalid JSON (byte 3)",
		"json(body.none)":  "body.none: json: expected a text, got null",
	} {
		_, err := compile(t, env, text).Eval(vars)
		if got := queue.Public(err); got != want {
			t.Errorf("%s: a log may show %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"json(1)": "json can't take (int)", "json()": "json can't take ()",
		"urldecode(true)": "urldecode can't take (bool)",
	} {
		if _, err := env.Compile(text, all, 0); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}

// What a function reads counts, so that a loop can't read a large text over and over.
func TestFunctionsInALoopAreBounded(t *testing.T) {
	env := newEnv(t)
	long := make([]any, 1000)
	vars := &expr.Vars{Body: map[string]any{
		"l": long, "s": "[" + strings.Repeat("1,", 5000) + "1]", "e": strings.Repeat("%41", 5000),
	}}
	for _, text := range []string{
		"body.l.all(a, size(json(body.s)) > 0)", "body.l.all(a, urldecode(body.e) != '')",
	} {
		if _, err := compile(t, env, text).Eval(vars); err == nil ||
			!strings.Contains(err.Error(), "takes too much work") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if got, err := compile(t, env, "size(json(body.s))").Eval(vars); err != nil ||
		got != int64(5001) {
		t.Errorf("once: %v, %v", got, err)
	}
}

func TestItemSaysWhyItIsNotHere(t *testing.T) {
	_, err := newEnv(t).Compile("item.x", expr.Body, 0)
	if err == nil || !strings.HasPrefix(err.Error(), expr.ItemNotHere) {
		t.Errorf("%v", err)
	}
}

// The standard library reads the same where both take a text.
func FuzzURLDecode(f *testing.F) {
	for _, s := range []string{"a+b%41", "%E8%B4%A7", "100%", "%zz", "%4", "%00", "%BB", "a%2Bb"} {
		f.Add(s)
	}
	env := newEnv(f)
	p := compile(f, env, "urldecode(body)")
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) || strings.Contains(s, "\x00") {
			return // no text that a body can hold
		}
		got, err := p.Eval(&expr.Vars{Body: s})
		want, wrong := url.QueryUnescape(s)
		switch good := utf8.ValidString(want) && !strings.Contains(want, "\x00"); {
		case wrong == nil && good && (err != nil || got != want):
			t.Errorf("%q gives %q, %v; want %q", s, got, err, want)
		case wrong == nil && !good && err == nil:
			t.Errorf("%q gives %q", s, got)
		}
	})
}

// What each of a thousand elements reads of one long text is read once.
func TestALongTextIsReadOnceForItsMessage(t *testing.T) {
	inner := "[" + strings.Repeat(`{\"a\":[0,1,2]},`, 5000) + `{\"a\":[7]}]`
	vars := &expr.Vars{Body: decode(t, `{"s":"`+inner+`"}`)}
	p := compile(t, newEnv(t), "json(body.s)[5000].a[0]")
	eval := func() {
		if got, err := p.Eval(vars); err != nil || got != int64(7) {
			t.Fatalf("%v, %v", got, err)
		}
	}
	eval()
	if n := testing.AllocsPerRun(100, eval); n > 1000 {
		t.Errorf("%v allocations for each time, the text has 20,000 values", n)
	}
}
