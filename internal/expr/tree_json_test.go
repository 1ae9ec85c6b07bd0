package expr_test

import (
	"testing"

	"github.com/oncekit/once/internal/expr"
)

// A sender that compares bytes gets the members in the order of the file.
func TestAppendJSON_KeepsTheOrderAndLeavesOutWhatIsAbsent(t *testing.T) {
	env, vars := newEnv(t), plant(t)
	type m = expr.Members
	for name, c := range map[string]struct {
		tree any
		want string
	}{
		"constant": {m{{"z", int64(1)}, {"a", []any{nil, true, "x\"y"}}, {"m", m{}}},
			`{"z":1,"a":[null,true,"x\"y"],"m":{}}`},
		"holes": {m{{"z", "${body.reqCode}"}, {"n", "${body.big}"}, {"a", m{{"h", "${body.huge}"},
			{"t", "no ${body.n}"}}}},
			`{"z":"REQ-1024","n":9007199254740993,"a":{"h":18446744073709551617,"t":"no 12"}}`},
		"absent first":  {m{{"z", "${body.?no}"}, {"a", int64(1)}}, `{"a":1}`},
		"absent last":   {m{{"z", int64(1)}, {"a", "${body.?no}"}}, `{"z":1}`},
		"absent all":    {m{{"z", "${body.?no}"}}, `{}`},
		"absent inside": {[]any{"${body.?no}", "${body.n}", "${body.?no}", "x"}, `[12,"x"]`},
		"absent whole":  {"${body.?no}", ``},
		"whole":         {"${body.data}", `{"roadway":"R7","seq":5}`},
		"literal":       {m{{"a", m{{"text", "body.n"}}}}, `{"a":"body.n"}`},
		"sorted":        {map[string]any{"z": "${body.n}", "a": "b"}, `{"a":"b","z":12}`},
	} {
		tree, err := env.CompileTree(c.tree, all, expr.TemplateOptions{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := tree.AppendJSON([]byte("> "), vars)
		if err != nil || string(got) != "> "+c.want {
			t.Errorf("%s: %s, %v; want > %s", name, got, err, c.want)
		}
	}
	tree, err := env.CompileTree(m{{"a", "${body.none}"}}, all, expr.TemplateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := tree.AppendJSON([]byte("> "), vars)
	if err == nil || err.Error() != "body.none: no such field" || string(got) != "> " {
		t.Errorf("what is missing: %s, %v", got, err)
	}
}
