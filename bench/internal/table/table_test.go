package table

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestPrintShowsMedianSpreadAndWhetherTheTargetIsMet(t *testing.T) {
	rows := []Row{
		{ID: "a", Title: "ratio", AtLeast: .5, Aim: .65, Digits: 2},
		{ID: "b", Title: "time, ms", AtMost: 50},
		{ID: "c", Title: "rate"},
		{ID: "d", Title: "not measured"},
	}
	path := filepath.Join(t.TempDir(), "samples.jsonl")
	for _, s := range []Sample{{Row: "a", Value: .7}, {Row: "b", Value: 60}, {Row: "a", Value: .4},
		{Row: "c", Value: 7}, {Row: "a", Value: .6}, {Row: "b", Value: 41}} {
		if err := Append(path, []Sample{s}); err != nil {
			t.Fatal(err)
		}
	}
	samples, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := Print(&b, rows, samples); err != nil {
		t.Fatal(err)
	}
	want := `figure    target           median  spread     runs  met
ratio     ≥ 0.5, aim 0.65  0.60    0.40–0.70  3     yes
time, ms  ≤ 50             50      41–60      2     NO
rate      –                7       7–7        1
`
	if b.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", b.String(), want)
	}
}

func TestMarkdownHasTheSameCells(t *testing.T) {
	rows := []Row{{ID: "a", Title: "time, ms", AtMost: 50}, {ID: "b", Title: "  rate, 1/s"}}
	var b strings.Builder
	err := Markdown(&b, rows, []Sample{{Row: "a", Value: 7}, {Row: "b", Value: 9}})
	want := "| figure | target | median | spread | runs | met |\n|---|---|--:|--:|--:|---|\n" +
		"| time, ms | ≤ 50 | 7 | 7–7 | 1 | yes |\n| … rate, 1/s | – | 9 | 9–9 | 1 |  |\n"
	if err != nil || b.String() != want {
		t.Errorf("wrote\n%s\nerror %v, want\n%s", b.String(), err, want)
	}
}

func TestNoFileHasNoSamples(t *testing.T) {
	samples, err := Read(filepath.Join(t.TempDir(), "none"))
	if err != nil || samples != nil {
		t.Errorf("%v, error %v, want none", samples, err)
	}
}
