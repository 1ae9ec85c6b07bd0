package expr_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/expr"
	"github.com/oncekit/once/internal/value"
)

func TestTemplateEval(t *testing.T) {
	env, vars := newEnv(t), plant(t)
	for text, want := range map[string]any{
		"":                                 "",
		"plain text, {braces} and $":       "plain text, {braces} and $",
		"${body.n}":                        int64(12),
		"${body.items}":                    vars.Body.(map[string]any)["items"],
		"${body.nul}":                      nil,
		"${body.?missing}":                 expr.Absent,
		" ${body.n}":                       " 12",
		"${body.n}${body.yes}":             "12true",
		"roadway/${resource.name}/unlock":  "roadway/R7/unlock",
		"roadway/${task.?station}":         "roadway/",
		"x${body.nul}y":                    "xy",
		"$${body.n}":                       "${body.n}",
		"a $${ b ${body.n} $$${body.n}":    "a ${ b 12 $${body.n}",
		"${body.huge}/":                    "18446744073709551617/",
		"${'}' + \"}\" + r'\\' + '\\'}'}!": "}}\\'}!",
		"${{'a': {'b': body.n}}.a.b}":      int64(12),
		"${'''}'\\''''}":                   "}''",
		"${body.n // } not here\n}":        int64(12),
		"größe ${body.reqCode}":            "größe REQ-1024",
		"${task.id}-${task.state}":         "TASK-001-running",
	} {
		tpl, err := env.CompileTemplate(text, all, expr.TemplateOptions{})
		if err != nil {
			t.Errorf("compile %q: %v", text, err)
			continue
		}
		got, err := tpl.Eval(vars)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q = %#v, %v; want %#v", text, got, err, want)
		}
	}
}

