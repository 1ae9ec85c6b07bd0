package cli

import (
	"fmt"
	"strings"
	"testing"
)

func TestTheDifferencesOfTwoContents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ first, later, want string }{
		{`{"a":1,"b":{"c":"x","d":null}}`, `{"b":{"d":2,"c":"y"},"a":1}`,
			`body.b.c: "x" → "y" | body.b.d: null → 2`},
		{`{"a":1}`, `{"a b":[1],"z":true}`,
			`body.a: was 1, is missing | body["a b"]: added [1] | body.z: added true`},
		{`[1,{"x":1}]`, `[1,{"x":2},3]`, `body[1].x: 1 → 2 | body[2]: added 3`},
		{`[1,2]`, `[1]`, `body[1]: was 2, is missing`},
		{`{"a":1}`, `{"a":[1]}`, `body.a: 1 → [1]`},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`,
			`body.a: 9007199254740993 → 9007199254740992`},
		{`{"a":1, "b":2}`, `{"b":2,"a":1}`, `the same values, written in another way`},
		{`{"a":1}`, `{"a":1}`, `the same bytes`},
		{`"<&>"`, `"x"`, `body: "<&>" → "x"`},
		{"one\ntwo\nthree", "one\nzwei\nthree", `line 2: "two" → "zwei"`},
		{"a\nb", "a\nx\ny\nb", `line 2: added "x" | line 3: added "y"`},
		{`{"a":1} {"a":2}`, `{"a":1}`, `line 1: "{\"a\":1} {\"a\":2}" → "{\"a\":1}"`},
		{"", "x", `line 1: "" → "x"`},
	} {
		var got []string
		for _, d := range differences([]byte(c.first), []byte(c.later)) {
			got = append(got, d.String())
		}
		if text := strings.Join(got, " | "); text != c.want {
			t.Errorf("%s and %s:\n%s\nwant\n%s", c.first, c.later, text, c.want)
		}
	}
}

func TestVeryManyDifferencesAreNotAllTold(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range 500 {
		fmt.Fprintf(&many, `,"n%d":1`, i)
	}
	got := differences([]byte(`{}`), []byte(`{"a":1`+many.String()+`}`))
	if len(got) != maxDifferences+1 || got[maxDifferences].String() != "… and more" {
		t.Errorf("%d differences, the last one %s", len(got), got[len(got)-1])
	}
}
