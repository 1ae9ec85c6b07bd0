package screen_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/oncekit/once/internal/screen"
)

func TestWhatCannotBeSeenIsEscaped(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain text ~!":         "plain text ~!",
		"":                      "",
		"a\nb\tc\rd":            `a\nb\tc\rd`,
		"\x1b[31mred\x07\x7f":   `\x1b[31mred\a\x7f`,
		"c1 \u009b31m":          `c1 \u009b31m`,
		"turned \u202eeman":     `turned \u202eeman`,
		"zero\u200bwidth":       `zero\u200bwidth`,
		"bad \xff\xc3 utf8":     `bad \xff\xc3 utf8`,
		"任务 ø é e\u0301 \u3000": "任务 ø é e\u0301 \u3000",
		"a quote ' and \\n":     `a quote ' and \n`,
		"\ufffd":                "\ufffd",
	} {
		if got := screen.Clean(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	if got := screen.CleanLines("a\r\nb\tc\x1b\rd"); got != "a\nb\tc\\x1b\\rd" {
		t.Errorf("lines: %q", got)
	}
}

func FuzzACleanTextHasNothingThatMovesACursor(f *testing.F) {
	f.Add("\x1b[2J\u009b\u202e\xff")
	f.Fuzz(func(t *testing.T, in string) {
		for _, r := range screen.Clean(in) {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
				t.Errorf("%q: %q is left", in, r)
			}
		}
		if n := screen.Columns(screen.Cut(screen.Clean(in), 10)); n > 10 {
			t.Errorf("%q cut to 10 takes %d columns", in, n)
		}
	})
}

func TestColumnsOfWideAndCombiningCharacters(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int{
		"": 0, "abc": 3, "任务": 4, "ｆｕｌｌ": 8, "e\u0301": 1, "ñ": 1, "한글": 4, "ﾊﾝｶｸ": 4, "🚀": 2,
		"→…·": 3,
	} {
		if got := screen.Columns(in); got != want {
			t.Errorf("%q takes %d columns, want %d", in, got, want)
		}
	}
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"abcdef", 6, "abcdef"}, {"abcdef", 5, "abcd…"}, {"任务任务", 7, "任务任…"}, {"任务任务", 6, "任务…"},
		{"abc", 1, "…"}, {"abc", 0, ""}, {"e\u0301e\u0301e\u0301", 2, "e\u0301…"}} {
		if got := screen.Cut(c.in, c.n); got != c.want {
			t.Errorf("%q cut to %d: %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

// at makes a screen at 2026-07-01 12:00:00 local time.
func at(b *bytes.Buffer, terminal bool, width int) *screen.Screen {
	return &screen.Screen{W: b, Terminal: terminal, Width: func() int { return width },
		Now: func() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.Local) }}
}

// cells are the texts of a row.
func cells(texts ...string) (out []screen.Cell) {
	for _, s := range texts {
		out = append(out, screen.Cell{Text: s})
	}
	return out
}

func columns() []screen.Column {
	return []screen.Column{{Title: "ID"}, {Title: "TASK", Min: 4},
		{Title: "N", Right: true, Drop: 2},
		{Title: "KEY", Min: 4, Want: 12, Drop: 6}, {Title: "ERROR", Min: 6, Want: 12}}
}

func TestATableInAPipeIsAlignedAndNeverCut(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	table := at(&b, false, 10).NewTable(columns()...)
	long := "the first\nof two lines " + strings.Repeat("x", 200)
	table.Row(cells("one", "任务", "7", "a · b", long)...)
	table.Row(cells("eleven", "T", "1234", "", "")...)
	table.Row(cells("twelve")...)
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "ID      TASK     N  KEY    ERROR\n" +
		"one     任务     7  a · b  the first\\nof two lines " + strings.Repeat("x", 200) + "\n" +
		"eleven  T     1234\n" +
		"twelve\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
}

func TestATableOnATerminalFitsItsWidth(t *testing.T) {
	t.Parallel()
	for width, want := range map[int]string{
		60: "ID   TASK    N  KEY    ERROR\n" +
			"one  TASK-1  7  a · b  the reason is long and goes on and o…\n",
		// KEY is only worth its place where the others have theirs; then the rest is cut.
		34: "ID   TASK    N  KEY    ERROR\n" +
			"one  TASK-1  7  a · b  the reason…\n",
		27: "ID   TASK    N  ERROR\n" +
			"one  TASK-1  7  the reason…\n",
		18: "ID   TASK   ERROR\n" +
			"one  TASK…  the r…\n",
	} {
		var b bytes.Buffer
		table := at(&b, true, width).NewTable(columns()...)
		table.Row(cells("one", "TASK-1", "7", "a · b",
			"the reason is long and goes on and on and on")...)
		if err := table.Flush(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := screen.Columns(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("width %d: a line of %d columns: %s", width, n, line)
			}
		}
		if b.String() != want {
			t.Errorf("width %d:\n%s\nwant\n%s", width, &b, want)
		}
	}
}

func TestAColumnBelowHasItsOwnLineWhereTheTerminalIsTooNarrow(t *testing.T) {
	t.Parallel()
	for width, want := range map[int]string{
		23: "STATE  REQUEST  ID\n" +
			"held   POST /p  0123456\n",
		22: "STATE  REQUEST\n" +
			"held   POST /p\n" +
			"  0123456\n",
		0: "STATE  REQUEST  ID\n" +
			"held   POST /p  0123456\n",
	} {
		var b bytes.Buffer
		table := at(&b, width > 0, width).NewTable(screen.Column{Title: "STATE"},
			screen.Column{Title: "REQUEST", Min: 4}, screen.Column{Title: "ID", Below: true})
		table.Row(cells("held", "POST /p", "0123456")...)
		if err := table.Flush(); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("width %d:\n%s\nwant\n%s", width, &b, want)
		}
	}
}

