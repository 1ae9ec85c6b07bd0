package expr

import (
	"regexp"
	"strings"

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

// maxMessage bounds a message that was made from CEL's, in bytes.
const maxMessage = 240

// compileError turns the first of CEL's issues into an error for people.
func compileError(iss *cel.Issues, text string, allowed VarSet, pos Position) *CompileError {
	first := iss.Errors()[0]
	offset := 0
	for line := range strings.Lines(text) {
		if first.Location.Line() <= 1 {
			break
		}
		first.Location = nextLine{first.Location}
		offset += len([]rune(line))
	}
	return &CompileError{
		Offset: int(pos) + min(offset+max(first.Location.Column(), 0), len([]rune(text))),
		Msg:    cleanCompile(first.Message, allowed),
	}
}

// nextLine is a location one line nearer to the first.
type nextLine struct {
	location interface {
		Line() int
		Column() int
	}
}

func (n nextLine) Line() int   { return n.location.Line() - 1 }
func (n nextLine) Column() int { return n.location.Column() }

// cleanCompile says in our words what CEL and its parser say in theirs.
func cleanCompile(msg string, allowed VarSet) string {
	if name, ok := quotedAfter(msg, "undeclared reference to '"); ok {
		if isVariable(name) {
			return name + " doesn't exist here; there is " + allowed.String()
		}
		return "unknown name " + name + "; there is " + allowed.String()
	}
	msg = strings.TrimPrefix(msg, "Syntax error: ")
	switch {
	case strings.Contains(msg, "'<EOF>'"):
		return "the expression ends too early"
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

// cleanEval says what an evaluation's error means. Values of the message that CEL put into its
// text are cut off.
func cleanEval(msg string) string {
	switch {
	case strings.Contains(msg, "cost limit exceeded"):
		return "the expression takes too much work for this message"
	case strings.Contains(msg, "memory limit exceeded"):
		return "the expression takes too much memory for this message"
	case strings.HasPrefix(msg, "no such overload"):
		return "an operator or function can't take values of these types"
	case strings.HasPrefix(msg, "no such key"):
		return "no such field"
	case strings.HasPrefix(msg, "type conversion error"), strings.Contains(msg, "strconv."):
		return "a value can't be converted"
	}
	return limit(regexp.MustCompile(`[[:cntrl:]]+`).ReplaceAllString(msg, " "))
}

func limit(msg string) string {
	if len(msg) <= maxMessage {
		return msg
	}
	return strings.ToValidUTF8(msg[:maxMessage], "") + "…"
}
