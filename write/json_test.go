package write_test

import (
	"encoding/json"
	"testing"

	"github.com/oncekit/once/write"
)

func TestAValueIsWrittenAsJSON(t *testing.T) {
	got, err := write.JSON(map[string]any{
		"n": json.Number("1e400"), "l": []any{1, 0.5, nil, true, "ä\n"}, "t": east,
	})
	const want = `{"l":[1,0.5,null,true,"ä\n"],"n":1e400,"t":"2030-01-02T03:04:05.0000006Z"}`
	if err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	for _, v := range []any{[]byte("x"), []any{[]byte("x")}, struct{}{}, nested(67)} {
		if got, err := write.JSON(v); err == nil {
			t.Errorf("%T: %s", v, got)
		}
	}
}

func TestValuesAreAppendedToAListOfJSON(t *testing.T) {
	for _, c := range []struct{ list, want string }{
		{"", `["x",1]`}, {"[]", `["x",1]`}, {" [1.50, {}] ", `[1.5,{},"x",1]`},
	} {
		got, ok, err := write.AppendJSON(c.list, []any{"x", 1})
		if err != nil || !ok || got != c.want {
			t.Errorf("%s: %s, %v, %v", c.list, got, ok, err)
		}
	}
	for _, list := range []string{"{}", "null", "x", "1"} {
		if got, ok, err := write.AppendJSON(list, []any{1}); ok || err != nil {
			t.Errorf("%s: %s, %v", list, got, err)
		}
	}
}
