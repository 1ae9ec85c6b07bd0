package value_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/value"
)

func decode(t *testing.T, text string) any {
	t.Helper()
	v, err := value.Decode([]byte(text), value.Limits{})
	if err != nil {
		t.Fatalf("Decode(%s): %v", text, err)
	}
	return v
}

func TestDecodeKeepsEveryNumberExact(t *testing.T) {
	for text, want := range map[string]any{
		"0":                      int64(0),
		"-0":                     int64(0),
		"12":                     int64(12),
		"9007199254740993":       int64(9007199254740993),
		"9223372036854775807":    int64(math.MaxInt64),
		"-9223372036854775808":   int64(math.MinInt64),
		"9223372036854775808":    uint64(9223372036854775808),
		"18446744073709551615":   uint64(math.MaxUint64),
		"18446744073709551617":   value.Number("18446744073709551617"),
		"-9223372036854775809":   value.Number("-9223372036854775809"),
		"1.5":                    1.5,
		"1.0":                    1.0,
		"1e3":                    1000.0,
		"0.0":                    0.0,
		"0.1":                    value.Number("0.1"),
		"0.10":                   value.Number("0.10"),
		"1e22":                   1e22,
		"1e23":                   value.Number("1e23"),
		"1e400":                  value.Number("1e400"),
		"0.5e-400":               value.Number("0.5e-400"),
		"1.25e-1":                0.125,
		"9007199254740993.0":     value.Number("9007199254740993.0"),
		"72057594037927936.0":    value.Number("72057594037927936.0"), // shortest: …940
		"123456789012345678.5":   value.Number("123456789012345678.5"),
		"0.30000000000000004":    value.Number("0.30000000000000004"),
		"-2.5":                   -2.5,
		"100000000000000000000":  1e20,
		"-100000000000000000000": -1e20,
	} {
		if got := decode(t, text); got != want {
			t.Errorf("Decode(%s) = %T %v, want %T %v", text, got, got, want, want)
		}
	}
}

func TestDecodeBuildsTheTree(t *testing.T) {
	got := decode(t, "\xef\xbb\xbf { \"a\" : [ 1 , true,null ,\"x\\n\\u00e9\" ] ,\r\n\t\"\":{} }\n")
	want := map[string]any{"a": []any{int64(1), true, nil, "x\né"}, "": map[string]any{}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65)
	for _, c := range []struct {
		name, text string
		path       string
		offset     int
		msg        string
	}{
		{"empty input", "", "", 0, "is empty"},
		{"blanks only", " \n", "", 0, "is empty"},
		{"a BOM alone", "\xef\xbb\xbf", "", 3, "is empty"},
		{"two BOMs", "\xef\xbb\xbf\xef\xbb\xbf{}", "", 3, "invalid character"},
		{"cut off", `{"a":[1,`, "a", 8, "ends too early"},
		{"cut off in a text", `{"a":"x`, "a", 7, "ends too early"},
		{"not JSON", `test`, "", 1, "invalid character"},
		{"trailing data", `{} {}`, "", 3, "something follows"},
		{"trailing comma", `[1,]`, "", 2, "invalid character"},
		{"duplicate name", `{"a":{"b":1,"b":2}}`, "a", 12, `duplicate name "b"`},
		{"escaped duplicate", `{"a":1,"\u0061":2}`, "", 7, `duplicate name "a"`},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", "a", 6, "invalid UTF-8"},
		{"lone surrogate", `{"a":"\ud800"}`, "a", 6, "surrogate"},
		{"raw NUL", "{\"a\":\"\x00\"}", "a", 6, "invalid character"},
		{"escaped NUL", `{"a":[0,"x\u0000"]}`, "a[1]", 8, "NUL"},
		{"BOM and nested NUL", "\xef\xbb\xbf{\"a\":{\"b\":\"\\u0000\"}}", "a.b", 13, "NUL"},
		{"NUL in a name", `{"\u0000":1}`, "\uFFFD", 1, "NUL"},
		{"too deep", deep, strings.Repeat("a.", 60) + "…", 64 * 5, "too deep"},
		{"absurd depth", strings.Repeat("[", 20000), "", -1, "too deep"},
		{"long number", `[1` + strings.Repeat("0", 400) + `]`, "[0]", 1, "too long"},
		{"huge exponent", `{"n":1e1000001}`, "n", 5, "exponent"},
		{"endless exponent", `{"n":1e99999999999999999999}`, "n", 5, "exponent"},
		{"leading zero", `[01]`, "", 2, "invalid character"},
		{"NaN", `NaN`, "", 0, "invalid character"},
		{"name without quotes", `{a:1}`, "", 1, "invalid character"},
		{"number as a name", `{1:1}`, "", 1, "name must be a text"},
	} {
		_, err := value.Decode([]byte(c.text), value.Limits{})
		var syn *value.SyntaxError
		if !errors.As(err, &syn) {
			t.Errorf("%s: error is %v, want a SyntaxError", c.name, err)
			continue
		}
		if !strings.Contains(syn.Msg, c.msg) || syn.Path != c.path ||
			(c.offset >= 0 && syn.Offset != c.offset) {
			t.Errorf("%s: got path %q offset %d %q; want %q %d %q",
				c.name, syn.Path, syn.Offset, syn.Msg, c.path, c.offset, c.msg)
		}
		if len(err.Error()) > 300 {
			t.Errorf("%s: message is %d bytes long", c.name, len(err.Error()))
		}
	}
}

