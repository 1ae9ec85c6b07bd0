package config

import (
	"errors"
	"regexp"
	"strings"

	yaml "github.com/goccy/go-yaml"
)

// syntax tells what the parser didn't understand.
func (t *tree) syntax(err error) {
	var y yaml.Error
	if !errors.As(err, &y) || y.GetToken() == nil {
		t.add(place{}, "not readable as YAML; the parser names no place")
		return
	}
	at := tokenPlace(y.GetToken())
	line := string(t.src.line(at.line))
	if open, ok := t.openQuote(at.line); ok {
		t.add(open, "a text in quotes begins here and has no end in this line; expected the"+
			" closing quote")
		return
	}
	if col, text, ok := bareExpression(line); ok {
		t.add(place{at.line, col}, "an expression that YAML doesn't read as a text; expected it"+
			" in quotes: %s", yamlQuote(text))
		return
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	if tab := strings.Index(indent, "\t"); tab >= 0 {
		t.add(place{at.line, tab + 1}, "a tab indents this line; expected blanks")
		return
	}
	msg := safe(y.GetMessage())
	if strings.Contains(msg, "must be specified") || strings.Contains(msg, "end token") {
		open, closing, ok := t.openBracket(at)
		if ok && open == at {
			t.add(open, "what begins here has no end; expected the closing %c", closing)
			return
		}
		if ok {
			t.add(open, "what begins here has no end before line %d; expected a comma or the"+
				" closing %c", at.line, closing)
			return
		}
	}
	t.add(at, "%s; expected YAML: `name: value`, lists as [a, b] or with -, texts with special"+
		" characters in quotes", msg)
}

// openBracket finds the innermost list or map in brackets that is open where the parser gave up,
// and what would close it. Where the parser names the bracket itself, that is the one.
func (t *tree) openBracket(gaveUp place) (open place, closing rune, ok bool) {
	type bracket struct {
		at      place
		closing rune
	}
	var stack []bracket
	for n := 1; n <= gaveUp.line; n++ {
		line, quote := t.src.line(n), rune(0)
		for i := 0; i < len(line); i++ {
			if at := (place{n, i + 1}); !before(at, gaveUp) && at != gaveUp {
				break
			}
			switch c := line[i]; {
			case quote == '"' && c == '\\':
				i++
			case quote != 0:
				if c == quote {
					quote = 0
				}
			case (c == '"' || c == '\'') && opensText(line[:i]):
				quote = c
			case c == '#' && (i == 0 || line[i-1] == ' '):
				i = len(line)
			case c == '[' && (len(stack) > 0 || opensText(line[:i])):
				stack = append(stack, bracket{place{n, i + 1}, ']'})
			case c == '{' && (len(stack) > 0 || opensText(line[:i])):
				stack = append(stack, bracket{place{n, i + 1}, '}'})
			case len(stack) > 0 && c == stack[len(stack)-1].closing:
				stack = stack[:len(stack)-1]
			}
		}
	}
	if len(stack) == 0 {
		return place{}, 0, false
	}
	last := stack[len(stack)-1]
	return last.at, last.closing, true
}

// openQuote finds the first line, up to the one where the parser gave up, in which a quote opens
// and doesn't close.
func (t *tree) openQuote(last int) (place, bool) {
	for n := 1; n <= last; n++ {
		quote, at := rune(0), 0
		line := t.src.line(n)
		for i := 0; i < len(line); i++ {
			switch c := line[i]; {
			case quote == '"' && c == '\\':
				i++
			case quote != 0 && c == quote:
				quote = 0
			case quote == 0 && (c == '"' || c == '\'') && opensText(line[:i]):
				quote, at = c, i+1
			case quote == 0 && c == '#' && (i == 0 || line[i-1] == ' '):
				i = len(line)
			}
		}
		if quote != 0 {
			return place{n, at}, true
		}
	}
	return place{}, false
}

// opensText reports whether a quote after these characters begins a text.
func opensText(before []rune) bool {
	s := strings.TrimRight(string(before), " ")
	return s == "" || strings.ContainsAny(s[len(s)-1:], "[{,:-")
}

// maxSearched is the longest line, in bytes, in which an expression is looked for: the work grows
// with the square of it.
const maxSearched = 2000

// bareExpression finds, in a line that isn't YAML, a value without quotes that reads as an
// expression, and its column.
func bareExpression(line string) (col int, text string, ok bool) {
	if len(line) > maxSearched {
		return 0, "", false
	}
	named := regexp.MustCompile(`^[\w.-]+:\s`)
	starts := regexp.MustCompile(`(?:^\s*|[\[{,:-]\s+|[\[{,])`).FindAllStringIndex(line, -1)
	for _, m := range starts {
		rest := line[m[1]:]
		if rest == "" || strings.ContainsAny(rest[:1], ` "'[{#`) {
			continue
		}
		part := cutValue(rest)
		if readsAsExpression(part) && !named.MatchString(part) && !strings.HasPrefix(part, "- ") {
			return len([]rune(line[:m[1]])) + 1, part, true
		}
	}
	return 0, "", false
}

// readsAsExpression tells a text that was meant as CEL by its variables and operators.
func readsAsExpression(s string) bool {
	if !strings.ContainsAny(s, ".[(") {
		return false
	}
	re := regexp.MustCompile(`(?:^|[^A-Za-z0-9_.'"-])` +
		`(?:(?:body|item|header|query|task|resource|effect)(?:\.|\[)|has\()`)
	return re.MatchString(s)
}

// cutValue cuts a value without quotes at the end of its place in a line.
func cutValue(s string) string {
	depth := 0
	for i, r := range s {
		switch r {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth--; depth < 0 {
				return strings.TrimSpace(s[:i])
			}
		case ',':
			if depth == 0 {
				return strings.TrimSpace(s[:i])
			}
		case '#':
			if i > 0 && s[i-1] == ' ' {
				return strings.TrimSpace(s[:i])
			}
		}
	}
	return strings.TrimSpace(s)
}

// yamlQuote writes a text as YAML in quotes.
func yamlQuote(s string) string {
	if !strings.ContainsAny(s, `"\`) {
		return `"` + s + `"`
	}
	return `'` + strings.ReplaceAll(s, `'`, `''`) + `'`
}
