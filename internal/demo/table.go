package demo

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// style is how a piece of text looks, as a parameter of SGR (ECMA-48, 8.3.117).
type style string

const (
	normal style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	blue   style = "36"
)

// span is a piece of a line in one style. All its characters are one column wide.
type span struct {
	text string
	style
}

type line []span

func (l line) width() (n int) {
	for _, s := range l {
		n += utf8.RuneCountInString(s.text)
	}
	return n
}

// pad fills a line up to a width.
func (l line) pad(width int) line {
	if n := width - l.width(); n > 0 {
		return append(l, span{strings.Repeat(" ", n), normal})
	}
	return l
}

// text writes a line, cut to a width.
func (l line) text(width int, color bool) string {
	var b strings.Builder
	for _, s := range l {
		t := []rune(s.text)
		t = t[:min(len(t), width)]
		width -= len(t)
		if color && s.style != normal && len(t) > 0 {
			fmt.Fprintf(&b, "\x1b[%sm%s\x1b[0m", s.style, string(t))
		} else {
			b.WriteString(string(t))
		}
	}
	return b.String()
}

const (
	// tableWidth is as wide as the table gets.
	tableWidth = 84
	// leftWidth is that of its left half.
	leftWidth = 42
	// narrow is less than both halves need.
	narrow = 72
)

// table draws a frame into so many columns and rows.
func table(f *frame, columns, rows int) []line {
	width := min(columns-1, tableWidth)
	out := []line{{}, head(f, width), bar(f, width), {}}
	out = append(out, beside(callbackLines(f), append(effectLines(f), serverLines(f)...), width)...)
	out = append(out, line{}, robotLine(f))
	out = append(out, robotMarks(f, width)...)
	out = append(out, line{}, line{{" what happens", bold}})
	for _, h := range f.happenings[max(0, len(f.happenings)-max(0, rows-len(out)-1)):] {
		out = append(out, happened(h))
	}
	return out[:min(len(out), max(rows, 0))]
}

// beside puts two columns side by side, or one below the other where there is no room.
func beside(left, right []line, width int) (out []line) {
	if width < narrow {
		return append(append(left, line{}), right...)
	}
	for i := range max(len(left), len(right)) {
		var l line
		if i < len(left) {
			l = left[i]
		}
		l = l.pad(leftWidth)
		if i < len(right) {
			l = append(l, right[i]...)
		}
		out = append(out, l)
	}
	return out
}

func head(f *frame, width int) line {
	clock := func(d time.Duration) string {
		s := int(d.Seconds())
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	l := line{{" once demo", bold},
		{fmt.Sprintf("   %s · seed %d", plural(f.robots, "robot"), f.seed), dim}}
	text := clock(min(f.at, f.of)) + " / " + clock(f.of)
	return append(l.pad(width-len(text)), span{text, normal})
}

func bar(f *frame, width int) line {
	width = max(width-1, 0)
	done := width
	if f.at < f.of {
		done = int(float64(width) * f.at.Seconds() / f.of.Seconds())
	}
	return line{{" ", normal}, {strings.Repeat("━", done), green},
		{strings.Repeat("─", width-done), dim}}
}

// row is a number with its name and its rate.
func row(name string, total, rate int64, s style) line {
	l := line{{fmt.Sprintf(" %-15s", name), normal}, {fmt.Sprintf("%9s", number(total)), s}}
	if rate > 0 {
		l = append(l, span{fmt.Sprintf("%7d/s", rate), dim})
	}
	return l
}

func callbackLines(f *frame) []line {
	c, r := &f.counts, &f.rates
	return []line{
		{{" callbacks", bold}},
		row("sent", c.sent, r.sent, normal),
		row("accepted", c.accepted, r.accepted, green),
		row("duplicates", c.duplicates, r.duplicates, normal),
		row("  hours late", c.late, 0, normal),
		row("conflicts", c.conflicts, r.conflicts, normal),
		row("no answer", c.unanswered, r.unanswered, warn(r.unanswered > 0)),
	}
}

func effectLines(f *frame) []line {
	return []line{
		{{" effects", bold}},
		row("arrived", f.counts.arrived, f.rates.arrived, green),
		row("again, same id", f.counts.again, f.rates.again, normal),
		{},
	}
}

func warn(is bool) style {
	if is {
		return yellow
	}
	return normal
}

func serverLines(f *frame) []line {
	s := green
	switch f.server {
	case down:
		s = red
	case starting, standing:
		s = yellow
	}
	text := fmt.Sprintf("%s, life %d", f.server, f.life)
	if f.shift > 0 {
		text += fmt.Sprintf(", clock +%d h", int(f.shift.Hours()))
	}
	lines := []line{light("server", text, s)}
	for _, name := range []string{wms, plant} {
		if mood := f.moods[name]; mood != "" {
			lines = append(lines, light(name, mood, red))
		} else {
			lines = append(lines, light(name, "well", green))
		}
	}
	return lines
}

func light(name, text string, s style) line {
	return line{{fmt.Sprintf(" %-9s", name), normal}, {"● ", s}, {text, normal}}
}

// marks and names of what robots are seen doing.
var marks = [robotStates]struct {
	mark, name string
	style
}{
	{"·", "between tasks", dim},
	{"▸", "driving", green},
	{"■", "at a station", blue},
	{"!", "unanswered", yellow},
}

func robotLine(f *frame) line {
	var n [robotStates]int
	for _, d := range f.doing {
		n[d]++
	}
	l := line{{" robots  ", bold}}
	for _, d := range []int32{driving, docked, idle, resending} {
		m := marks[d]
		l = append(l, span{m.mark + " ", m.style},
			span{fmt.Sprintf("%d %s   ", n[d], m.name), normal})
	}
	return l
}

// maxMarkLines bounds the lines of marks.
const maxMarkLines = 3

// robotMarks shows each robot by its mark, as many as fit.
func robotMarks(f *frame, width int) (out []line) {
	per := max(width-2, 1)
	for i, d := range f.doing {
		if i/per == maxMarkLines {
			break
		}
		if i%per == 0 {
			out = append(out, line{{" ", normal}})
		}
		m := marks[d]
		last := &out[len(out)-1]
		*last = append(*last, span{m.mark, m.style})
	}
	return out
}

func happened(h happening) line {
	s := normal
	switch {
	case strings.Contains(h.text, "SIGKILL"):
		s = red
	case strings.Contains(h.text, "ready"):
		s = green
	case strings.HasPrefix(h.text, wms), strings.HasPrefix(h.text, plant),
		strings.Contains(h.text, "frozen"):
		s = yellow
	}
	return line{{fmt.Sprintf(" %8s  ", seconds(h.at)), dim}, {h.text, s}}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return number(int64(n)) + " " + what + "s"
}
