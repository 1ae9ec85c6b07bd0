package server_test

import (
	"bufio"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/testserver"
)

var update = flag.Bool("update", false, "write the replies of the golden files")

// dialect is a golden file: the fields of a source, messages with their replies, the rows that come
// of them and the reasons of the refusals. Only the replies are written by -update.
type dialect struct {
	head      string // comments and the source's fields
	exchanges []exchange
	rows      []string
	refused   []string
}

// exchange is a message and its reply, as they are on the wire but for Date and Content-Length.
type exchange struct{ title, request, reply string }

const (
	section = "\n=== "
	replied = "\n>>>\n"
)

func readDialect(t *testing.T, file string) dialect {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var d dialect
	parts := strings.Split(strings.TrimSuffix(string(b), "\n"), section)
	d.head = parts[0]
	for _, part := range parts[1:] {
		title, rest, _ := strings.Cut(part, "\n")
		switch title {
		case "rows":
			d.rows = strings.Split(rest, "\n")
		case "refused":
			d.refused = strings.FieldsFunc(rest, func(r rune) bool { return r == '\n' })
		default:
			request, reply, found := strings.Cut(rest, replied)
			if !found {
				t.Fatalf("%s: %s has no reply", file, title)
			}
			d.exchanges = append(d.exchanges, exchange{title, request, reply})
		}
	}
	if len(d.exchanges) == 0 || len(d.rows) == 0 {
		t.Fatalf("%s has %d exchanges and %d rows", file, len(d.exchanges), len(d.rows))
	}
	return d
}

func (d *dialect) write(t *testing.T, file string) {
	t.Helper()
	var b strings.Builder
	b.WriteString(d.head)
	for _, x := range d.exchanges {
		b.WriteString(section + x.title + "\n" + x.request + replied + x.reply)
	}
	b.WriteString(section + "rows\n" + strings.Join(d.rows, "\n"))
	b.WriteString(section + "refused\n" + strings.Join(d.refused, "\n"))
	text := strings.TrimRight(b.String(), "\n") + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// exchange sends a message as the golden file has it and returns the reply in the same form.
func (s *service) exchange(request string) string {
	s.t.Helper()
	head, body, _ := strings.Cut(request, "\n\n")
	lines := strings.Split(head, "\n")
	method, path, _ := strings.Cut(lines[0], " ")
	var header []string
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		header = append(header, name, value)
	}
	a, err := s.send(method, s.url+path, body, header...)
	if err != nil {
		s.t.Fatal(err)
	}
	out := []string{strconv.Itoa(a.status)}
	var names []string
	for name := range a.header {
		if name != "Date" && name != "Content-Length" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range a.header[name] {
			out = append(out, name+": "+value)
		}
	}
	return strings.Join(out, "\n") + "\n\n" + a.body
}

// rows are the callbacks of the source in the order of their acceptance: event, parts of the key,
// and how often each came again.
func (s *service) rows() []string {
	s.t.Helper()
	list := s.callbacks("source=it")
	slices.Reverse(list)
	out := make([]string, 0, len(list))
	for _, c := range list {
		out = append(out, strings.Join(append([]string{c.Event}, c.Key...), " | ")+
			fmt.Sprintf(" | duplicates %d | conflicts %d", c.Duplicates, c.Conflicts))
	}
	return out
}

// reasons are those of the refused messages in the order of their coming.
func (s *service) reasons() []string {
	s.t.Helper()
	var page struct{ Items []struct{ Reason string } }
	s.get("/api/v1/rejected?source=it&limit=200", &page)
	slices.Reverse(page.Items)
	var out []string
	for _, r := range page.Items {
		out = append(out, r.Reason)
	}
	return out
}

