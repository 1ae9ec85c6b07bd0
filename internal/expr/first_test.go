package expr

import (
	"reflect"
	"testing"

	"github.com/oncekit/once/internal/value"
)

// usual are expressions that are walked without CEL, but for the last three.
func usual() []string {
	return []string{
		"body.a", "body.?a", "body.a.b.c", "body.?a.b", "body.?a.?b.?c", "body[?'a']",
		"body.a[?0]", "body[?0]", "body.?a[0]", "body.?a.orValue('-')",
		"body.?a.?b.orValue(body.c)", "body.?a.?b.orValue(body.?c.orValue(0))",
		"body.?a.or(body.?b)", "body.?a.or(body.?b.or(body.?c))",
		"body.?a.or(body.?b).orValue(1.5)", "body.?a.orValue(null)", "body.?a.orValue(7u)",
		"body.?a.or(body.?b).orValue(body.?a.?b.orValue(body.c))",
		"header[?'x-a'].orValue('-')", "header[?'x-two'].orValue('-')",
		"header[?'x-no'].orValue(query.q)", "query[?'no'].or(header[?'x-a'])",
		"task.?a.orValue(task.id)", "task.?state.?x.orValue(source)", "item.?a.orValue(item)",
		"item.?a.or(item.?b)", "header.?host", "body.?a.orValue(source)", "'-'", "7", "null",
		"body.?a.orValue(b'x')", "body.?a.orValue(body.?b)", "body.?a.or(optional.of(1))",
	}
}

// pair is one expression in both ways.
type pair struct {
	text       string
	fast, slow *Program
}

func pairs(t testing.TB) []pair {
	env, err := New()
	if err != nil {
		t.Fatal(err)
	}
	const all = Body | Item | Header | Query | Source | Task
	var list []pair
	walked := 0
	for _, text := range usual() {
		fast, err := env.Compile(text, all, 0)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if fast.first != nil {
			walked++
		}
		list = append(list, pair{text, fast, compileForCEL(t, env, text, all)})
	}
	if walked != len(list)-3 {
		t.Errorf("%d of %d expressions are walked", walked, len(list))
	}
	return list
}

// same compares the two ways on a message.
func (p *pair) same(t *testing.T, body any) {
	for _, task := range []map[string]any{nil, {"id": "T", "state": "s"}} {
		vars := &Vars{Body: body, Item: body, Source: "rcs", Task: task,
			Header: map[string][]string{"X-A": {"1"}, "X-Two": {"1", "2"}},
			Query:  map[string][]string{"q": {"3"}}}
		got, gotErr := p.fast.Eval(vars)
		want, wantErr := p.slow.Eval(vars)
		if !reflect.DeepEqual(got, want) || errorText(gotErr) != errorText(wantErr) {
			t.Errorf("%s of %v, task %v: %v, %v; CEL says %v, %v", p.text, body, task, got, gotErr,
				want, wantErr)
		}
	}
}

// What is walked without CEL has the results that CEL gives.
func FuzzFirst_IsWhatCELSays(f *testing.F) {
	for _, body := range []string{`{}`, `[]`, `null`, `"x"`, `7`, `{"a":null}`, `{"a":""}`,
		`{"a":"x","c":1}`, `{"a":7}`, `{"a":[1,2]}`, `{"a":{}}`, `{"a":{"b":null}}`,
		`{"a":{"b":{"c":true}}}`, `{"a":{"b":[{"c":18446744073709551617}]},"c":0.1}`,
		`{"a":true,"b":"y","c":"z"}`, `{"c":18446744073709551615,"b":{"c":-1.5}}`} {
		f.Add([]byte(body))
	}
	list := pairs(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		body, err := value.Decode(raw, value.Limits{})
		if err != nil {
			return
		}
		for i := range list {
			list[i].same(t, body)
		}
	})
}

func compileForCEL(t testing.TB, e *Env, text string, allowed VarSet) *Program {
	t.Helper()
	env, err := e.with(allowed)
	if err != nil {
		t.Fatal(err)
	}
	checked, iss := env.Compile(text)
	if iss.Err() != nil {
		t.Fatal(iss.Err())
	}
	p := &Program{text: text, uses: usesOf(checked.NativeRep())}
	if err := p.plan(env, checked, 0); err != nil {
		t.Fatal(err)
	}
	return p
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
