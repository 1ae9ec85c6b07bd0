package lint_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// rule says what the packages matching a pattern may import besides the standard library. Tests
// may import anything. A pattern is a folder, or a folder and all below it ("examples/...").
type rule struct {
	pattern string
	own     []string // packages of this module; patterns too
	libs    []string // modules of others; a prefix of the import path
}

// anything stands for every package of this module, or every library.
var anything = []string{"..."}

// domain is what speaks of callbacks, tasks and effects, and knows no technology.
var domain = []string{".", "queue", "inbox", "flow", "outbox", "webhook", "write"}

// inner is what the composing packages under internal share below them.
var inner = []string{"internal/value", "internal/expr", "internal/config"}

// rules is read from the top: the first row that matches a package counts. Arrows point one way:
// leaves to the domain, never back, and leaves never to each other.
var rules = []rule{
	// The core: a user of it gets no dependency at all.
	{pattern: "."},
	{pattern: "oncetest", own: []string{"."}},
	{pattern: "webhook"},
	{pattern: "write", own: []string{".", "internal/value"}},

	// The domain.
	{pattern: "queue", own: []string{"."}},
	{pattern: "queue/queuetest", own: []string{".", "queue"}},
	{pattern: "write/writetest", own: []string{".", "write"}},
	{pattern: "flow", own: []string{".", "queue", "internal/value"}},
	{
		pattern: "inbox",
		own: []string{".", "queue", "webhook", "write", "internal/value",
			"internal/httpresult"},
	},
	{
		pattern: "outbox/...",
		own:     []string{".", "queue", "outbox/...", "internal/httpresult"},
		libs:    []string{"github.com/eclipse/paho.golang", "github.com/eclipse/paho.mqtt.golang"},
	},

	// The leaves: one technology each.
	{pattern: "oncemem", own: []string{"."}},
	{pattern: "oncehttp", own: []string{".", "internal/value"}},
	{
		pattern: "oncesqlite/...",
		own:     []string{".", "queue", "write", "oncesqlite/...", "internal/value"},
		libs:    []string{"github.com/ncruces/go-sqlite3", "golang.org/x/sys"},
	},
	{
		pattern: "oncepg/...",
		own: []string{".", "queue", "write", "oncepg/...", "internal/turn",
			"internal/value"},
		libs: []string{"github.com/jackc/pgx/v5"},
	},
	{
		pattern: "oncemongo/...",
		own:     []string{".", "queue", "write", "oncemongo/...", "internal/value"},
		libs:    []string{"go.mongodb.org/mongo-driver/v2"},
	},
	{
		pattern: "onceredis/...",
		own:     []string{".", "onceredis/..."},
		libs:    []string{"github.com/redis/go-redis/v9"},
	},

	// What every store of a queue does in its turn.
	{pattern: "internal/turn", own: []string{".", "queue"}},

	// What an HTTP status means: below the inbox and the outbox, which don't know each other.
	{pattern: "internal/httpresult"},

	// Values and expressions know the core's errors and identities, and no domain.
	{
		pattern: "internal/value",
		own:     []string{"."},
		libs:    []string{"github.com/go-json-experiment/json"},
	},
	{
		pattern: "internal/expr",
		own:     []string{".", "internal/value"},
		libs:    []string{"cel.dev/cel-go", "cel.dev/expr", "google.golang.org/protobuf"},
	},

	// The shapes of the operator's API belong to both of its sides, and the side that asks knows
	// nothing else.
	{pattern: "internal/wire"},
	{pattern: "internal/client", own: []string{"internal/wire"}},
	{pattern: "internal/screen", libs: []string{"golang.org/x/term", "golang.org/x/text"}},

	// What is expected of any implementation: files, and nothing else.
	{pattern: "scenarios"},

	// Only here does everything meet.
	{pattern: "internal/server/...", own: anything, libs: anything},
	{pattern: "internal/cli/...", own: anything, libs: anything},
	{pattern: "deploy"},
	{pattern: "serve", own: []string{"inbox", "internal/cli"}},
	{pattern: "cmd/...", own: []string{"serve", "internal/cli"}},
	{pattern: "examples/...", own: anything, libs: anything},
	{pattern: "internal/torture/...", own: anything, libs: anything},
	{
		pattern: "internal/linear",
		own:     []string{"."},
		libs:    []string{"github.com/anishathalye/porcupine"},
	},
	{
		pattern: "internal/testserver/mongotest",
		own:     []string{"internal/testserver"},
		libs:    []string{"go.mongodb.org/mongo-driver/v2"},
	},
	{
		pattern: "internal/testserver/...",
		own:     []string{"internal/child", "internal/testserver/..."},
		libs: []string{"github.com/jackc/pgx/v5", "go.opentelemetry.io/proto/otlp",
			"google.golang.org/protobuf"},
	},

	// What expects shares no code with what is expected of: the demo knows the server from outside.
	{pattern: "internal/child"},
	{pattern: "internal/demo/model"},
	{pattern: "internal/demo/...", own: []string{"internal/demo/...", "internal/child"}},

	// The gateway puts the middleware before a service; which store it has, the server knows.
	{
		pattern: "internal/gateway",
		own: []string{".", "oncehttp", "internal/config", "internal/expr", "internal/route",
			"internal/value"},
		libs: []string{"github.com/go-jose/go-jose/v4"},
	},

	// The rest of internal: the domain and each other, any library, no leaf.
	{
		pattern: "internal/...",
		own:     slices.Concat(domain, inner, []string{"internal/..."}),
		libs:    anything,
	},
}

