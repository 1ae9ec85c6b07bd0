package lint_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

const (
	maxFileLines     = 500 // past this a file is two; the aim is 150
	maxFunctionLines = 70  // past this a function is two
	maxColumns       = 100 // what fits beside another file on a screen
	tabColumns       = 4
)

// longLines are lines that may be wider, as file:line text prefixes with the reason. Empty, and
// meant to stay so: even a URL fits when it stands alone in its line.
var longLines = map[string]string{}

func TestFilesFunctionsAndLinesAreShort(t *testing.T) {
	for _, src := range goFiles(t) {
		report(t, lengthProblems(src))
	}
}

// lengthProblems holds code to all three limits, and tests, which are often tables of inputs, to
// the width of lines outside raw strings.
func lengthProblems(src source) []string {
	problems := widthProblems(src)
	if src.isTest() {
		return problems
	}
	if lines := strings.Count(src.text, "\n"); lines > maxFileLines {
		problems = append(problems,
			fmt.Sprintf("%s: %d lines, at most %d", src.path, lines, maxFileLines))
	}
	ast.Inspect(src.ast, func(n ast.Node) bool {
		f, ok := n.(*ast.FuncDecl)
		if !ok {
			return true
		}
		if lines := src.line(f.End()) - src.line(f.Pos()) + 1; lines > maxFunctionLines {
			problems = append(problems, fmt.Sprintf("%s: func %s has %d lines, at most %d",
				src.at(f.Pos()), f.Name.Name, lines, maxFunctionLines))
		}
		return false
	})
	return problems
}

func widthProblems(src source) []string {
	var problems []string
	raw := rawStringLines(src)
	for i, line := range strings.Split(src.text, "\n") {
		columns := len([]rune(line)) + strings.Count(line, "\t")*(tabColumns-1)
		if columns <= maxColumns || src.isTest() && raw[i+1] {
			continue
		}
		if _, known := longLines[src.path+": "+strings.TrimSpace(line)]; !known {
			problems = append(problems,
				fmt.Sprintf("%s:%d: %d columns, at most %d", src.path, i+1, columns, maxColumns))
		}
	}
	return problems
}

// rawStringLines are the lines on which a raw string stands: input that can't be broken.
func rawStringLines(src source) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(src.ast, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(lit.Value, "`") {
			for l := src.line(lit.Pos()); l <= src.line(lit.End()); l++ {
				lines[l] = true
			}
		}
		return true
	})
	return lines
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	documented := map[string]bool{}
	for _, src := range goFiles(t) {
		if !src.isTest() {
			documented[src.pkg()] = documented[src.pkg()] || src.ast.Doc.Text() != ""
		}
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment", pkg)
		}
	}
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	for _, src := range goFiles(t) {
		internal := strings.HasPrefix(src.path, "internal/") || src.ast.Name.Name == "main"
		if !src.isTest() && !internal {
			report(t, docProblems(src))
		}
	}
}

// docProblems are the exported names of a file without a comment: functions, methods of exported
// types, types, the methods of interfaces, constants and variables. A comment above a group of
// constants speaks for all of them, that of an interface for its only method.
func docProblems(src source) []string {
	var problems []string
	missing := func(id *ast.Ident) {
		problems = append(problems,
			fmt.Sprintf("%s: %s has no doc comment", src.at(id.Pos()), id.Name))
	}
	for _, decl := range src.ast.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && receiverExported(d) && d.Doc.Text() == "" {
				missing(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				for _, id := range undocumented(d, spec) {
					missing(id)
				}
			}
		}
	}
	return problems
}

func receiverExported(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	base := f.Recv.List[0].Type
	for {
		switch e := base.(type) {
		case *ast.StarExpr:
			base = e.X
		case *ast.IndexExpr:
			base = e.X
		case *ast.IndexListExpr:
			base = e.X
		case *ast.Ident:
			return e.IsExported()
		default:
			return true
		}
	}
}

func undocumented(group *ast.GenDecl, spec ast.Spec) []*ast.Ident {
	documented := func(texts ...*ast.CommentGroup) bool {
		return slices.ContainsFunc(texts, func(c *ast.CommentGroup) bool { return c.Text() != "" })
	}
	switch s := spec.(type) {
	case *ast.ValueSpec:
		if documented(group.Doc, s.Doc, s.Comment) {
			return nil
		}
		return slices.DeleteFunc(slices.Clone(s.Names), func(id *ast.Ident) bool {
			return !id.IsExported()
		})
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return nil
		}
		var names []*ast.Ident
		if !documented(s.Doc, s.Comment) && (group.Lparen.IsValid() || !documented(group.Doc)) {
			names = append(names, s.Name)
		}
		if i, ok := s.Type.(*ast.InterfaceType); ok && i.Methods.NumFields() > 1 {
			for _, m := range i.Methods.List {
				if len(m.Names) > 0 && m.Names[0].IsExported() && !documented(m.Doc, m.Comment) {
					names = append(names, m.Names[0])
				}
			}
		}
		return names
	}
	return nil
}

func TestNothingRunsOrLogsBehindTheCaller(t *testing.T) {
	for _, src := range goFiles(t) {
		report(t, globalProblems(src))
	}
}

// globalProblems are init functions and loggers of a whole package.
func globalProblems(src source) []string {
	var problems []string
	for _, decl := range src.ast.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "init" {
				problems = append(problems,
					src.at(d.Pos())+": func init: call it from a constructor")
			}
		case *ast.GenDecl:
			if d.Tok == token.VAR && mentionsLogger(d) {
				problems = append(problems,
					src.at(d.Pos())+": a logger of the package: take it in the config")
			}
		}
	}
	return problems
}

// mentionsLogger tells whether a package variable is a *slog.Logger, by its type or its value.
func mentionsLogger(d *ast.GenDecl) bool {
	found := false
	ast.Inspect(d, func(n ast.Node) bool {
		switch e := n.(type) {
		case *ast.FuncLit, *ast.StructType, *ast.FuncType:
			return false
		case *ast.SelectorExpr:
			x, ok := e.X.(*ast.Ident)
			makes := slices.Contains([]string{"Logger", "New", "Default", "With"}, e.Sel.Name)
			found = found || ok && x.Name == "slog" && makes
		}
		return true
	})
	return found
}
