package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestConfigCheckTellsWhatAGatewayCannotUseAndWhere(t *testing.T) {
	t.Parallel()
	const file = `gateway:
  upstream: http://127.0.0.1:3000
  scope: "header['x-account']"
  routes: [{match: POST /payments, on_unknown: retry}, {match: PATCH /payments}]
`
	for _, c := range []struct{ name, more, want string }{
		{"no master", "  records: redis+sentinel://127.0.0.1:26379\n", "master_name"},
		{"a database", "  records: redis://127.0.0.1/x\n", "invalid database number"},
		{"an option", "  records: \"redis://127.0.0.1/0?foo=1\"\n", "foo"},
		{"an option of a MongoDB", "  records: \"mongodb://h/d?connectTimeoutMS=x\"\n",
			"connectTimeoutMS"},
		{"no file", "  jwt: {jwks: none.json, issuer: i, audience: a}\n", "none.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			name := filepath.Join(dir, write(t, dir, "once.yaml", file+c.more))
			for _, command := range [][]string{{"config", "check", name},
				{"serve", "--config", name, "--store", "sqlite:" + filepath.Join(dir, "s.db")}} {
				status, out, errs := run(command...)
				if status != 2 || !strings.Contains(errs, c.want) ||
					!strings.HasPrefix(errs, name+":5:") || !strings.Contains(errs, "\n       | ") {
					t.Errorf("%v: status %d: %s%s, want %q in line 5", command[0], status, out,
						errs, c.want)
				}
			}
			if found, _ := filepath.Glob(filepath.Join(dir, "s.db*")); len(found) > 0 {
				t.Errorf("a store was made: %v", found)
			}
		})
	}
	dir := t.TempDir()
	name := filepath.Join(dir, write(t, dir, "once.yaml", file))
	want := name + " is right: 1 gateway, 2 routes\n"
	if status, out, errs := run("config", "check", name, "--store",
		"sqlite:"+filepath.Join(dir, "s.db")); status != 0 || out != want {
		t.Errorf("status %d: %s%s, want %s", status, out, errs, want)
	}
}
