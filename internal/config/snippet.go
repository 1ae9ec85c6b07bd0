package config

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The width of a shown source line in characters; longer ones are cut around the caret.
const (
	snippetWidth = 100
	snippetLead  = 60
)

// masked stands where a secret is not shown.
const masked = "***"

// source is the text of a file by lines, and the places of its secrets.
type source struct {
	lines [][]rune
	// known is true when the file could be parsed and secrets holds all of them.
	known   bool
	secrets []span
	// For a file that could not be parsed, so that its secrets have no known places.
	byField, opensField *regexp.Regexp
	inURL               *regexp.Regexp
}

// span is a run of characters that must not be shown, to is exclusive; to {n, 0} reaches over
// whole lines.
type span struct{ from, to place }

func newSource(text string) *source {
	const field = `(?i)(?:token|password|passwd|bearer|secret|authorization|cookie|api[-_]?key)` +
		`[\w-]*["']?\s*:`
	s := &source{
		byField: regexp.MustCompile(field +
			`\s*("(?:[^"\\]|\\.)*"?|'[^']*'?|\[[^\]]*\]?|[^\s#{][^,}#]*)`),
		opensField: regexp.MustCompile(field + `\s*(?:[|>][-+0-9]*\s*)?$`),
		inURL:      regexp.MustCompile(`://([^/@\s"']*)@`),
	}
	for line := range strings.SplitSeq(text, "\n") {
		s.lines = append(s.lines, runes(strings.TrimSuffix(line, "\r")))
	}
	return s
}

func (s *source) line(n int) []rune {
	if n < 1 || n > len(s.lines) {
		return nil
	}
	return s.lines[n-1]
}

// hide marks the place of a secret.
func (s *source) hide(from, to place) { s.secrets = append(s.secrets, span{from, to}) }

// snippet shows the line of a place with a caret under it.
func (s *source) snippet(at place) string {
	line, col := s.mask(at)
	prefix := ""
	if len(line) > snippetWidth {
		from := max(0, min(col-1-snippetLead, len(line)-snippetWidth))
		to := min(len(line), from+snippetWidth)
		cut := append([]rune(nil), line[from:to]...)
		if to < len(line) {
			cut = append(cut, '…')
		}
		col -= from
		if from > 0 {
			prefix = "…"
		}
		line = cut
	}
	var pad strings.Builder
	for i := range col - 1 {
		switch {
		case i < len(line) && line[i] == '\t':
			pad.WriteByte('\t')
		case i < len(line):
			pad.WriteString(strings.Repeat(" ", len([]rune(escape(line[i])))))
		default:
			pad.WriteByte(' ')
		}
	}
	text := prefix + escaped(line)
	return fmt.Sprintf("%6d | %s\n%s | %s%s^", at.line, text, strings.Repeat(" ", 6),
		strings.Repeat(" ", len([]rune(prefix))), pad.String())
}

// badByte is added to a byte that is no UTF-8, so that a line of runes has a place for it: these
// numbers are no characters.
const badByte = 0xDC00

// runes splits a text into its characters, and the bytes that are none.
func runes(text string) []rune {
	var out []rune
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD") {
			r = badByte + rune(text[i])
		}
		out = append(out, r)
	}
	return out
}

// safe keeps a terminal safe from what a file holds.
func safe(s string) string { return escaped(runes(s)) }

// escaped writes characters that don't print, and bytes that are none, as in a text in quotes.
func escaped(line []rune) string {
	var b strings.Builder
	for _, r := range line {
		b.WriteString(escape(r))
	}
	return b.String()
}

func escape(r rune) string {
	switch {
	case r == '\t' || unicode.IsPrint(r):
		return string(r)
	case r >= badByte && r <= badByte+0xFF:
		return fmt.Sprintf(`\x%02X`, r-badByte)
	case r <= 0xFF:
		return fmt.Sprintf(`\x%02X`, r)
	}
	return fmt.Sprintf(`\u%04X`, r)
}

// mask returns the line of a place without its secrets, and the column in it.
func (s *source) mask(at place) ([]rune, int) {
	line := s.line(at.line)
	hidden := make([]bool, len(line)+1)
	for _, sp := range s.secrets {
		for i := range line {
			p := place{at.line, i + 1}
			if !before(p, sp.from) && before(p, sp.to) {
				hidden[i] = true
			}
		}
	}
	text := string(line)
	patterns := []*regexp.Regexp{s.inURL}
	if !s.known {
		patterns = append(patterns, s.byField)
		for i := range line {
			hidden[i] = s.belowSecret(at.line)
		}
	}
	for _, re := range patterns {
		for _, m := range re.FindAllStringSubmatchIndex(text, -1) {
			from, to := len([]rune(text[:m[2]])), len([]rune(text[:m[3]]))
			for i := from; i < to; i++ {
				hidden[i] = true
			}
		}
	}
	var out []rune
	col := at.col
	for i := range line {
		switch {
		case !hidden[i]:
			out = append(out, line[i])
		case i == 0 || !hidden[i-1]:
			out = append(out, []rune(masked)...)
		}
		if i == at.col-1 {
			col = len(out)
			if hidden[i] {
				col = len(out) - len(masked) + 1
			}
		}
	}
	if at.col > len(line) {
		col = len(out) + at.col - len(line)
	}
	return out, max(col, 1)
}

// belowSecret reports whether a line belongs to a list or block text of a secret field above it.
func (s *source) belowSecret(n int) bool {
	line := s.line(n)
	indent := firstColumn(line)
	for above := n - 1; above > 0; above-- {
		text := s.line(above)
		column := firstColumn(text)
		if blankFrom(text, 0) || column > indent || column == indent && line[indent-1] != '-' {
			continue
		}
		if column == indent && text[column-1] == '-' {
			continue
		}
		return s.opensField.MatchString(string(text))
	}
	return false
}

func before(a, b place) bool {
	return a.line < b.line || a.line == b.line && a.col < b.col
}
