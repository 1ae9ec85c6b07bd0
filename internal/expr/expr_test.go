package expr_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/expr"
	"github.com/oncekit/once/internal/value"
)

const all = expr.Body | expr.Item | expr.Header | expr.Query | expr.Source | expr.Task |
	expr.Resource | expr.Effect | expr.Error

func newEnv(t testing.TB) *expr.Env {
	t.Helper()
	env, err := expr.New()
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func compile(t testing.TB, env *expr.Env, text string) *expr.Program {
	t.Helper()
	p, err := env.Compile(text, all, 0)
	if err != nil {
		t.Fatalf("compile %s: %v", text, err)
	}
	return p
}

func decode(t testing.TB, text string) any {
	t.Helper()
	v, err := value.Decode([]byte(text), value.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// plant is a message as the robot example has them.
func plant(t testing.TB) *expr.Vars {
	return &expr.Vars{
		Body: decode(t, `{"reqCode":"REQ-1024","taskCode":"TASK-001","callbackMethod":"finishFE",
			"n":12,"s":"12","big":9007199254740993,"huge":18446744073709551617,"ten":10,
			"u":18446744073709551615,"tenth":0.1,"half":0.5,"nul":null,"yes":true,
			"data":{"roadway":"R7","seq":5},"items":[{"t":1},{"t":2,"huge":18446744073709551617}]}`),
		Header: map[string][]string{
			"x-request-id": {"abc"}, "X-Lr-Request-Id": {"def"}, "x-twice": {"1", "2"},
		},
		Query:    map[string][]string{"Site": {"north"}},
		Source:   "rcs",
		Task:     map[string]any{"id": "TASK-001", "state": "running", "roadway": "R7"},
		Resource: map[string]any{"kind": "roadway", "name": "R7", "fence": int64(3)},
		Effect:   map[string]any{"id": "e1", "name": "unlock"},
		Error:    "body.taskCode: no such field",
	}
}

func checkEval(t *testing.T, table map[string]any) {
	t.Helper()
	env, vars := newEnv(t), plant(t)
	for text, want := range table {
		got, err := compile(t, env, text).Eval(vars)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s = %T %v, %v; want %T %v", text, got, got, err, want, want)
		}
	}
}

func TestNumbersStayExact(t *testing.T) {
	const big = value.Number("18446744073709551617")
	checkEval(t, map[string]any{
		"body.big":                            int64(9007199254740993),
		"body.u":                              uint64(18446744073709551615),
		"body.huge":                           value.Number("18446744073709551617"),
		"body.n + 1":                          int64(13),
		"body.half * 2.0":                     1.0,
		"0.1 + 0.2":                           value.Number("0.30000000000000004"),
		"body.n == 12":                        true,
		"body.n == 12.0":                      true,
		"body.n == '12'":                      false,
		"body.n == body.s":                    false,
		"body.s == '12'":                      true,
		"body.big == 9007199254740992":        false,
		"body.big == 9007199254740993":        true,
		"body.huge == body.items[1].huge":     true,
		"body.huge != body.items[1].huge":     false,
		"body.huge == body.tenth":             false,
		"body.huge == '18446744073709551617'": false,
		"body.huge in [1, body.huge]":         true,
		"[body.huge] == [body.items[1].huge]": true,
		"{'a': body.huge}":                    map[string]any{"a": big},
		"body.huge > 5":                       true,
		"5 < body.huge":                       true,
		"5u >= body.huge":                     false,
		"body.tenth < 0.5":                    true,
		"0.5 <= body.tenth":                   false,
		"body.u < body.huge":                  true,
		"body.huge > body.u":                  true,
		"string(body.huge)":                   "18446744073709551617",
		"double(body.tenth) == 0.1":           true,
		"body.n < 12.5":                       true,
		"body.u > 1":                          true,
	})
}

func TestEvalGivesValues(t *testing.T) {
	checkEval(t, map[string]any{
		"body.reqCode":                         "REQ-1024",
		"body['reqCode']":                      "REQ-1024",
		"body.items[1].t":                      int64(2),
		"body.items":                           plant(t).Body.(map[string]any)["items"],
		"body.nul":                             nil,
		"string(body.n)":                       "12",
		"body.items.map(i, i.t)":               []any{int64(1), int64(2)},
		"body.items.exists(body, body.t == 2)": true,
		"has(body.missing)":                    false,
		"has(body.data.seq)":                   true,
		"has(body.n.x)":                        false,
		"body.?missing":                        expr.Absent,
		"body.?data.?roadway":                  "R7",
		"optional.none()":                      expr.Absent,
		"{'a': body.?missing, 'b': 1}":         map[string]any{"b": int64(1)},
		"{?'a': body.?missing, 'b': 1}":        map[string]any{"b": int64(1)},
		"header['x-request-id']":               "abc",
		"header['x-lr-request-id']":            "def",
		"header[?'x-nothing'].orValue('')":     "",
		"has(header.host)":                     false,
		"'x-request-id' in header":             true,
		"query.Site":                           "north",
		"source + '/' + task.id":               "rcs/TASK-001",
		"resource.name":                        "R7",
		"resource.fence":                       int64(3),
		"effect.id":                            "e1",
		"error":                                "body.taskCode: no such field",
		"body.reqCode.lowerAscii().split('-')": []any{"req", "1024"},
		"body.yes ? 'a' : 'b'":                 "a",
		"size(body.items)":                     int64(2),
		"body.reqCode.replace('REQ', 'R')":     "R-1024",
	})
}

// The behaviour of optionals that the configuration's users have to know.
func TestOrValueFallsBack(t *testing.T) {
	env := newEnv(t)
	p := compile(t, env, "body.?data.?roadway.orValue(body.taskCode)")
	for body, want := range map[string]any{
		`{"taskCode":"T"}`:                         "T",
		`{"taskCode":"T","data":{}}`:               "T",
		`{"taskCode":"T","data":""}`:               "T",
		`{"taskCode":"T","data":null}`:             "T",
		`{"taskCode":"T","data":{"roadway":""}}`:   "",
		`{"taskCode":"T","data":{"roadway":null}}`: nil,
		`{"taskCode":"T","data":{"roadway":"R"}}`:  "R",
		`{"taskCode":"T","data":{"Roadway":"R"}}`:  "T",
	} {
		got, err := p.Eval(&expr.Vars{Body: decode(t, body)})
		if err != nil || got != want {
			t.Errorf("%s gives %v, %v; want %v", body, got, err, want)
		}
	}
	_, err := p.Eval(&expr.Vars{Body: decode(t, `{"taskCode":"T","data":["x"]}`)})
	if err == nil || !strings.HasPrefix(err.Error(), "body.data.roadway: ") {
		t.Errorf("a list as data gives %v", err)
	}
	_, err = p.Eval(&expr.Vars{Body: decode(t, `{}`)})
	if err == nil || err.Error() != "body.taskCode: no such field" {
		t.Errorf("without the fallback's field: %v", err)
	}
	got, err := compile(t, env, "body.?reqCode.orValue('')").Eval(&expr.Vars{})
	if err != nil || got != "" {
		t.Errorf("a body that couldn't be read gives %v, %v", got, err)
	}
}

func TestEvalErrorsNameTheField(t *testing.T) {
	env, vars := newEnv(t), plant(t)
	for _, c := range []struct {
		text, want string
		missing    bool
	}{
		{"body.missing", "body.missing: no such field", true},
		{"body.data.lane", "body.data.lane: no such field", true},
		{"body.TaskCode", "body.TaskCode: no such field", true},
		{"body.nul.x", "body.nul.x: no such field, body.nul is null", true},
		{"body.n.x", "body.n.x: no such field, body.n is a number", true},
		{"body.items[7].t", "body.items[7]: no such element", true},
		{"body.items.t", "body.items.t: no such field, a list has numbers", false},
		{"body.data.lane + 'x'", "body.data.lane: no such field", true},
		{"body.yes ? body.data.lane : body.lane", "body.data.lane: no such field", true},
		{"has(body.nothing.seq)", "body.nothing: no such field", true},
		{"size(body.data['odd name'])", "body.data['odd name']: no such field", true},
		{"body.items.map(i, i.huge)", "i.huge: no such field", true},
		{"header['x-twice']", "header['x-twice']: came more than once", false},
		{"header['x-twice'] + 'a'", "header['x-twice']: came more than once", false},
		{"header[?'x-twice'].orValue('')", "header['x-twice']: came more than once", false},
		{"header['x-none']", "header['x-none']: no such field", true},
		{"task.station", "task.station: no such field", true},
		{"body.reqCode + 1", "an operator or function can't take values of these types", false},
		{"body.huge + 1", "an operator or function can't take values of these types", false},
		{"int(body.reqCode)", "a value can't be converted", false},
		{"1 / 0 == 1", "division by zero", false},
		{"b'x'", "the result is of type bytes, which is no JSON", false},
		{"{1: 2}", "the result has a member whose name is no text", false},
		{"1.0 / 0.0", "the result is not a finite number", false},
	} {
		got, err := compile(t, env, c.text).Eval(vars)
		var e *expr.EvalError
		if !errors.As(err, &e) {
			t.Errorf("%s = %v, %v; want an EvalError", c.text, got, err)
			continue
		}
		if e.Error() != c.want || e.Missing != c.missing {
			t.Errorf("%s: %q missing=%v; want %q %v", c.text, e, e.Missing, c.want, c.missing)
		}
	}
	for _, text := range []string{"task.id", "task.id + 'x'", "task.?id", "task == task"} {
		_, err := compile(t, env, text).Eval(&expr.Vars{})
		if err == nil || err.Error() != "task: there is none here" {
			t.Errorf("%s without a task: %v", text, err)
		}
	}
}

func TestEvalWorkIsBounded(t *testing.T) {
	env := newEnv(t)
	long := make([]any, 3000)
	for i := range long {
		long[i] = int64(i)
	}
	vars := &expr.Vars{Body: map[string]any{
		"l": long, "s": strings.Repeat("a", 100_000),
	}}
	for text, want := range map[string]string{
		"body.l.all(a, body.l.all(b, a + b >= 0))": "takes too much work",
		"body.s.replace('a', body.s)":              "too long",
	} {
		if _, err := compile(t, env, text).Eval(vars); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want …%s…", text, err, want)
		}
	}
	got, err := compile(t, env, "body.l.exists(x, x == 2999)").Eval(vars)
	if got != true || err != nil {
		t.Errorf("an ordinary search gives %v, %v", got, err)
	}
}

func TestCompileErrorsPointAtThePlace(t *testing.T) {
	env := newEnv(t)
	allowed := expr.Body | expr.Header
	for _, c := range []struct {
		text   string
		offset int
		msg    string
	}{
		{"", 0, "the expression is empty"},
		{"body.", 5, "the expression ends too early"},
		{"(body.a", 7, "the expression ends too early"},
		{"'größe' + taskCode", 10, "unknown name taskCode; there is body, header"},
		{"body.a == task.id", 10, "task doesn't exist here; there is body, header"},
		{"body.a +\n  task.id", 11, "task doesn't exist here; there is body, header"},
		{"body.a ) b", 7, "unexpected ')'"},
		{"body.a b", 7, "unexpected 'b'"},
		{"body.a # b", 7, "unexpected '#'"},
		{"'a' + 1", 4, "+ can't take (string, int)"},
		{"size(1)", 4, "size can't take (int)"},
		{"header['X-Request-Id']", 8, "header names are written in lower case: x-request-id"},
		{"nothing(body.a)", 7, "unknown name nothing; there is body, header"},
		{"header[x-account-id]", 7, "unknown name x; a name like this stands in quotes: " +
			"header['x-account-id']"},
		{"header.x-tenant", 9, "unknown name tenant; a name like this stands in quotes: " +
			"header['x-tenant']"},
		{"header['a'] + header[tenant]", 21, "unknown name tenant; a name like this stands in " +
			"quotes: header['tenant']"},
		{"body.a - other", 9, "unknown name other; there is body, header"},
		{strings.Repeat("(", 100) + "1" + strings.Repeat(")", 100), -1, ""},
		{"'" + strings.Repeat("x", 9000) + "'", -1, ""},
	} {
		_, err := env.Compile(c.text, allowed, 0)
		var e *expr.CompileError
		if !errors.As(err, &e) {
			t.Errorf("%q: %v, want a CompileError", c.text, err)
			continue
		}
		if c.offset >= 0 && (e.Offset != c.offset || e.Msg != c.msg) {
			t.Errorf("%q: %d %q; want %d %q", c.text, e.Offset, e.Msg, c.offset, c.msg)
		}
		if len(e.Msg) > 400 {
			t.Errorf("%q: a message of %d bytes", c.text[:20], len(e.Msg))
		}
	}
	_, err := env.Compile("body.a )", allowed, 10)
	var e *expr.CompileError
	if !errors.As(err, &e) || e.Offset != 17 {
		t.Errorf("the position isn't added: %v", err)
	}
	if _, err := env.Compile("body.all.exists(task, task.x == 1)", allowed, 0); err != nil {
		t.Errorf("a loop's variable named like one of ours: %v", err)
	}
}

func TestReferences(t *testing.T) {
	env := newEnv(t)
	for text, want := range map[string][]string{
		"body.a.b": {"body"},
		"task.?roadway.orValue(task.id) + source": {"source", "task.id", "task.roadway"},
		"has(task.station) ? header.host : error": {"error", "header", "task.station"},
		"task":                          {"task"},
		"body.items.map(task, task.x)":  {"body"},
		"resource['name'] == effect.id": {"effect.id", "resource.name"},
		"'a' + 'b'":                     nil,
	} {
		if got := compile(t, env, text).References(); !reflect.DeepEqual(got, want) {
			t.Errorf("References(%s) = %v, want %v", text, got, want)
		}
	}
}

func TestEnvIsSafeForConcurrentUse(t *testing.T) {
	env, vars := newEnv(t), plant(t)
	p := compile(t, env, "body.?data.?roadway.orValue(body.taskCode) + header['x-request-id']")
	done := make(chan error, 8)
	for i := range cap(done) {
		go func() {
			_, err := env.Compile("body.a", expr.Body|expr.VarSet(1<<(i%8)), 0)
			for range 100 {
				if v, e := p.Eval(vars); e != nil || v != "R7abc" {
					err = errors.Join(err, e, errors.New("wrong result"))
				}
			}
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func BenchmarkKeyOfThree(b *testing.B) {
	env, vars := newEnv(b), plant(b)
	var key [3]*expr.Program
	for i, text := range []string{"body.reqCode", "body.taskCode", "body.callbackMethod"} {
		key[i] = compile(b, env, text)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, p := range key {
			if _, err := p.Eval(vars); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkOptionalWithFallback(b *testing.B) {
	env, vars := newEnv(b), plant(b)
	p := compile(b, env, "body.?data.?roadway.orValue(body.taskCode)")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Eval(vars); err != nil {
			b.Fatal(err)
		}
	}
}