// forbidden holds whatever a row allows: nobody imports what only composes or only tests.
var forbidden = []struct {
	pkg, reason string
	but         []string
}{
	{"internal/server", "the command line starts it",
		[]string{"internal/cli", "internal/torture/...", "examples/..."}},
	{"internal/cli", "the programs run it", []string{"serve", "cmd/...", "examples/..."}},
	{"serve", "the programs run it", []string{"cmd/...", "examples/..."}},
	{"internal/testserver", "it is for tests",
		[]string{"internal/torture/...", "internal/testserver/mongotest"}},
	{"internal/testserver/mongotest", "it is for tests", nil},
	{"internal/api/apitest", "it is for tests", []string{"internal/torture/..."}},
	{"oncetest", "it is for tests", nil},
	{"internal/linear", "it is for tests", nil},
	{"queue/queuetest", "it is for tests", nil},
	{"write/writetest", "it is for tests", nil},
	{"internal/testserver/postgres", "it is for tests", []string{"internal/testserver"}},
}

func TestImportsFollowTheRules(t *testing.T) {
	for _, src := range goFiles(t) {
		if !src.isTest() {
			report(t, importProblems(src))
		}
	}
}

// importProblems are the imports of a file that its package's row does not allow.
func importProblems(src source) []string {
	row, ok := ruleOf(src.pkg())
	if !ok {
		return []string{fmt.Sprintf("%s: no row for package %s: add one", src.path, src.pkg())}
	}
	var problems []string
	for _, imported := range src.imports() {
		if reason := refuse(src.pkg(), row, imported); reason != "" {
			problems = append(problems,
				fmt.Sprintf("%s imports %s: %s", src.path, imported, reason))
		}
	}
	return problems
}

func ruleOf(pkg string) (rule, bool) {
	for _, r := range rules {
		if match(r.pattern, pkg) {
			return r, true
		}
	}
	return rule{}, false
}