func TestTemplateWithoutAResultIsAnErrorButInReplies(t *testing.T) {
	env, vars := newEnv(t), plant(t)
	for text, want := range map[string]any{
		"${body.missing}": "", "a${body.data.lane}b": "ab", "${task.nothing}": "",
		"${body.data.lane + 'x'}": "", "${body.n}": int64(12), "${body.?missing}": expr.Absent,
		"${body.items.?x.orValue(0)}": "", "${1 / 0}": "", "a${body.data}b": "ab",
	} {
		reply, err := env.CompileTemplate(text, all, expr.TemplateOptions{ErrorEmpty: true})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := reply.Eval(vars); err != nil || got != want {
			t.Errorf("in a reply %q = %#v, %v; want %#v", text, got, err, want)
		}
	}
	strict, err := env.CompileTemplate("a${body.data.lane}b", all, expr.TemplateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := strict.Eval(vars); err == nil ||
		err.Error() != "body.data.lane: no such field" {
		t.Errorf("elsewhere: %v", err)
	}
	object, err := env.CompileTemplate("a${body.data}b", all, expr.TemplateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := object.Eval(vars); err == nil ||
		err.Error() != "body.data: an object can't stand inside a text" {
		t.Errorf("an object inside a text: %v", err)
	}
}

func TestTemplateRefuses(t *testing.T) {
	env := newEnv(t)
	for _, c := range []struct {
		text   string
		offset int
		msg    string
	}{
		{"größe ${body.a", 6, "this ${ is not closed by }"},
		{"${'}", 0, "this ${ is not closed by }"},
		{"${{'a':1}", 0, "this ${ is not closed by }"},
		{"a ${}", 4, "the expression is empty"},
		{"größe ${body.a} ${task.id}", 18, "task doesn't exist here"},
		{"größe ${body.a +}", 16, "the expression ends too early"},
		{"body.taskCode", 0, `"${body.taskCode}"`},
		{"body['taskCode']", 0, "reads as an expression"},
		{"task.?id.orValue('x')", 0, `"${task.?id.orValue('x')}"`},
		{"has(body.x) ? 'a' : 'b'", 0, "{text: …}"},
		{"body.items.map(i, i.t)", 0, "reads as an expression"},
	} {
		_, err := env.CompileTemplate(c.text, expr.Body, expr.TemplateOptions{})
		var e *expr.CompileError
		if !errors.As(err, &e) || e.Offset != c.offset || !strings.Contains(e.Msg, c.msg) {
			t.Errorf("%q: %#v; want %d …%s…", c.text, err, c.offset, c.msg)
		}
	}
	for _, text := range []string{
		"error", "body", "task-stands-still", "Success", "try again", "a.b",
		"https://x.example/body.x",
		"task.done or not", "1.5", "v1.body", "see body.x", "system.task", "'body.x'",
	} {
		if _, err := env.CompileTemplate(text, all, expr.TemplateOptions{}); err != nil {
			t.Errorf("the text %q is refused: %v", text, err)
		}
	}
}

func TestTreeEval(t *testing.T) {
	env, vars := newEnv(t), plant(t)
	tree, err := env.CompileTree(map[string]any{
		"code": "0", "n": "${body.n}", "gone": "${body.?missing}", "i": 3, "f": 0.1, "no": nil,
		"list": []any{"${body.?missing}", "x${body.n}", map[string]any{"t": "${body.items[0].t}"}},
		"lit":  map[string]any{"text": "body.taskCode ${x"},
		"both": map[string]any{"text": "${body.s}", "more": true},
		"${k}": "v", "empty": map[string]any{},
	}, all, expr.TemplateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"code": "0", "n": int64(12), "i": int64(3), "f": value.Number("0.1"), "no": nil,
		"list": []any{"x12", map[string]any{"t": int64(1)}}, "lit": "body.taskCode ${x",
		"both": map[string]any{"text": "12", "more": true}, "${k}": "v", "empty": map[string]any{},
	}
	for range 2 { // the second time nothing of the first is left
		if got, err := tree.Eval(vars); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %#v, %v\nwant %#v", got, err, want)
		}
	}
	if got := tree.References(); !reflect.DeepEqual(got, []string{"body"}) {
		t.Errorf("References = %v", got)
	}
}

func TestTreeErrorsLeadToThePlace(t *testing.T) {
	type object = map[string]any
	env := newEnv(t)
	for _, c := range []struct {
		tree any
		path []any
		msg  string
	}{
		{object{"a": []any{"x", object{"b": "${"}}}, []any{"a", 1, "b"}, "not closed"},
		{object{"a": object{"text": 3}}, []any{"a", "text"}, "marks a literal text"},
		{[]any{struct{}{}}, []any{0}, "is no value"},
		{"${task.id}", nil, "doesn't exist here"},
	} {
		_, err := env.CompileTree(c.tree, expr.Body, expr.TemplateOptions{})
		var e *expr.CompileError
		if !errors.As(err, &e) || !reflect.DeepEqual(e.Path, c.path) ||
			!strings.Contains(e.Msg, c.msg) {
			t.Errorf("%v: %#v; want %v …%s…", c.tree, err, c.path, c.msg)
		}
	}
	deep := any("x")
	for range 40 {
		deep = []any{deep}
	}
	if _, err := env.CompileTree(deep, expr.Body, expr.TemplateOptions{}); err == nil {
		t.Error("40 levels pass")
	}
}

// Every expression and text of the robot example, at its place.
func TestRobotExampleCompilesAndEvaluates(t *testing.T) {
	env, vars := newEnv(t), plant(t)
	vars.Body.(map[string]any)["currentPositionCode"] = "p02"
	for _, c := range []struct {
		text    string
		allowed expr.VarSet
		want    any
	}{
		{"${body.reqCode}", expr.Body, "REQ-1024"},
		{"${error}", expr.Body | expr.Error, "body.taskCode: no such field"},
		{"${body.?reqCode.orValue('')}", expr.Body | expr.Error, "REQ-1024"},
		{"${task.id}", expr.Task | expr.Effect, "TASK-001"},
		{"${task.state}", expr.Task | expr.Effect, "running"},
		{"${body.?data.?roadway}", expr.Body | expr.Task, "R7"},
		{"${body.?robotCode}", expr.Body | expr.Task, expr.Absent},
		{"roadway/${task.?roadway}", expr.Body | expr.Task, "roadway/R7"},
		{"${body.?currentPositionCode}", expr.Body | expr.Task, "p02"},
		{"station/${task.?station}", expr.Body | expr.Task, "station/"},
		{"${body.?data.?seq}", expr.Body | expr.Task, int64(5)},
		{"${effect.id}", expr.Task | expr.Effect, "e1"},
		{"roadway/${resource.name}/unlock", expr.Resource | expr.Effect, "roadway/R7/unlock"},
		{"station/${resource.name}/release", expr.Resource | expr.Effect, "station/R7/release"},
		{"${resource.fence}", expr.Resource | expr.Effect, int64(3)},
		{"Success", expr.Body, "Success"},
		{"try again", expr.Body, "try again"},
		{"task-stands-still", expr.Task, "task-stands-still"},
		{"unlock-roadway", expr.Resource, "unlock-roadway"},
	} {
		tpl, err := env.CompileTemplate(c.text, c.allowed, expr.TemplateOptions{})
		if err != nil {
			t.Errorf("compile %q: %v", c.text, err)
			continue
		}
		if got, err := tpl.Eval(vars); err != nil || got != c.want {
			t.Errorf("%q = %v, %v; want %v", c.text, got, err, c.want)
		}
	}
	for text, want := range map[string]any{
		"body.reqCode": "REQ-1024", "body.taskCode": "TASK-001", "body.callbackMethod": "finishFE",
	} {
		p, err := env.Compile(text, expr.Body|expr.Header|expr.Query|expr.Source, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Eval(vars); err != nil || got != want {
			t.Errorf("%s = %v, %v; want %v", text, got, err, want)
		}
	}
	if _, err := env.Compile("auth.header['x-account-id']", expr.Header, 0); err == nil {
		t.Error("auth is no variable of this environment, but compiles")
	}
}

// FuzzTemplate holds: whatever a configuration's author writes is compiled or refused, with an
// offset inside the text, and evaluating it ends in a value or an error.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{
		"${body.n}", "a${'}'}$${", "${{'a':{}}}", "${r'\\'}", "${body.?a.orValue(\"\"\"}\"\"\")}",
		"${body.items.map(i, i.t)}", "${", "${'größe' + task.id}", "${body.huge < 1} // }",
		"body.x",
		"${timestamp('x')}", "${has(body.a.b)}", "${header['A']}", "${\n\n1 +}",
	} {
		f.Add(s)
	}
	env, vars := newEnv(f), plant(f)
	f.Fuzz(func(t *testing.T, text string) {
		tpl, err := env.CompileTemplate(text, all, expr.TemplateOptions{})
		if err != nil {
			var e *expr.CompileError
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len([]rune(text)) || e.Msg == "" {
				t.Fatalf("%q: %#v", text, err)
			}
			return
		}
		v, err := tpl.Eval(vars)
		if err != nil {
			var e *expr.EvalError
			if !errors.As(err, &e) || e.Msg == "" {
				t.Fatalf("%q: %#v", text, err)
			}
			return
		}
		if v == expr.Absent {
			return
		}
		if _, err := value.Encode(v); err != nil && !strings.Contains(err.Error(), "UTF-8") {
			t.Fatalf("%q gives %#v: %v", text, v, err)
		}
	})
}
