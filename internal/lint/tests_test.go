package lint_test

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sleepers are the tests that may call time.Sleep outside a synctest bubble, as "file: function"
// with the reason. Waiting for something is never a reason: poll it with testserver.Until.
var sleepers = map[string]string{}

func TestTestsNeitherSkipNorSleep(t *testing.T) {
	for _, src := range goFiles(t) {
		if src.isTest() {
			report(t, testProblems(src))
		}
	}
}

// testProblems are skipped tests (a missing server is an error) and sleeping ones.
func testProblems(src source) []string {
	var problems []string
	for _, decl := range src.ast.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		_, maySleep := sleepers[src.path+": "+f.Name.Name]
		ast.Inspect(f.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			receiver, name := selector(call)
			switch {
			case receiver == "synctest":
				return false // its clock is a fake one: sleeping there is exact and takes no time
			case receiver == "time" && name == "Sleep" && !maySleep:
				problems = append(problems, src.at(call.Pos())+": time.Sleep in a test")
			case isTesting(receiver) && strings.HasPrefix(name, "Skip"):
				problems = append(problems, src.at(call.Pos())+": a test that skips")
			}
			return true
		})
	}
	return problems
}

func isTesting(name string) bool { return slices.Contains([]string{"t", "tb", "b", "f"}, name) }

func selector(call *ast.CallExpr) (receiver, name string) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	if x, ok := sel.X.(*ast.Ident); ok {
		receiver = x.Name
	}
	return receiver, sel.Sel.Name
}

// leftover matches the marks of unfinished work; they are spelt in halves to stay out of it.
var leftover = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`)

func TestNothingIsLeftForLater(t *testing.T) {
	written := []string{".go", ".md", ".sh", ".yaml", ".sql", ".html", ".js", "Makefile", ".ci/run"}
	for _, name := range repositoryFiles(t, written...) {
		for i, line := range strings.Split(read(t, name), "\n") {
			if mark := leftover.FindString(line); mark != "" {
				t.Errorf("%s:%d: %s: do it, or write an issue", name, i+1, mark)
			}
		}
	}
}
