// Package screen writes for people: tables, times, colours.
//
// On a terminal what is too long is cut to its width and times are short; in a pipe nothing is cut,
// times are RFC 3339, and there are no colours. What is stored may hold anything: everything goes
// through Clean or CleanLines, so that no control character of a message reaches a terminal.
package screen

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// Screen is where something is written to. Its fields are not changed after the first use.
type Screen struct {
	W io.Writer
	// Terminal is true where a person looks at it.
	Terminal bool
	// Color allows colours.
	Color bool
	// Width of the terminal in columns, asked for anew for each table.
	Width func() int
	// Now is the clock of ages.
	Now func() time.Time
}

// defaultWidth is that of a terminal that doesn't say how wide it is.
const defaultWidth = 80

// For returns the screen of a writer. Colours are for terminals that know them, unless NO_COLOR is
// set (no-color.org) or TERM is dumb. getenv is os.LookupEnv or like it.
func For(w io.Writer, getenv func(string) (string, bool)) *Screen {
	s := &Screen{W: w, Now: time.Now, Width: func() int { return defaultWidth }}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return s
	}
	s.Terminal = true
	no, _ := getenv("NO_COLOR")
	kind, _ := getenv("TERM")
	s.Color = no == "" && kind != "" && kind != "dumb"
	s.Width = func() int {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
		return defaultWidth
	}
	return s
}

// Style is how a text looks where there are colours.
type Style uint8

// The styles.
const (
	Plain Style = iota
	Good
	Warn
	Bad
	Dim
	Bold
)

// Paint gives a text a style. The text is clean already.
func (s *Screen) Paint(style Style, text string) string {
	code := [...]string{Good: "32", Warn: "33", Bad: "31", Dim: "2", Bold: "1"}[style]
	if !s.Color || code == "" || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Printf writes a line. What it is given is clean already.
func (s *Screen) Printf(format string, args ...any) error {
	_, err := fmt.Fprintf(s.W, format+"\n", args...)
	return err
}

// Time returns a time as it is shown: local and short on a terminal, else RFC 3339. Empty for the
// zero time.
func (s *Screen) Time(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	t = t.Local()
	if !s.Terminal {
		return t.Format(time.RFC3339)
	}
	now := s.Now().Local()
	switch {
	case t.Year() == now.Year() && t.YearDay() == now.YearDay():
		return t.Format("15:04:05")
	case t.Year() == now.Year():
		return t.Format("Jan 02 15:04")
	}
	return t.Format("2006-01-02 15:04")
}

// TimeAge is Time with how long ago that is, or is to come, on a terminal.
func (s *Screen) TimeAge(t time.Time) string {
	text := s.Time(t)
	if text == "" || !s.Terminal {
		return text
	}
	d := s.Now().Sub(t)
	if d < 0 {
		return text + " (in " + Short(-d) + ")"
	}
	return text + " (" + Short(d) + " ago)"
}

// Short returns a length of time in its largest unit, cut off.
func Short(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}