// The messages and replies of testdata/dialects are those of the vendors' documents and of the
// field, written by hand. They go through the real server and store.
func TestDialects_AreAnsweredByteForByteAndKept(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/dialects/*.txt")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d dialects, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			d := readDialect(t, file)
			s := serve(t, t.TempDir(), sourceOf(d.head))
			for i := range d.exchanges {
				x := &d.exchanges[i]
				got := s.exchange(x.request)
				if *update {
					x.reply = got
				}
				if got != x.reply {
					t.Errorf("%s\nis answered\n%s\nwant\n%s", x.title, got, x.reply)
				}
			}
			if *update {
				d.write(t, file)
			}
			var rows []string
			defer func() {
				if t.Failed() {
					t.Logf("the rows were last\n%s", strings.Join(rows, "\n"))
				}
			}()
			// Repeats are counted a little behind their acknowledgement.
			testserver.Until(t, patience, "the rows are right", func() bool {
				rows = s.rows()
				return slices.Equal(rows, d.rows)
			})
			if got := s.reasons(); !slices.Equal(got, d.refused) {
				t.Errorf("refused because of\n%s\nwant\n%s", strings.Join(got, "\n"),
					strings.Join(d.refused, "\n"))
			}
		})
	}
}

// sourceOf makes a file of the fields of one source, whose callbacks stay where they are: the
// service that they are for isn't there.
func sourceOf(fields string) string {
	var b strings.Builder
	b.WriteString("sources:\n  it:\n")
	lines := bufio.NewScanner(strings.NewReader(fields))
	for lines.Scan() {
		b.WriteString("    " + lines.Text() + "\n")
	}
	return b.String() + "    to: {http: \"http://127.0.0.1:1/\"}\n"
}

// tasks is a message of n tasks; those in without have no number.
func tasks(n int, without ...int) string {
	var list []string
	for i := range n {
		item := fmt.Sprintf(`{"taskNo":"T%d","taskState":3}`, i)
		if slices.Contains(without, i) {
			item = `{"taskState":3}`
		}
		list = append(list, item)
	}
	return `{"reqCode":"M","data":[` + strings.Join(list, ",") + `]}`
}

func TestElements_AreLimitedAndAllOrNoneAreStored(t *testing.T) {
	t.Parallel()
	const key = "key: [\"body.reqCode\", \"item.taskNo\"]\n"
	noNumber := "element [1]: item.taskNo: no such field"
	for _, tt := range []struct {
		name, each, body string
		status, rows     int
		reason           string
	}{
		{"none", `"body.data"`, tasks(0), 400, 0, "the list of elements is empty"},
		{"10,000 are too many", `"body.data"`, tasks(10_000), 400, 0,
			"the message has 10000 elements, at most 1000 are taken"},
		{"10,000 where they are allowed", `{items: "body.data", max: 10000}`, tasks(10_000), 200,
			10_000, ""},
		{"a bad one among good ones", `"body.data"`, tasks(3, 1), 200, 2,
			"element [1] of 3: item.taskNo: no such field"},
		{"a bad one refuses all", `{items: "body.data", bad: refuse}`, tasks(3, 1), 400, 0,
			noNumber},
		{"all are bad", `"body.data"`, tasks(2, 0, 1), 400, 0,
			"none of the 2 elements can be taken; element [0]: item.taskNo: no such field"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, t.TempDir(), sourceOf(key+"each: "+tt.each))
			a := s.post(tt.status, "it", tt.body)
			if tt.status == http.StatusBadRequest && !strings.Contains(a.body, tt.reason) {
				t.Errorf("answered %s, want %q", a.body, tt.reason)
			}
			if got := s.count("it"); got != tt.rows {
				t.Errorf("%d rows, want %d", got, tt.rows)
			}
			if got := strings.Join(s.reasons(), "\n"); got != tt.reason {
				t.Errorf("refused because of %q, want %q", got, tt.reason)
			}
		})
	}
}

// count counts all callbacks of a source.
func (s *service) count(source string) int {
	s.t.Helper()
	n, cursor := 0, ""
	for {
		var page struct {
			Items []callback
			Next  string
		}
		s.get("/api/v1/callbacks?limit=1000&source="+source+"&cursor="+cursor, &page)
		n += len(page.Items)
		if cursor = page.Next; cursor == "" {
			return n
		}
	}
}

func TestRepeats_AreNewAfterAWhileOnlyWhereTheFileSaysSo(t *testing.T) {
	t.Parallel()
	const mission = `{"missionCode":"M1","missionStatus":"ARRIVED","currentPosition":"P1"}`
	again := serve(t, t.TempDir(), sourceOf("preset: kuka-amr\nrepeats: {new_after: 1ms}"))
	never := serve(t, t.TempDir(), sourceOf("preset: kuka-amr\nrepeats: duplicate"))
	sent := 0
	testserver.Until(t, patience, "a repeat is new", func() bool {
		again.post(200, "it", mission)
		never.post(200, "it", mission)
		sent++
		return again.count("it") > 1
	})
	if n := never.count("it"); n != 1 || sent < 2 {
		t.Errorf("%d rows of %d equal callbacks, want 1", n, sent)
	}
}
