// Package table keeps what was measured and prints it: one line a figure, with its target, the
// median, the spread and the number of runs. Samples are kept in a file, so that a measurement can
// be spread over several commands.
package table

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Row is one line of the table.
type Row struct {
	// ID names the line in the file of samples.
	ID string
	// Title says what is measured, and in which unit.
	Title string
	// AtLeast and AtMost are the target; both 0: there is none, the line explains others.
	AtLeast, AtMost float64
	// Aim is what the target hopes for beyond itself; 0: nothing.
	Aim float64
	// Digits after the point.
	Digits int
}

func (r *Row) format(v float64) string { return strconv.FormatFloat(v, 'f', r.Digits, 64) }

func (r *Row) target() string {
	switch {
	case r.Aim > 0:
		return fmt.Sprintf("≥ %g, aim %g", r.AtLeast, r.Aim)
	case r.AtLeast > 0:
		return fmt.Sprintf("≥ %g", r.AtLeast)
	case r.AtMost > 0:
		return fmt.Sprintf("≤ %g", r.AtMost)
	}
	return ""
}

// met says whether a value reaches the target; empty where there is none.
func (r *Row) met(v float64) string {
	switch {
	case r.AtLeast == 0 && r.AtMost == 0:
		return ""
	case r.AtLeast > 0 && v < r.AtLeast, r.AtMost > 0 && v > r.AtMost:
		return "NO"
	}
	return "yes"
}

// Sample is one measured value.
type Sample struct {
	Row   string    `json:"row"`
	Value float64   `json:"value"`
	At    time.Time `json:"at"`
}

// Append adds samples to a file, which is made if there is none.
func Append(path string, samples []Sample) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("keep samples: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	enc := json.NewEncoder(f)
	for _, s := range samples {
		if err := enc.Encode(s); err != nil {
			return fmt.Errorf("keep samples: %w", err)
		}
	}
	return nil
}

// Read reads the samples of a file; none if there is no file.
func Read(path string) ([]Sample, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read samples: %w", err)
	}
	defer f.Close() // it was only read
	var out []Sample
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var s Sample
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return nil, fmt.Errorf("read samples %s: %w", path, err)
		}
		out = append(out, s)
	}
	return out, lines.Err()
}

// Print writes the table of the rows that have samples, for a terminal.
func Print(w io.Writer, rows []Row, samples []Sample) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, cells := range lines(rows, samples) {
		fmt.Fprintln(t, strings.TrimRight(strings.Join(cells, "\t"), "\t")) // Flush tells errors
	}
	return t.Flush()
}

// Markdown writes the table for a page of the documentation.
func Markdown(w io.Writer, rows []Row, samples []Sample) error {
	var b strings.Builder
	for i, cells := range lines(rows, samples) {
		for len(cells) < columns {
			cells = append(cells, "")
		}
		if rest, ok := strings.CutPrefix(cells[0], "  "); ok {
			cells[0] = "… " + rest
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			fmt.Fprintln(&b, "|---|---|--:|--:|--:|---|")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// columns of the table.
const columns = 6

// lines are the cells of the table, its head first.
func lines(rows []Row, samples []Sample) [][]string {
	out := [][]string{{"figure", "target", "median", "spread", "runs", "met"}}
	for i := range rows {
		r := &rows[i]
		var values []float64
		for _, s := range samples {
			if s.Row == r.ID {
				values = append(values, s.Value)
			}
		}
		if len(values) == 0 {
			continue
		}
		m := Median(values)
		out = append(out, []string{r.Title, cmp.Or(r.target(), "–"), r.format(m),
			r.format(slices.Min(values)) + "–" + r.format(slices.Max(values)),
			strconv.Itoa(len(values)), r.met(m)})
	}
	return out
}

// Median returns the median of values; there is at least one.
func Median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}
