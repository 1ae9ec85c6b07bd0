package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestAPurchaseIsAwardedOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "points.db")
	for _, c := range []struct{ purchase, customer, points, want string }{
		{"p1", "ada", "10", "awarded, 10 points in all\n"},
		{"p2", "ada", "5", "awarded, 15 points in all\n"},
		{"p1", "ada", "10", "awarded before, that made 10 points\n"},
		{"p1", "ada", "11", "known otherwise: for customer ada"},
		{"p1", "bob", "10", "known otherwise: for customer ada"},
		{"p3", "ada", "1", "awarded, 16 points in all\n"},
	} {
		var out strings.Builder
		err := run(t.Context(), &out, []string{file, c.purchase, c.customer, c.points})
		if err != nil {
			out.WriteString(err.Error())
		}
		if out.String() != c.want {
			t.Errorf("%+v: %q", c, out.String())
		}
	}
	if err := run(t.Context(), os.Stdout, nil); err == nil {
		t.Error("no arguments are taken")
	}
}

// What the page shows of this program is what it is.
func TestThePageShowsThisProgram(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/writes.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n// examples/points\n(.*?)```").FindAllStringSubmatch(
		string(page), -1)
	if len(blocks) == 0 {
		t.Error("the page shows nothing of it")
	}
	for _, b := range blocks {
		if !strings.Contains(string(source), b[1]) {
			t.Errorf("not of this program:\n%s", b[1])
		}
	}
}
