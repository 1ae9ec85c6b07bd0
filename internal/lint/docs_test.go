package lint_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	codeBlock  = regexp.MustCompile("(?ms)^ *```.*?^ *```|`[^`\n]*`")
	linkTarget = regexp.MustCompile(`\]\(<?([^)\s>]+)>?[^)]*\)|(?m)^\[[^\]]+\]:\s+(\S+)`)
	elsewhere  = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)
)

func TestLinksInTheDocumentationLeadSomewhere(t *testing.T) {
	for _, name := range repositoryFiles(t, ".md") {
		for _, target := range relativeLinks(read(t, name)) {
			file := path.Join(path.Dir(name), target)
			if _, err := os.Stat(filepath.Join(root(), file)); err != nil {
				t.Errorf("%s links to %s: %v", name, target, err)
			}
		}
	}
}

// relativeLinks are the files that a Markdown text links to, without code and anchors.
func relativeLinks(text string) []string {
	var links []string
	for _, m := range linkTarget.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		target, _, _ := strings.Cut(m[1]+m[2], "#")
		if target != "" && !elsewhere.MatchString(target) {
			links = append(links, target)
		}
	}
	return links
}

func TestRelativeLinksAreTold(t *testing.T) {
	text := "[a](docs/a.md#part) [b](#here) [c](https://example.org/x) `[d](d.md)`\n" +
		"![e](e.png \"E\")\n" +
		"```\n[f](f.md)\n```\n[g]: ../g.md\n"
	got := fmt.Sprint(relativeLinks(text))
	if want := "[docs/a.md e.png ../g.md]"; got != want {
		t.Errorf("links are %s, want %s", got, want)
	}
}

func TestTheChangelogHasAnUnreleasedSection(t *testing.T) {
	text := read(t, "CHANGELOG.md")
	if !regexp.MustCompile(`(?m)^## \[?Unreleased\]?`).MatchString(text) {
		t.Error("CHANGELOG.md has no section Unreleased")
	}
}

func TestDecisionsAreNumberedWithoutGaps(t *testing.T) {
	want := 0
	for _, name := range repositoryFiles(t, ".md") {
		if path.Dir(name) != "docs/adr" || path.Base(name) == "README.md" {
			continue
		}
		if prefix := fmt.Sprintf("%04d-", want); !strings.HasPrefix(path.Base(name), prefix) {
			t.Errorf("%s: the next number is %04d", name, want)
		}
		want++
	}
}
