package expr

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
)

// CompileError is a mistake in an expression or template.
type CompileError struct {
	Path   []any  // in a tree: member names (string) and list indexes (int) down to the text
	Offset int    // of the mistake in the text, in runes from 0
	Msg    string // for people
}

// Error returns the message.
func (e *CompileError) Error() string { return e.Msg }

// EvalError is an expression that has no result for this message. It never holds a value of the
// message.
type EvalError struct {
	Field   string // full path of the field in question, such as body.data.seq; may be empty
	Msg     string // for people, without the path
	Missing bool   // the field isn't there, or what should hold it isn't an object
}

// Error returns path and message.
func (e *EvalError) Error() string {
	if e.Field == "" {
		return e.Msg
	}
	return e.Field + ": " + e.Msg
}

// ItemNotHere begins the message of a [CompileError] about the variable item where there is none,
// so that who knows the reason can tell it.
const ItemNotHere = "item doesn't exist here"

// maxMessage bounds a message that was made from CEL's, in bytes.
const maxMessage = 240

// compileError turns the first of CEL's issues into an error for people.
func compileError(iss *cel.Issues, text string, allowed VarSet, pos Position) *CompileError {
	first, want := iss.Errors()[0], ""
	for _, e := range iss.Errors() {
		if name, ok := quotedAfter(e.Message, "undeclared reference to '"); ok && want == "" {
			if want = inQuotes(text, name); want != "" {
				first = e
				want = "unknown name " + name + "; a name like this stands in quotes: " + want
			}
		}
	}
	offset := 0
	above := first.Location.Line() - 1 // lines are counted from 1, columns from 0
	for line := range strings.Lines(text) {
		if above <= 0 {
			break
		}
		above--
		offset += utf8.RuneCountInString(line)
	}
	size := utf8.RuneCountInString(text)
	offset = min(offset+max(first.Location.Column(), 0), size)
	msg := cleanCompile(first.Message, allowed)
	if want != "" {
		msg = want
	}
	if offset == size && strings.HasPrefix(msg, "unexpected ") {
		msg = tooShort
	}
	return &CompileError{Offset: int(pos) + offset, Msg: msg}
}

// bare are names with hyphens, and names in brackets, that CEL takes for variables.
var bare = []*regexp.Regexp{
	regexp.MustCompile(`([A-Za-z_][\w.]*)\[\s*([A-Za-z_]\w*(?:-\w+)*)\s*\]`),
	regexp.MustCompile(`([A-Za-z_][\w.]*)\.([A-Za-z_]\w*(?:-\w+)+)`),
}

// inQuotes says how what holds an unknown name is written, if it is one that lacks its quotes.
func inQuotes(text, unknown string) string {
	for _, form := range bare {
		for _, m := range form.FindAllStringSubmatch(text, -1) {
			base, _, _ := strings.Cut(m[1], ".")
			if isVariable(base) && slices.Contains(strings.Split(m[2], "-"), unknown) {
				return limit(m[1] + "['" + m[2] + "']")
			}
		}
	}
	return ""
}

const tooShort = "the expression ends too early"

// cleanCompile says in our words what CEL and its parser say in theirs.
func cleanCompile(msg string, allowed VarSet) string {
	if name, ok := quotedAfter(msg, "undeclared reference to '"); ok {
		if name == "item" {
			return ItemNotHere + "; there is " + allowed.String()
		}
		if isVariable(name) {
			return name + " doesn't exist here; there is " + allowed.String()
		}
		return "unknown name " + name + "; there is " + allowed.String()
	}
	msg = strings.TrimPrefix(msg, "Syntax error: ")
	switch {
	case strings.Contains(msg, "'<EOF>'"):
		return tooShort
	case strings.HasPrefix(msg, "token recognition error at: "):
		return "unexpected " + strings.TrimPrefix(msg, "token recognition error at: ")
	case strings.HasPrefix(msg, "found no matching overload for "):
		return cleanOverload(strings.TrimPrefix(msg, "found no matching overload for "))
	}
	for _, start := range []string{
		"mismatched input '", "extraneous input '", "no viable alternative at input '",
	} {
		if token, ok := quotedAfter(msg, start); ok {
			return "unexpected '" + token + "'"
		}
	}
	return limit(msg)
}

// cleanOverload turns "'_+_' applied to '(int, string)'" into "+ can't take (int, string)".
func cleanOverload(msg string) string {
	function, rest, found := strings.Cut(strings.TrimPrefix(msg, "'"), "' applied to '")
	if !found {
		return limit(msg)
	}
	if trimmed := strings.Trim(function, "_"); strings.HasPrefix(function, "_") && trimmed != "" {
		function = trimmed
	}
	return limit(function + " can't take " + strings.TrimSuffix(rest, "'"))
}

func quotedAfter(msg, start string) (string, bool) {
	_, rest, found := strings.Cut(msg, start)
	if !found {
		return "", false
	}
	name, _, found := strings.Cut(rest, "'")
	return name, found
}

// cleanEval says what an evaluation's error means. CEL puts values of the message into some of
// its texts, so that only known ones are passed on.
func cleanEval(msg string) string {
	for _, known := range []struct{ part, text string }{
		{"cost limit exceeded", "the expression takes too much work for this message"},
		{"no such overload", "an operator or function can't take values of these types"},
		{"no such key", "no such field"},
		{"index out of bounds", "no such element"},
		{"division by zero", "division by zero"},
		{"modulus by zero", "division by zero"},
		{"overflow", "the result is out of range"},
		{"optional.none() dereference", "value() of an optional that has none"},
		{"type conversion error", "a value can't be converted"},
		{"strconv.", "a value can't be converted"},
	} {
		if strings.Contains(msg, known.part) {
			return known.text
		}
	}
	for _, own := range []string{
		"the result ", "the text that replace", "this number has no exact ",
	} {
		if strings.HasPrefix(msg, own) {
			return msg
		}
	}
	return "the expression can't be evaluated for this message"
}

func limit(msg string) string {
	if len(msg) <= maxMessage {
		return msg
	}
	return strings.ToValidUTF8(msg[:maxMessage], "") + "…"
}
