package lint_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/oncekit/once"

// source is one Go file of the root module, parsed with its comments.
type source struct {
	path string // slash-separated, from the repository's root
	text string
	fset *token.FileSet
	ast  *ast.File
}

func (s source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// pkg is the folder of the file, "." for the root package.
func (s source) pkg() string { return path.Dir(s.path) }

func (s source) line(p token.Pos) int { return s.fset.Position(p).Line }

// at names a place as editors understand it.
func (s source) at(p token.Pos) string { return s.path + ":" + strconv.Itoa(s.line(p)) }

// imports are the paths that the file imports.
func (s source) imports() []string {
	var paths []string
	for _, spec := range s.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			p = spec.Path.Value
		}
		paths = append(paths, p)
	}
	return paths
}

// parse reads one file from its text.
func parse(t *testing.T, name, text string) source {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil {
		t.Fatalf("parse %s: %v", name, err)
	}
	return source{path: name, text: text, fset: fset, ast: file}
}

// goFiles are all Go files of the root module.
func goFiles(t *testing.T) []source {
	t.Helper()
	var all []source
	for _, name := range repositoryFiles(t, ".go") {
		if !nestedModule(t, name) {
			all = append(all, parse(t, name, read(t, name)))
		}
	}
	if len(all) == 0 {
		t.Fatal("no Go files found: is the root of the repository two folders up?")
	}
	return all
}

// repositoryFiles lists the files of the repository with one of the given suffixes, apart from
// test data, build output and hidden folders. Without suffixes it lists them all.
func repositoryFiles(t *testing.T, suffixes ...string) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS(root()), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skipFolder(name) {
				return fs.SkipDir
			}
			return nil
		}
		for _, suffix := range suffixes {
			if strings.HasSuffix(name, suffix) {
				names = append(names, name)
				break
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("walk repository: %v", err)
	}
	return names
}

func skipFolder(name string) bool {
	base := path.Base(name)
	hidden := strings.HasPrefix(base, ".") && base != "." && base != ".ci"
	return hidden || base == "testdata" || base == "bin" || name == "bench/out"
}

// nestedModule tells whether a file belongs to a module below the root one.
func nestedModule(t *testing.T, name string) bool {
	t.Helper()
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, err := os.Stat(filepath.Join(root(), dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// root is the repository's root, seen from this package, where `go test` runs its tests.
func root() string { return filepath.Join("..", "..") }

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(), filepath.FromSlash(name)))
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return string(data)
}

// report fails the test once for each problem.
func report(t *testing.T, problems []string) {
	t.Helper()
	for _, p := range problems {
		t.Error(p)
	}
}
