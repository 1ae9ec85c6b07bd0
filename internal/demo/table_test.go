package demo

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares a text with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-update writes it):\n%s", file, got)
	}
}

// someFrame is in the middle of a run.
func someFrame() *frame {
	f := &frame{robots: 20, seed: 7, at: 12 * time.Second, of: 30 * time.Second,
		counts: counts{sent: 1512, accepted: 751, duplicates: 720, late: 31, conflicts: 18,
			unanswered: 23, arrived: 343, again: 12},
		rates:  counts{sent: 33, accepted: 16, duplicates: 15, unanswered: 2, arrived: 9, again: 1},
		server: up, life: 3, shift: 18 * time.Hour, moods: map[string]string{wms: failing},
		happenings: []happening{{9800 * time.Millisecond, "wms      answers 503 for 2.1 s"},
			{10400 * time.Millisecond, "server   SIGKILL, and started again, its clock 9 h ahead"},
			{10700 * time.Millisecond, "server   ready after 0.3 s"}}}
	for i := range f.robots {
		f.doing = append(f.doing, []int32{driving, driving, docked, driving, idle, resending}[i%6])
	}
	return f
}

func picture(f *frame, columns, rows int, color bool) string {
	var b strings.Builder
	for _, l := range table(f, columns, rows) {
		b.WriteString(strings.TrimRight(l.text(columns-1, color), " ") + "\n")
	}
	return b.String()
}

func TestTheTableIsDrawn(t *testing.T) {
	t.Parallel()
	golden(t, "table.txt", picture(someFrame(), 100, 30, false))
	golden(t, "table-color.txt", picture(someFrame(), 100, 30, true))
	golden(t, "table-narrow.txt", picture(someFrame(), 50, 20, false))
}

func TestTheTableFitsIntoEveryTerminal(t *testing.T) {
	t.Parallel()
	f := someFrame()
	for len(f.doing) < MaxRobots {
		f.doing = append(f.doing, driving)
	}
	for columns := range 130 {
		for _, rows := range []int{0, 1, 2, 5, 18, 24, 60} {
			lines := table(f, columns, rows)
			if len(lines) > rows {
				t.Fatalf("%d lines in %d rows", len(lines), rows)
			}
			for _, l := range lines {
				if n := utf8.RuneCountInString(l.text(max(columns-1, 0), false)); n > columns {
					t.Fatalf("a line of %d in %d columns", n, columns)
				}
			}
		}
	}
}

func TestRatesAreAMeanOfTheLastSeconds(t *testing.T) {
	t.Parallel()
	var m meter
	for i := range 100 {
		at := time.Duration(i) * 100 * time.Millisecond
		n := int64(i)
		if i > 50 {
			n = 50 + 3*(n-50)
		}
		got := m.rate(at, counts{sent: n}).sent
		want := map[bool]int64{true: 10, false: 30}[i < 51]
		if settled := i > 5 && i < 51 || i > 90; settled && got != want {
			t.Errorf("after %v: %d/s, want %d/s", at, got, want)
		}
	}
	if len(m.at) > 40 {
		t.Errorf("%d looks are remembered", len(m.at))
	}
}

func TestTheCommandThatDoesItAgainSaysWhatIsNotUsual(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		"once demo --seed 7": {Robots: 20, Duration: 30 * time.Second, Rate: 33, Seed: 7},
		"once demo --robots 300 --duration 1m0s --seed 7": {Robots: 300, Duration: time.Minute,
			Rate: 500, Seed: 7},
		"once demo --robots 21 --rate 36 --seed 0": {Robots: 21, Duration: 30 * time.Second,
			Rate: 36},
	} {
		if got := c.again(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestNumbersAreReadable(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1 000", 1234567: "1 234 567"} {
		if got := number(n); got != want {
			t.Errorf("%d is written %q, want %q", n, got, want)
		}
	}
}
