package expr_test

import (
	"strings"
	"testing"

	"github.com/oncekit/once/internal/expr"
)

func TestAScopeIsReadFromWhatIsKnownOfTheCaller(t *testing.T) {
	t.Parallel()
	env, err := expr.New()
	if err != nil {
		t.Fatal(err)
	}
	vars := &expr.Vars{
		Auth:   map[string][]string{"X-Account-Id": {"a1"}, "X-Two": {"1", "2"}},
		JWT:    map[string]any{"sub": "u1", "org": map[string]any{"id": int64(7)}},
		Header: map[string][]string{"X-Tenant": {"t1"}},
	}
	all := expr.Auth | expr.JWT | expr.Header | expr.Query
	for text, want := range map[string]any{
		"auth.header['x-account-id']":                 "a1",
		"auth.header['x-account-id'] + '/' + jwt.sub": "a1/u1",
		"jwt.sub":                            "u1",
		"jwt.org.id":                         int64(7),
		"header['x-tenant']":                 "t1",
		"jwt.?tenant.orValue('none')":        "none",
		"auth.header.?x.orValue('-')":        "-",
		"has(jwt.sub) ? jwt.sub : 'nobody'":  "u1",
		"auth.header[?'x'].orValue(jwt.sub)": "u1",
	} {
		p, err := env.Compile(text, all, 0)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := p.Eval(vars); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"auth.header['x-other']": "x-other",
		"auth.header['x-two']":   "came more than once",
		"jwt.tenant":             "jwt.tenant",
	} {
		p, err := env.Compile(text, all, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Eval(vars); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"auth.header['X-Account']": "lower case",
		"auth.status":              "auth has header alone",
		"body.id":                  "body",
	} {
		if _, err := env.Compile(text, all, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := env.Compile("jwt.sub", expr.Header, 0); err == nil {
		t.Error("jwt is offered where no token is verified")
	}
}
