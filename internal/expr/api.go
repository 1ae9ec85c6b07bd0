// Package expr compiles the expressions (CEL) and texts with ${…} of a configuration once, and
// evaluates them against a message.
package expr

import "errors"

var errSkeleton = errors.New("being built")

// VarSet is a set of the variables that exist at a place of the configuration.
type VarSet uint16

// The variables.
const (
	Body VarSet = 1 << iota
	Item
	Header
	Query
	Source
	Task
	Resource
	Effect
	Error
)

// Values are the fields of a header or a query by name.
type Values map[string][]string

// Vars are the values of the variables for one evaluation, in terms of internal/value. Which of
// them an expression may use was decided when it was compiled. Nil Task, Resource and Effect are
// absent, and their use is an error that names them; nil Body and Item are JSON null.
type Vars struct {
	Body     any
	Item     any
	Header   Values // names lower-case or as net/http has them; a doubled one is an error when read
	Query    Values // likewise
	Source   string
	Task     map[string]any
	Resource map[string]any
	Effect   map[string]any
	Error    string
}

// AbsentValue is the type of [Absent].
type AbsentValue struct{}

// Absent is the result of an expression whose optional has no value. Compare with ==.
var Absent any = AbsentValue{}

// CompileError is a mistake in an expression or template.
type CompileError struct {
	Path   []any  // in a tree: member names (string) and list indexes (int) down to the text
	Offset int    // of the mistake in the text, in runes from 0
	Msg    string // for people
}

func (e *CompileError) Error() string { return e.Msg }

// EvalError is an expression that has no result for this message.
type EvalError struct {
	Field   string // full path of the field in question, such as body.data.seq; may be empty
	Msg     string // for people, without the path
	Missing bool   // the field isn't there, or its parent isn't an object
}

func (e *EvalError) Error() string { return e.Field + ": " + e.Msg }

// Env compiles expressions. It is safe for concurrent use.
type Env struct{}

// New returns an environment.
func New() (*Env, error) { return nil, errSkeleton }

// Position is the rune offset of a text in the scalar that holds it; errors are shifted by it.
type Position int

// Program is a compiled expression, safe for concurrent use.
type Program struct{}

// Compile compiles a whole text as one expression. Errors are *[CompileError].
func (e *Env) Compile(text string, allowed VarSet, pos Position) (*Program, error) {
	return nil, errSkeleton
}

// Eval returns the expression's result in terms of internal/value, or [Absent]. Errors are
// *[EvalError].
func (p *Program) Eval(vars *Vars) (any, error) { return nil, errSkeleton }

// String returns the expression's text.
func (p *Program) String() string { return "" }

// References returns what the program uses, sorted: a variable's name ("body"), and for task,
// resource and effect with the field ("task.roadway"); "task" alone if it is used as a whole.
func (p *Program) References() []string { return nil }

// TemplateOptions say how a template is evaluated.
type TemplateOptions struct {
	MissingEmpty bool // a missing field gives an empty text (replies); default: it is an error
}

// Template is a text with ${…}.
type Template struct{}

// CompileTemplate compiles a text with ${…}. Errors are *[CompileError].
func (e *Env) CompileTemplate(
	text string, allowed VarSet, opts TemplateOptions,
) (*Template, error) {
	return nil, errSkeleton
}

// Eval returns the text, or, if the template is one ${…} alone, its value or [Absent].
func (t *Template) Eval(vars *Vars) (any, error) { return nil, errSkeleton }

// References is as for [Program.References].
func (t *Template) References() []string { return nil }

// Tree is a value whose texts are templates.
type Tree struct{}

// CompileTree compiles a tree of map[string]any, []any and scalars, as YAML or JSON gives it.
func (e *Env) CompileTree(v any, allowed VarSet, opts TemplateOptions) (*Tree, error) {
	return nil, errSkeleton
}

// Eval returns the value; a member whose value is absent is left out. It is [Absent] if the
// whole is.
func (t *Tree) Eval(vars *Vars) (any, error) { return nil, errSkeleton }

// References is as for [Program.References].
func (t *Tree) References() []string { return nil }
