package expr

import (
	"net/textproto"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"
)

// VarSet is a set of variables: those that exist at a place of the configuration.
type VarSet uint16

// The variables.
const (
	Body     VarSet = 1 << iota // the message's decoded body
	Item                        // one element of a message that carries several
	Header                      // the message's header fields by lower-case name
	Query                       // the parameters of the message's URL
	Source                      // the name of the source
	Task                        // the task's document: id, state and its fields
	Resource                    // kind, name and fence of a resource
	Effect                      // id and name of an effect
	Error                       // the reason for people why a message is refused
	Auth                        // what the service that was asked for a caller said: its header
	JWT                         // the verified claims of the caller's token
)

// variable is one row of the table of all variables.
type variable struct {
	set  VarSet
	name string
}

// variables lists them in the order in which messages name them.
func variables() []variable {
	return []variable{
		{Body, "body"}, {Item, "item"}, {Header, "header"}, {Query, "query"}, {Source, "source"},
		{Task, "task"}, {Resource, "resource"}, {Effect, "effect"}, {Error, "error"},
		{Auth, "auth"}, {JWT, "jwt"},
	}
}

// String lists the names, separated by commas.
func (s VarSet) String() string {
	var names []string
	for _, v := range variables() {
		if s&v.set != 0 {
			names = append(names, v.name)
		}
	}
	return strings.Join(names, ", ")
}

func isVariable(name string) bool {
	for _, v := range variables() {
		if v.name == name {
			return true
		}
	}
	return false
}

// Vars are the values of the variables for one evaluation, in the terms of internal/value. Which
// of them an expression may use was decided when it was compiled. A nil Body or Item is JSON
// null; a nil Task, Resource or Effect isn't there, and using it is an error that names it.
type Vars struct {
	Body     any
	Item     any
	Header   map[string][]string // names in lower case or as net/http has them
	Query    map[string][]string
	Source   string
	Task     map[string]any
	Resource map[string]any
	Effect   map[string]any
	Error    string
	// Auth is the header of the answer about a caller.
	Auth map[string][]string
	JWT  map[string]any
}

var _ interpreter.Activation = (*Vars)(nil)

// ResolveName implements CEL's activation.
func (v *Vars) ResolveName(name string) (any, bool) {
	switch name {
	case "body":
		return v.Body, true
	case "item":
		return v.Item, true
	case "header":
		return &fields{values: v.Header, kind: headerFields}, true
	case "query":
		return &fields{values: v.Query, kind: queryFields}, true
	case "source":
		return v.Source, true
	case "task":
		return document(v.Task, name), true
	case "resource":
		return document(v.Resource, name), true
	case "effect":
		return document(v.Effect, name), true
	case "error":
		return v.Error, true
	case "auth":
		return map[string]any{"header": &fields{values: v.Auth, kind: headerFields}}, true
	case "jwt":
		return document(v.JWT, name), true
	}
	return nil, false
}

// Parent implements CEL's activation: there is none.
func (v *Vars) Parent() interpreter.Activation { return nil }

func document(m map[string]any, name string) any {
	if m == nil {
		return types.NewErr("there is no %s", name)
	}
	return m
}

// fields are the fields of a header or a query as a map of texts. A name that came more than
// once is an error when it is read, since nobody can know which one is meant.
type fields struct {
	values map[string][]string
	kind   fieldKind
}

type fieldKind string

const (
	headerFields fieldKind = "header"
	queryFields  fieldKind = "query"
)

// get returns the field's text; fault is set if it came more than once.
func (f *fields) get(name string) (text string, found bool, fault string) {
	list, found := f.values[name]
	if f.kind == headerFields {
		if name != strings.ToLower(name) {
			return "", false, "" // names have one spelling
		}
		if canonical := textproto.CanonicalMIMEHeaderKey(name); canonical != name {
			more := f.values[canonical]
			found = found || len(more) > 0
			if len(list) == 0 {
				list = more
			} else if len(more) > 0 {
				return "", true, "came more than once"
			}
		}
	}
	switch {
	case !found || len(list) == 0:
		return "", false, ""
	case len(list) > 1:
		return "", true, "came more than once"
	}
	return list[0], true, ""
}
