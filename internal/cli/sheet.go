package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oncekit/once/internal/screen"
	"github.com/oncekit/once/internal/wire"
)

// sheet shows one thing: fields with their names, texts, and tables under titles.
type sheet struct {
	s *screen.Screen
	b strings.Builder
}

// nameWidth is how much room the names of fields have.
const nameWidth = 14

// head begins with what the thing is and how it stands.
func (s *sheet) head(what, state string, style screen.Style, reason string) {
	fmt.Fprintf(&s.b, "%s  %s\n", s.s.Paint(screen.Bold, screen.Clean(what)),
		s.s.Paint(style, screen.Clean(state)))
	if reason = screen.Clean(reason); reason != "" {
		if s.s.Terminal {
			reason = screen.Wrap(reason, s.s.Width())
		}
		fmt.Fprintf(&s.b, "%s\n", reason)
	}
	s.b.WriteString("\n")
}

// field writes a value beside its name; one that is empty is left out.
func (s *sheet) field(name, value string) {
	if value != "" {
		fmt.Fprintf(&s.b, "%s%s%s\n", s.s.Paint(screen.Dim, name),
			strings.Repeat(" ", max(1, nameWidth-len(name))), screen.Clean(value))
	}
}

func (s *sheet) when(name string, t time.Time) { s.field(name, s.s.TimeAge(t)) }

// title begins a part.
func (s *sheet) title(text string) {
	fmt.Fprintf(&s.b, "\n%s\n", s.s.Paint(screen.Bold, screen.Clean(text)))
}

// text writes lines, moved to the right.
func (s *sheet) text(lines string) {
	lines = strings.TrimSuffix(screen.CleanLines(lines), "\n")
	for line := range strings.SplitSeq(lines, "\n") {
		fmt.Fprintf(&s.b, "  %s\n", line)
	}
}

// table writes what fill puts into a table.
func (s *sheet) table(fill func(*screen.Table), cols ...screen.Column) {
	inner := *s.s
	inner.W = &s.b
	t := inner.NewTable(cols...)
	fill(t)
	_ = t.Flush() // a builder takes everything
}

// flush writes the sheet.
func (s *sheet) flush() error {
	_, err := s.s.W.Write([]byte(s.b.String()))
	return err
}

// body shows a payload: JSON by its structure, other text as it is, bytes by their number.
func (s *sheet) body(title string, p *wire.Payload) {
	b, kept := p.Bytes()
	switch {
	case !kept:
		s.title(title + ": not kept")
		return
	case len(b) == 0:
		s.title(title + ": empty")
		return
	}
	s.title(fmt.Sprintf("%s, %s", title, plural(len(b), "byte")))
	var pretty bytes.Buffer
	switch {
	case json.Indent(&pretty, b, "", "  ") == nil:
		s.text(pretty.String())
	case utf8.Valid(b):
		s.text(string(b))
	default:
		s.text("no text; --body writes it as it came")
	}
}

func (s *sheet) attempts(list []wire.Attempt) {
	if len(list) == 0 {
		return
	}
	s.title("attempts")
	s.table(func(t *screen.Table) {
		for i := range list {
			a := &list[i]
			took := ""
			if a.StartedAt != nil && a.EndedAt != nil {
				took = a.EndedAt.Time().Sub(a.StartedAt.Time()).Round(time.Millisecond).String()
			}
			t.Row(screen.Cell{Text: fmt.Sprint(a.N)},
				screen.Cell{Text: s.s.Time(a.StartedAt.Time())}, screen.Cell{Text: took},
				screen.Cell{Text: a.Result, Style: styleOf(a.Result)}, screen.Cell{Text: a.Error})
		}
	}, screen.Column{Title: "N", Right: true}, screen.Column{Title: "STARTED"},
		screen.Column{Title: "TOOK", Right: true}, screen.Column{Title: "RESULT"},
		screen.Column{Title: "ERROR", Min: 12})
}

func (s *sheet) audit(list []wire.Action) {
	if len(list) == 0 {
		return
	}
	s.title("done by people")
	s.table(func(t *screen.Table) {
		for i := range list {
			a := &list[i]
			t.Row(screen.Cell{Text: s.s.Time(a.At.Time())}, screen.Cell{Text: a.Action},
				screen.Cell{Text: a.Actor}, screen.Cell{Text: a.Reason})
		}
	}, screen.Column{Title: "AT"}, screen.Column{Title: "ACTION"},
		screen.Column{Title: "ACTOR", Min: 8}, screen.Column{Title: "REASON", Min: 12})
}

// advice says on a terminal what can be done next.
func (s *sheet) advice(lines ...string) {
	if !s.s.Terminal || len(lines) == 0 {
		return
	}
	s.title("what can be done")
	for _, line := range lines {
		s.text(line)
	}
}
