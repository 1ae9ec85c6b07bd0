package screen

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Clean returns a text on one line in which everything that can't be seen is written as Go writes
// it in a literal: \n, \x1b, \u202e. Those are control characters, what turns the direction of
// writing, and what is no UTF-8.
func Clean(s string) string { return clean(s, "") }

// CleanLines is Clean for a text of several lines: line ends and tabs stay.
func CleanLines(s string) string {
	return clean(strings.ReplaceAll(s, "\r\n", "\n"), "\n\t")
}

func clean(s, but string) string {
	i := 0
	for i < len(s) && s[i] >= ' ' && s[i] < 0x7f {
		i++
	}
	if i == len(s) {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:i])
	for i < len(s) {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[i])|0x100, 16)[1:])
		case unicode.IsPrint(r), unicode.Is(unicode.Zs, r), strings.ContainsRune(but, r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		i += size
	}
	return b.String()
}

// Columns returns how many columns of a terminal a clean text takes: wide characters take two,
// combining ones none.
func Columns(s string) int {
	n := 0
	for _, r := range s {
		n += columns(r)
	}
	return n
}

func columns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Cut shortens a clean text to at most n columns; one that was cut ends in an ellipsis.
func Cut(s string, n int) string {
	if Columns(s) <= n {
		return s
	}
	if n < 1 {
		return ""
	}
	used := 0
	for i, r := range s {
		if used+columns(r) > n-1 {
			return s[:i] + "…"
		}
		used += columns(r)
	}
	return s
}

// Wrap breaks a clean text between words into lines of at most n columns; a word that is longer has
// a line of its own.
func Wrap(s string, n int) string {
	var b strings.Builder
	used := 0
	for word := range strings.FieldsSeq(s) {
		size := Columns(word)
		switch {
		case used == 0:
		case used+1+size <= n:
			b.WriteByte(' ')
			used++
		default:
			b.WriteByte('\n')
			used = 0
		}
		b.WriteString(word)
		used += size
	}
	return b.String()
}
