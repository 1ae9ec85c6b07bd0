package expr

import (
	"strings"
	"unicode/utf8"
)

// piece is a part of a template's text: literal text, or an expression and where it stands.
type piece struct {
	literal string
	expr    string
	isExpr  bool
	offset  int // of expr in the template's text, in runes
}

// split takes a template apart. $${ is a literal ${.
func split(text string) ([]piece, *CompileError) {
	var pieces []piece
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			pieces = append(pieces, piece{literal: literal.String()})
			literal.Reset()
		}
	}
	for pos := 0; pos < len(text); {
		rest := text[pos:]
		switch {
		case strings.HasPrefix(rest, "$${"):
			literal.WriteString("${")
			pos += len("$${")
		case strings.HasPrefix(rest, "${"):
			start := pos + len("${")
			end := closingBrace(text, start)
			if end < 0 {
				return nil, &CompileError{
					Offset: utf8.RuneCountInString(text[:pos]),
					Msg:    "this ${ is not closed by } (a literal ${ is written $${)",
				}
			}
			flush()
			pieces = append(pieces, piece{
				expr: text[start:end], isExpr: true, offset: utf8.RuneCountInString(text[:start]),
			})
			pos = end + 1
		default:
			literal.WriteByte(text[pos])
			pos++
		}
	}
	flush()
	return pieces, nil
}

// closingBrace returns the byte at which the } stands that ends an expression, or -1. Braces of
// CEL's maps, texts in quotes and comments are skipped.
func closingBrace(text string, pos int) int {
	depth := 0
	for pos < len(text) {
		switch text[pos] {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return pos
			}
			depth--
		case '"', '\'':
			end := endOfQuoted(text, pos)
			if end < 0 {
				return -1
			}
			pos = end
			continue
		case '/':
			if strings.HasPrefix(text[pos:], "//") {
				line := strings.IndexByte(text[pos:], '\n')
				if line < 0 {
					return -1
				}
				pos += line
			}
		}
		pos++
	}
	return -1
}

// endOfQuoted returns the byte after a CEL text that begins at pos, or -1 if it doesn't end.
func endOfQuoted(text string, pos int) int {
	quote := text[pos : pos+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(text[pos:], triple) {
		quote = triple
	}
	raw := isRaw(text, pos)
	for i := pos + len(quote); i < len(text); i++ {
		if strings.HasPrefix(text[i:], quote) {
			return i + len(quote)
		}
		if text[i] == '\\' && !raw {
			i++
		}
	}
	return -1
}

// isRaw reports whether a text at pos has the prefix r, alone or with b, so that a backslash in
// it is only that. An r at the end of a name isn't a prefix, but no text follows a name.
func isRaw(text string, pos int) bool {
	for i := pos - 1; i >= 0 && i >= pos-2; i-- {
		switch text[i] {
		case 'r', 'R':
			return true
		case 'b', 'B':
		default:
			return false
		}
	}
	return false
}
