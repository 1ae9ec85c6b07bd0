package cli_test

import (
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/oncekit/once/oncehttp"
)

// goSources are the examples whose code the pages about keys show.
func goSources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, pattern := range []string{"examples/payments/*.go", "examples/payouts/*.go",
		"example_test.go", "oncehttp/transport_example_test.go", "onceredis/example_test.go",
		"oncemongo/*_example_test.go"} {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(b)
		}
	}
	return all.String()
}

func TestThePagesAboutTheMiddlewareShowTheExamplesAsTheyAre(t *testing.T) {
	t.Parallel()
	examples := goSources(t)
	for _, page := range []string{"docs/middleware.md", "docs/redis.md", "docs/mongodb.md",
		"README.md"} {
		for _, block := range blocks(t, page, "go") {
			if !strings.Contains(examples, block) {
				t.Errorf("no example has the block of %s\n%s", page, block)
			}
		}
	}
}

func TestThePageAboutTheMiddlewareNamesEverySetting(t *testing.T) {
	t.Parallel()
	page := source(t, "docs", "middleware.md")
	for _, f := range reflect.VisibleFields(reflect.TypeFor[oncehttp.Config]()) {
		row := regexp.MustCompile("(?m)^\\|[^|]*`" + f.Name + "(\\.\\w+)?`[^|]*\\|")
		if !row.MatchString(page) {
			t.Errorf("no row of the table names %s", f.Name)
		}
	}
}

// addresses are free ones on this machine, each with a port of its own.
func addresses(t *testing.T, n int) []string {
	t.Helper()
	var list []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		list = append(list, l.Addr().String())
	}
	return list
}

// The page's commands run in its order, in one shell, whose processes end with it.
func TestTheCommandsOfThePageAboutTheMiddlewareRun(t *testing.T) {
	t.Parallel()
	shell := blocks(t, "docs/middleware.md", "sh")
	if len(shell) != 7 ||
		!strings.HasPrefix(shell[0], "go build -o bin/ ./examples/payments ./examples/payouts ") {
		t.Fatalf("the page has other commands than this test knows: %q", shell)
	}
	dir, at := t.TempDir(), addresses(t, 2)
	path := filepath.Dir(program(t, "./examples/payments"))
	if p := filepath.Dir(program(t, "./examples/payouts")); p != path {
		t.Fatalf("the programs are in %s and %s", path, p)
	}
	// Refusals are what the page shows, so that a status of 400 and more ends nothing.
	script := "set +eo pipefail; unset -f curl; trap 'kill -9 $(jobs -p) 2> /dev/null' EXIT\n" +
		"PATH=" + path + ":$PATH; payments() {\n" +
		"  exec " + path + "/payments -listen " + at[0] + " -operator " + at[1] + " \"$@\"\n}\n" +
		shell[1] + strings.Join(shell[2:], "echo =====\n") + "true\n" // the last command is refused
	script = strings.NewReplacer("127.0.0.1:8080", at[0], "127.0.0.1:8081", at[1]).Replace(script)
	told := bash(t, dir, script)
	parts := strings.Split(told, "=====\n")
	if len(parts) != 5 {
		t.Fatalf("the commands tell\n%s", told)
	}
	for _, c := range []struct {
		part  int
		want  string
		times int
	}{
		{0, "HTTP/1.1 201 Created", 5},
		{0, "Idempotent-Replayed: true", 4},
		{0, "urn:once:problem:mismatch", 1},
		{0, " card-1 1250\n", 1}, // the charge, once
		{1, "HTTP/1.1", 0},       // nobody was told
		{2, "HTTP/1.1 409 Conflict", 1},
		{2, "urn:once:problem:held", 1},
		{2, "Retry-After", 0},
		{2, "[acct-1] POST /charges key or… since ", 1},
		{2, " card-2 900\n", 1},
		{3, "decided", 1},
		{3, "HTTP/1.1 201 Created", 1},
		{3, "Idempotent-Replayed: true", 1},
		{3, `{"card":"card-2","cents":900,"id":"ch_2"}`, 1},
		{4, "paying 1250\n", 1},
		{4, "payout-of-invoice-7, replayed: false\n", 1},
		{4, "payout-of-invoice-7, replayed: true\n", 1},
		{4, "payouts: ", 1}, // the changed one is refused
	} {
		if n := strings.Count(parts[c.part], c.want); n != c.times {
			t.Errorf("part %d has %q %d times, want %d:\n%s", c.part, c.want, n, c.times,
				parts[c.part])
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "bin", "shop", "charges.txt"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^[0-9a-v]{26} card-1 1250\n[0-9a-v]{26} card-2 900\n$`)
	if !line.Match(b) {
		t.Errorf("the cards were charged\n%s", b)
	}
}
