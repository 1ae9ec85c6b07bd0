package scenario

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Passed tells whether all results are as they should be.
func Passed(results []Result) bool { return failures(results) == 0 }

func failures(results []Result) int {
	n := 0
	for _, r := range results {
		if !r.Passed {
			n++
		}
	}
	return n
}

// WriteTable writes the results for people: a line for each scenario, what differs below it, and a
// line that counts them.
func WriteTable(w io.Writer, results []Result) error {
	width := 0
	for _, r := range results {
		width = max(width, utf8.RuneCountInString(r.ID))
	}
	var b strings.Builder
	for _, r := range results {
		word := "ok    "
		if !r.Passed {
			word = "FAILED"
		}
		fmt.Fprintf(&b, "%s  %-*s  %7s  %s\n", word, width, r.ID, r.Took.Round(time.Millisecond),
			r.Title)
		for _, problem := range r.Problems {
			fmt.Fprintf(&b, "          %s\n", problem)
		}
		if len(r.Problems) > 0 {
			fmt.Fprintf(&b, "          why it matters: %s\n", r.Why)
		}
	}
	bad := failures(results)
	fmt.Fprintf(&b, "\n%d scenarios: %d passed, %d failed\n", len(results), len(results)-bad, bad)
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteJSON writes the results as one object a line.
func WriteJSON(w io.Writer, results []Result) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for i := range results {
		if err := enc.Encode(&results[i]); err != nil {
			return err
		}
	}
	return nil
}

// Choose returns the scenarios of these ids, or all, without those to skip. It refuses an id that
// there is not.
func Choose(list []Scenario, only, skip []string) ([]Scenario, error) {
	chosen := map[string]bool{}
	for _, s := range list {
		chosen[s.ID] = len(only) == 0
	}
	for _, set := range []struct {
		ids []string
		is  bool
	}{{only, true}, {skip, false}} {
		for _, id := range set.ids {
			if _, ok := chosen[id]; !ok {
				return nil, fmt.Errorf("there is no scenario %q", id)
			}
			chosen[id] = set.is
		}
	}
	var out []Scenario
	for _, s := range list {
		if chosen[s.ID] {
			out = append(out, s)
		}
	}
	return out, nil
}
