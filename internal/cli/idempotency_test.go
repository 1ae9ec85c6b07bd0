package cli_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncekit/once/oncehttp"
)

const keysPage = "docs/idempotency.md"

// section returns the part of a page under a heading of the second level.
func section(t *testing.T, page, title string) string {
	t.Helper()
	_, rest, found := strings.Cut(source(t, page), "\n## "+title+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, title)
	}
	part, _, _ := strings.Cut(rest, "\n## ")
	return part
}

func TestTheDocumentedProblemsAreThoseOfTheMiddleware(t *testing.T) {
	t.Parallel()
	rows := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `urn:once:problem:([a-z-]+)` \\| ([^|]+) \\|")
	for _, m := range row.FindAllStringSubmatch(source(t, keysPage), -1) {
		rows[m[1]] = m[2]
	}
	known := regexp.MustCompile(`(?m)^\tProblem\w+ += "([a-z-]+)" +// (\d+|the status of the first)`)
	all := known.FindAllStringSubmatch(source(t, "oncehttp", "problem.go"), -1)
	all = append(all, gatewayProblems(t)...)
	if len(all) < 22 {
		t.Fatalf("only %d problems are found", len(all))
	}
	for _, m := range all {
		want := strings.Replace(m[2], "the status of", "that of", 1)
		if !strings.HasPrefix(rows[m[1]], want) {
			t.Errorf("%s is documented as %q, want %q", m[1], rows[m[1]], want)
		}
	}
	if len(rows) != len(all) {
		t.Errorf("%d problems are documented, %d exist", len(rows), len(all))
	}
}

// gatewayProblems are those that the gateway adds to the middleware's: their names and statuses.
func gatewayProblems(t *testing.T) (list [][]string) {
	t.Helper()
	const dir = "internal/gateway"
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	statuses := map[string]string{"BadRequest": "400", "Unauthorized": "401",
		"ServiceUnavailable": "503"}
	written := regexp.MustCompile(`WriteProblem\(w, ("[a-z-]+"|\w+), http\.Status(\w+)`)
	for _, file := range files {
		text := source(t, dir, filepath.Base(file))
		for _, m := range written.FindAllStringSubmatch(text, -1) {
			name, constant := strings.Trim(m[1], `"`), regexp.MustCompile(m[1]+` += "([a-z-]+)"`)
			if found := constant.FindStringSubmatch(text); found != nil {
				name = found[1]
			}
			list = append(list, []string{m[0], name, statuses[m[2]]})
		}
	}
	return list
}

func TestTheDocumentedAnswersAreKeptAsTheMiddlewareDoes(t *testing.T) {
	t.Parallel()
	part := section(t, keysPage, "Which answers are kept")
	documented := map[int]oncehttp.Verdict{}
	classes := map[int]oncehttp.Verdict{}
	number := regexp.MustCompile(`\b([1-5])(xx|\d\d)\b`)
	for _, m := range regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \|`).FindAllStringSubmatch(part,
		-1) {
		what := strings.Trim(m[2], "* ")
		verdict, ok := map[string]oncehttp.Verdict{"kept": oncehttp.Keep,
			"the key is free": oncehttp.Free, "ambiguous": oncehttp.Ambiguous}[what]
		if !ok {
			continue
		}
		for _, n := range number.FindAllString(m[1], -1) {
			if class, isClass := strings.CutSuffix(n, "xx"); isClass {
				c, _ := strconv.Atoi(class)
				classes[c] = verdict
				continue
			}
			status, _ := strconv.Atoi(n)
			documented[status] = verdict
		}
	}
	if len(documented) < 20 || len(classes) != 4 {
		t.Fatalf("the table has %v and %v", documented, classes)
	}
	for status := 200; status < 600; status++ {
		want, single := documented[status]
		if !single {
			want = classes[status/100]
		}
		if got := oncehttp.KeepDefault(status); got != want {
			t.Errorf("%d is documented as %d, the middleware says %d", status, want, got)
		}
	}
}

// The text that an API takes over names no status otherwise than the table does.
func TestTheTextToTakeOverAgreesWithTheTable(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("\n>\n> ", " . ", "\n> ", " ").Replace(section(t, keysPage,
		"A text for your documentation"))
	sentences := strings.Split(text, ". ")
	for sentence, verdict := range map[string]oncehttp.Verdict{
		"are final for their key": oncehttp.Keep, "nothing was done": oncehttp.Free,
		"After a time-out": oncehttp.Ambiguous,
	} {
		at := slices.IndexFunc(sentences, func(s string) bool {
			return strings.Contains(s, sentence)
		})
		if at < 0 {
			t.Errorf("no sentence has %q", sentence)
			continue
		}
		statuses := regexp.MustCompile(`\b[45]\d\d\b`).FindAllString(sentences[at], -1)
		if len(statuses) < 3 {
			t.Errorf("%q names %v", sentence, statuses)
		}
		for _, n := range statuses {
			status, _ := strconv.Atoi(n)
			if got := oncehttp.KeepDefault(status); got != verdict {
				t.Errorf("%q names %d, which is %d", sentence, status, got)
			}
		}
	}
}
