package lint_test

import (
	"strings"
	"testing"
)

// Each rule is shown code that breaks it, and code that nearly does.
func TestARuleThatIsBrokenIsFound(t *testing.T) {
	long := strings.Repeat("x", 101)
	type breach struct {
		file string
		body string
		want int
	}
	for _, group := range []struct {
		check    func(source) []string
		breaches map[string]breach
	}{
		{lengthProblems, map[string]breach{
			"a file of 501 lines":    {"p.go", strings.Repeat("\n", 500), 1},
			"a file of 500 lines":    {"p.go", strings.Repeat("\n", 499), 0},
			"a long test file":       {"p_test.go", strings.Repeat("\n", 900), 0},
			"a function of 71 lines": {"p.go", function(69), 1},
			"a function of 70 lines": {"p.go", function(68), 0},
			"a line of 101 columns":  {"p.go", "//" + long[2:] + "\n", 1},
			"a line of 100 columns":  {"p.go", "//" + long[3:] + "\n", 0},
			"a tab counts as four":   {"p.go", "func f() {\n\t//" + long[6:] + "\n}\n", 1},
			"a tab is not eight":     {"p.go", "func f() {\n\t//" + long[7:] + "\n}\n", 0},
			"raw text in code":       {"p.go", "const c = `" + long + "`\n", 1},
			"raw text in a test":     {"p_test.go", "const c = `" + long + "`\n", 0},
		}},
		{docProblems, map[string]breach{
			"a function without doc": {"p.go", "func F() {}\n", 1},
			"a documented function":  {"p.go", "// F is.\nfunc F() {}\n", 0},
			"a method without doc":   {"p.go", "// T is.\ntype T int\n\nfunc (*T) M() {}\n", 1},
			"a method of a private":  {"p.go", "type t[K any] int\n\nfunc (t[K]) M() {}\n", 0},
			"a type without doc":     {"p.go", "type T int\n", 1},
			"a type in a group":      {"p.go", "// Types.\ntype (\n\tT int\n)\n", 1},
			"an interface's methods": {"p.go", "// I.\ntype I interface {\n\tM()\n\tN()\n}\n", 2},
			"an interface of one":    {"p.go", "// I is.\ntype I interface {\n\tM()\n}\n", 0},
			"two constants":          {"p.go", "const (\n\tA = 1\n\tB = 2 // B is.\n)\n", 1},
			"a group of constants":   {"p.go", "// Letters.\nconst (\n\tA = 1\n\tB = 2\n)\n", 0},
		}},
		{globalProblems, map[string]breach{
			"func init":             {"p.go", "func init() {}\n", 1},
			"a method called init":  {"p.go", "func (t) init() {}\n", 0},
			"a logger by type":      {"p.go", "var l *slog.Logger\n", 1},
			"a logger by value":     {"p.go", "var l = slog.Default()\n", 1},
			"a logger in a struct":  {"p.go", "type c struct{ Log *slog.Logger }\n", 0},
			"a logger in a closure": {"p.go", "var f = func() { slog.New(nil) }\n", 0},
		}},
		{testProblems, map[string]breach{
			"a skip":               {"p_test.go", "func TestA() { t.Skip() }\n", 1},
			"a skip in a branch":   {"p_test.go", "func TestA() { if x { tb.Skipf(`n`) } }\n", 1},
			"a sleep":              {"p_test.go", "func TestA() { time.Sleep(1) }\n", 1},
			"a sleep in a bubble":  {"p_test.go", "func TestA() { " + bubble + " }\n", 0},
			"a decoder that skips": {"p_test.go", "func TestA() { dec.SkipValue() }\n", 0},
		}},
	} {
		for name, b := range group.breaches {
			t.Run(name, func(t *testing.T) {
				got := group.check(parse(t, b.file, "package p\n"+b.body))
				if len(got) != b.want {
					t.Errorf("%d problems, want %d: %q", len(got), b.want, got)
				}
			})
		}
	}
}

const bubble = "synctest.Test(t, func(t *testing.T) { time.Sleep(1) })"

// function is the text of one with so many lines between its braces.
func function(lines int) string {
	return "func f() {\n" + strings.Repeat("\tg()\n", lines) + "}\n"
}

func TestMarksOfUnfinishedWorkAreFound(t *testing.T) {
	for text, want := range map[string]bool{
		"// TO" + "DO: later":       true,
		"FIX" + "ME":                true,
		"X" + "XX here":             true,
		"mktemp /tmp/f.X" + "XXXXX": false,
		"the method todos":          false,
	} {
		if got := leftover.MatchString(text); got != want {
			t.Errorf("%q is a mark: %v, want %v", text, got, want)
		}
	}
}
