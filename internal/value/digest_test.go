package value_test

import (
	"crypto/sha256"
	"testing"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/value"
)

func paths(t *testing.T, texts ...string) []value.Path {
	t.Helper()
	var out []value.Path
	for _, text := range texts {
		p, err := value.ParsePath(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func digest(t *testing.T, text string, ignore ...string) once.Fingerprint {
	t.Helper()
	f, err := value.Digest(decode(t, text), paths(t, ignore...))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestDigestIsTheHashOfTheCanonicalWriting(t *testing.T) {
	for in, canonical := range map[string]string{
		`{"b":[1.0,10e-1,1000,1e3],"a":"\u0041\/"}`: `{"a":"A/","b":[1,1,1000,1000]}`,
		// RFC 8785, section 3.2.3: the order of names by UTF-16 code units.
		`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`: "" +
			"{\"\\r\":2,\"1\":4,\"\u0080\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\ufb33\":3}",
		`[0.10,1e21,100000000000000000000,1e-7]`:  `[0.1,1e+21,100000000000000000000,1e-7]`,
		`[18446744073709551617,-0.0,1.2300e+400]`: `[18446744073709551617,0,1.23e+400]`,
	} {
		want := once.NewFingerprint(once.FingerprintJSONV1, sha256.Sum256([]byte(canonical)))
		if got := digest(t, in); got != want {
			t.Errorf("Digest(%s) isn't the hash of %s", in, canonical)
		}
	}
}

func TestF01_OrderAndBlanksDoNotCount(t *testing.T) {
	want := digest(t, `{"a":1,"b":{"c":[1,2],"d":"x"}}`)
	for _, text := range []string{
		`{"b":{"d":"x","c":[1,2]},"a":1}`,
		"{ \"a\" : 1 ,\r\n\"b\":{\"c\":[1, 2],\"d\":\"\\u0078\"}}\r\n",
		`{"a":1.0,"b":{"c":[1e0,20e-1],"d":"x"}}`,
	} {
		if digest(t, text) != want {
			t.Errorf("%q has another digest", text)
		}
	}
	for _, text := range []string{
		`{"a":1,"b":{"c":[2,1],"d":"x"}}`,
		`{"a":"1","b":{"c":[1,2],"d":"x"}}`,
		`{"a":1,"b":{"c":[1,2],"d":"x","e":null}}`,
	} {
		if digest(t, text) == want {
			t.Errorf("%q has the same digest", text)
		}
	}
}

func TestF03_BigNumbersStayApart(t *testing.T) {
	for _, pair := range [][2]string{
		{`{"id":9007199254740993}`, `{"id":9007199254740992}`},
		{`{"id":18446744073709551616}`, `{"id":18446744073709551617}`},
		{`{"id":0.1}`, `{"id":0.1000000000000000055511151231257827}`},
		{`{"id":1e400}`, `{"id":1e401}`},
	} {
		if digest(t, pair[0]) == digest(t, pair[1]) {
			t.Errorf("%s and %s have one digest", pair[0], pair[1])
		}
	}
}

func TestF12_IgnoredMembersAreLeftOut(t *testing.T) {
	one := `{"order":1,"sent_at":"01Z","data":{"time":1,"x":2},"items":[{"t":1},{"t":5}]}`
	two := `{"order":1,"sent_at":"02Z","data":{"time":9,"x":2},"items":[{"t":2},{"t":5}]}`
	ignore := []string{"body.sent_at", "body.data.time", "body.items[0].t"}
	if digest(t, one) == digest(t, two) {
		t.Error("without an ignore list a changed time goes unnoticed")
	}
	if digest(t, one, ignore...) != digest(t, two, ignore...) {
		t.Error("ignored members count")
	}
	if digest(t, one, ignore[:2]...) == digest(t, two, ignore[:2]...) {
		t.Error("a list element that isn't ignored doesn't count")
	}
	absent := `{"order":1,"data":{"x":2},"items":[{},{"t":5}]}`
	if digest(t, absent, ignore...) != digest(t, one, ignore...) {
		t.Error("an ignored member differs from an absent one")
	}
	if digest(t, `{"order":2}`, ignore...) == digest(t, `{"order":1}`, ignore...) {
		t.Error("a change elsewhere goes unnoticed")
	}
}

func TestParsePath(t *testing.T) {
	for text, want := range map[string]string{
		"body.reqTime":    "reqTime",
		"reqTime":         "reqTime",
		"body.data.time":  "data.time",
		"body.items[0].t": "items[0].t",
		"body[2]":         "[2]",
		"bodyguard.x":     "bodyguard.x",
		"body.body":       "body",
		"a['data:']":      "a.data:",
		`a["b c"][3]`:     "a['b c'][3]",
		"body.größe.x-y":  "größe.x-y",
	} {
		p, err := value.ParsePath(text)
		if err != nil || p.String() != want {
			t.Errorf("ParsePath(%s) = %s, %v; want %s", text, p, err, want)
		}
	}
	for _, text := range []string{"", "body", "body.", ".a", "a..b", "a[", "a[x]", "a[-1]", "a[0",
		"a b", "a[0]b", "a['']", "a['x", "body['x'"} {
		if p, err := value.ParsePath(text); err == nil {
			t.Errorf("ParsePath(%q) = %s, want an error", text, p)
		}
	}
}

func TestCompare(t *testing.T) {
	type ordered struct {
		a, b any
		want int
	}
	n := func(s string) any { return value.Number(s) }
	for _, c := range []ordered{
		{"9", "10", -1}, {"1.5", "2", -1}, {"007", "7", 0}, {"-3", "-20", 1}, {"0.50", "0.5", 0},
		{"abc", "abd", -1}, {"b", "10", 1}, {"2026-04-03 10:08:06", "2026-04-03 10:08:05", 1},
		{"1e5", "9", -1}, // no exponent in decimal texts: these compare as texts
		{int64(9), int64(10), -1}, {int64(3), "3", 0}, {"12", int64(3), 1}, {1.5, int64(2), -1},
		{uint64(1 << 63), int64(-1), 1}, {n("0.1"), 0.125, -1}, {n("1e400"), n("1e399"), 1},
		{n("-1e400"), n("-1e399"), -1}, {int64(1 << 53), n("9007199254740992.1"), -1},
		{int64(0), "0.0", 0}, {int64(0), n("1e-300"), -1}, {n("-1e-300"), int64(0), -1},
		{n("18446744073709551617"), uint64(1<<64 - 1), 1}, {1000.0, int64(1000), 0},
	} {
		if got, ok := value.Compare(c.a, c.b); !ok || got != c.want {
			t.Errorf("Compare(%v, %v) = %d, %v; want %d", c.a, c.b, got, ok, c.want)
		}
		if got, ok := value.Compare(c.b, c.a); !ok || got != -c.want {
			t.Errorf("Compare(%v, %v) = %d, %v; want %d", c.b, c.a, got, ok, -c.want)
		}
	}
	for _, c := range [][2]any{
		{nil, nil}, {true, false}, {"x", int64(1)}, {int64(1), nil}, {[]any{}, []any{}},
		{map[string]any{}, "x"}, {"1e5", int64(1)},
	} {
		if got, ok := value.Compare(c[0], c[1]); ok {
			t.Errorf("Compare(%v, %v) = %d, want no order", c[0], c[1], got)
		}
	}
}

func TestEqual(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`1`, `1.0`, true}, {`0.1`, `0.10`, true}, {`1`, `"1"`, false}, {`1`, `true`, false},
		{`null`, `null`, true}, {`null`, `0`, false}, {`"a"`, `[]`, false}, {`"a"`, `{}`, false},
		{`{"a":1,"b":[1,{}]}`, `{"b":[1e0,{}],"a":1}`, true}, {`{"a":null}`, `{"b":null}`, false},
		{`[1,2]`, `[2,1]`, false}, {`[1]`, `[1,1]`, false}, {`{}`, `[]`, false},
		{`9007199254740993`, `9007199254740992`, false},
	} {
		if got := value.Equal(decode(t, c.a), decode(t, c.b)); got != c.want {
			t.Errorf("Equal(%s, %s) = %v", c.a, c.b, got)
		}
	}
}