func TestATextIsWrappedBetweenWords(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                       "",
		"one":                    "one",
		"one two three":          "one two\nthree",
		"a word-that-is-long b":  "a\nword-that-is-long\nb",
		"1234567 9 1234 67 9012": "1234567 9\n1234 67\n9012",
	} {
		if got := screen.Wrap(in, 9); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestColumnsKeepTheirWidthOverPages(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	table := at(&b, false, 0).NewTable(screen.Column{Title: "A"}, screen.Column{Title: "B"})
	for _, row := range [][]string{{"long one", "x"}, {"s", "y"}} {
		table.Row(cells(row...)...)
		if err := table.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	if want := "A         B\nlong one  x\ns         y\n"; b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
}

func TestColoursAreWhereTheyAreAllowed(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	s := at(&b, true, 80)
	if got := s.Paint(screen.Bad, "dead"); got != "dead" {
		t.Errorf("without colours: %q", got)
	}
	s.Color = true
	for style, want := range map[screen.Style]string{screen.Bad: "\x1b[31mdead\x1b[0m",
		screen.Plain: "dead"} {
		if got := s.Paint(style, "dead"); got != want {
			t.Errorf("style %d: %q, want %q", style, got, want)
		}
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, s := range []*screen.Screen{screen.For(&b, os.LookupEnv), screen.For(f, os.LookupEnv)} {
		if s.Terminal || s.Color {
			t.Errorf("taken for a terminal: %+v", s)
		}
	}
}

func TestTimesAreShortOnATerminalOnly(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	person, pipe := at(&b, true, 80), at(&b, false, 80)
	now := person.Now()
	for _, c := range []struct {
		at   time.Time
		want string
	}{
		{now.Add(-3 * time.Second), "11:59:57 (3s ago)"},
		{now.Add(5*time.Minute + time.Second), "12:05:01 (in 5m)"},
		{now.Add(-47 * time.Hour), "Jun 29 13:00 (47h ago)"},
		{now.AddDate(-1, 0, 0), "2025-07-01 12:00 (365d ago)"},
		{time.Time{}, ""},
	} {
		if got := person.TimeAge(c.at); got != c.want {
			t.Errorf("%v: %q, want %q", c.at, got, c.want)
		}
		want := ""
		if !c.at.IsZero() {
			want = c.at.Format(time.RFC3339)
		}
		if got := pipe.TimeAge(c.at); got != want {
			t.Errorf("in a pipe: %q, want %q", got, want)
		}
	}
}