func TestDecodeDepthLimitCounts(t *testing.T) {
	if _, err := value.Decode([]byte(`[[1],[2]]`), value.Limits{Depth: 2}); err != nil {
		t.Error(err)
	}
	if _, err := value.Decode([]byte(`[[],[[]]]`), value.Limits{Depth: 2}); err == nil {
		t.Error("three levels pass a limit of two")
	}
}

func TestABodyOfAThousandLevelsIsReadDigestedAndWritten(t *testing.T) {
	const levels = 1000 // the most that a source can be told to let in
	text := strings.Repeat(`{"a":[`, levels/2) + "1" + strings.Repeat("]}", levels/2)
	v, err := value.Decode([]byte(text), value.Limits{Depth: levels})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := value.Digest(v, nil); err != nil {
		t.Errorf("digest: %v", err)
	}
	out, err := value.Encode(map[string]any{"all": v}) // a field of a task
	if err != nil || string(out) != `{"all":`+text+`}` {
		t.Errorf("encode: %d bytes, %v", len(out), err)
	}
	if _, err := value.Decode(out, value.Limits{Depth: value.MaxDepth}); err != nil {
		t.Errorf("decode what was encoded: %v", err)
	}
	self := []any{nil}
	self[0] = self
	if _, err := value.Encode(self); err == nil {
		t.Error("a list that holds itself is written")
	}
}

func TestEncodeWritesExactlyAndSorted(t *testing.T) {
	for in, want := range map[string]string{
		`{"b":1,"a":[true,null,"<&>\u2028"]}`:      "{\"a\":[true,null,\"<&>\u2028\"],\"b\":1}",
		`[9007199254740993,18446744073709551615]`:  `[9007199254740993,18446744073709551615]`,
		`[0.10,18446744073709551617,1e400,1E5]`:    `[0.10,18446744073709551617,1e400,100000]`,
		`[1.0,1.50,1e22,0.125,-0.0]`:               `[1,1.5,1e+22,0.125,0]`,
		`["\"\\\n\u001f"]`:                         `["\"\\\n\u001f"]`,
		`{"\ud83d\ude00":1,"\ue000":2,"\u20ac":3}`: "{\"€\":3,\"😀\":1,\"\ue000\":2}",
		`{}`: `{}`,
		`[]`: `[]`,
	} {
		got, err := value.Encode(decode(t, in))
		if err != nil || string(got) != want {
			t.Errorf("Encode(%s) = %s, %v; want %s", in, got, err, want)
		}
	}
	for _, bad := range []any{3, "\xff", map[string]any{"\xff": nil}, math.NaN(),
		value.Number("x"), []any{struct{}{}}} {
		if out, err := value.Encode(bad); err == nil {
			t.Errorf("Encode(%#v) = %s, want an error", bad, out)
		}
	}
	loop := []any{nil}
	loop[0] = loop
	if _, err := value.Encode(loop); err == nil {
		t.Error("a list that holds itself is written")
	}
}

func TestText(t *testing.T) {
	for in, want := range map[any]string{
		"x": "x", "": "", int64(3): "3", true: "true", false: "false", 1.5: "1.5", 1e3: "1000",
		uint64(math.MaxUint64): "18446744073709551615", value.Number("0.10"): "0.10",
	} {
		if got, err := value.Text(in); err != nil || got != want {
			t.Errorf("Text(%v) = %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []any{nil, []any{}, map[string]any{}} {
		if _, err := value.Text(in); !errors.Is(err, value.ErrNoText) {
			t.Errorf("Text(%v): %v, want ErrNoText", in, err)
		}
	}
}

func TestNormalizeTakesWhatYAMLGives(t *testing.T) {
	got, err := value.Normalize(map[string]any{
		"i": 3, "u": uint64(7), "big": uint64(1 << 63), "f": 0.1, "h": 0.5, "l": []any{int32(1)},
		"s": []string{"x"},
	})
	want := map[string]any{
		"i": int64(3), "u": int64(7), "big": uint64(1 << 63), "f": value.Number("0.1"), "h": 0.5,
		"l": []any{int64(1)}, "s": []any{"x"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, %v; want %#v", got, err, want)
	}
	for _, bad := range []any{struct{}{}, math.Inf(1), value.Number("1x"), map[any]any{}} {
		if v, err := value.Normalize(bad); err == nil {
			t.Errorf("Normalize(%#v) = %v, want an error", bad, v)
		}
	}
}