// refuse gives the reason why pkg may not import a path, or nothing if it may.
func refuse(pkg string, row rule, imported string) string {
	own, isOwn := ownPackage(imported)
	switch {
	case standard(imported):
		return ""
	case !isOwn && allowed(row.libs, imported):
		return ""
	case !isOwn:
		return fmt.Sprintf("row %q allows the libraries %v", row.pattern, row.libs)
	case !allowed(row.own, own):
		return fmt.Sprintf("row %q allows the packages %v", row.pattern, row.own)
	}
	for _, f := range forbidden {
		if own == f.pkg && pkg != f.pkg && !allowed(f.but, pkg) {
			return f.reason
		}
	}
	return ""
}

// allowed tells whether a list of patterns, or of library prefixes, contains a path.
func allowed(patterns []string, p string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		isLibrary := strings.Contains(pattern, ".") && pattern != "." && !isPattern(pattern)
		return match(pattern, p) || isLibrary && strings.HasPrefix(p, pattern+"/")
	})
}

func isPattern(s string) bool { return strings.HasSuffix(s, "...") }

// match tells whether a package is the pattern, or lies below it if it ends in "/...".
func match(pattern, pkg string) bool {
	if pattern == "..." {
		return true
	}
	base, deep := strings.CutSuffix(pattern, "/...")
	return pkg == base || deep && strings.HasPrefix(pkg, base+"/")
}

// ownPackage gives the folder of a package of this module.
func ownPackage(imported string) (string, bool) {
	if imported == modulePath {
		return ".", true
	}
	return strings.CutPrefix(imported, modulePath+"/")
}

// standard tells a package of the standard library: its path does not begin with a host name.
func standard(imported string) bool {
	first, _, _ := strings.Cut(path.Clean(imported), "/")
	return !strings.Contains(first, ".")
}

func TestAForbiddenImportIsFound(t *testing.T) {
	const paho = "github.com/eclipse/paho.golang/paho"
	for _, c := range []struct {
		pkg, imported string
		refused       bool
	}{
		{".", "crypto/sha256", false},
		{".", "golang.org/x/sync/errgroup", true},
		{".", modulePath + "/queue", true},
		{"queue", modulePath, false},
		{"queue", modulePath + "/flow", true},
		{"flow", modulePath + "/queue", false},
		{"flow", modulePath + "/internal/expr", true},
		{"inbox", modulePath + "/internal/value", false},
		{"inbox", modulePath + "/outbox", true},
		{"outbox", paho, false},
		{"outbox/mqtt", paho, false},
		{"outbox", modulePath + "/flow", true},
		{"oncesqlite", "github.com/ncruces/go-sqlite3", false},
		{"oncesqlite", "github.com/ncruces/go-sqlite3/vfs", false},
		{"oncesqlite", "github.com/ncruces/go-sqlite3x", true},
		{"oncesqlite", modulePath + "/oncepg", true},
		{"oncepg", modulePath + "/oncesqlite", true},
		{"internal/value", modulePath + "/queue", true},
		{"internal/config", modulePath + "/flow", false},
		{"internal/config", modulePath + "/oncesqlite", true},
		{"internal/api", modulePath + "/internal/server", true},
		{"internal/server", modulePath + "/oncesqlite", false},
		{"internal/server", modulePath + "/internal/testserver", true},
		{"cmd/once", modulePath + "/internal/cli", false},
		{"cmd/once", modulePath + "/queue", true},
		{"internal/api", modulePath + "/serve", true},
		{"internal/demo", modulePath + "/internal/demo/model", false},
		{"internal/demo", modulePath + "/flow", true},
		{"internal/demo", modulePath + "/internal/config", true},
		{"internal/demo/model", modulePath + "/queue", true},
		{"internal/demo/model", modulePath + "/internal/demo", true},
		{"somewhere/else", "fmt", true},
	} {
		text := fmt.Sprintf("package p\n\nimport _ %q\n", c.imported)
		problems := importProblems(parse(t, path.Join(c.pkg, "p.go"), text))
		if got := len(problems) > 0; got != c.refused {
			t.Errorf("%s imports %s: refused %v, want %v: %v",
				c.pkg, c.imported, got, c.refused, problems)
		}
	}
}
