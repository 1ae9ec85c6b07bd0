package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/oncekit/once/internal/wire"
	"github.com/oncekit/once/queue"
)

// schemas makes schemas of the Go types that are written and read: the json tags give the names,
// the doc tags the descriptions, the enum tags the values that a text can have. A member without
// omitempty is required; a pointer may be null, unless a null tag says no.
type schemas struct {
	named map[string]reflect.Type
	errs  []error
}

func newSchemas() *schemas { return &schemas{named: map[string]reflect.Type{}} }

// ref returns a reference to the schema of a value's struct type.
func (s *schemas) ref(v any) object { return s.refType(reflect.TypeOf(v)) }

func (s *schemas) refType(t reflect.Type) object {
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	if have, ok := s.named[name]; ok && have != t {
		s.errs = append(s.errs, fmt.Errorf("two types are called %s", name))
	}
	s.named[name] = t
	return object{item("$ref", "#/components/schemas/"+name)}
}

// components returns the schemas of all types that were referred to, and those that they need.
func (s *schemas) components() (object, error) {
	done := map[string]object{}
	for len(done) < len(s.named) {
		for name, t := range s.named {
			if done[name] == nil {
				done[name] = s.structure(t)
			}
		}
	}
	var out object
	for name, schema := range done {
		out = append(out, item(name, schema))
	}
	slices.SortFunc(out, func(a, b yaml.MapItem) int {
		return strings.Compare(a.Key.(string), b.Key.(string))
	})
	if len(s.errs) > 0 {
		return nil, fmt.Errorf("describe types: %w", s.errs[0])
	}
	return out, nil
}

func (s *schemas) structure(t reflect.Type) object {
	properties, required := object{}, []string{}
	s.members(t, false, &properties, &required)
	out := object{item("type", "object"), item("additionalProperties", false)}
	if len(required) > 0 {
		out = append(out, item("required", required))
	}
	return append(out, item("properties", properties))
}

// members collects the members of a struct, those of embedded structs in their place. The members
// of an embedded pointer may all be missing.
func (s *schemas) members(t reflect.Type, optional bool, into *object, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			ft, isPointer := f.Type, f.Type.Kind() == reflect.Pointer
			if isPointer {
				ft = ft.Elem()
			}
			s.members(ft, optional || isPointer, into, required)
			continue
		}
		name, flags, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" { // not written
			continue
		}
		if flags != "omitempty" && !optional {
			*required = append(*required, name)
		}
		*into = append(*into, item(name, s.member(f)))
	}
}

func (s *schemas) member(f reflect.StructField) object {
	t := f.Type
	if f.Tag.Get("null") == "no" { // a pointer only to tell that it is missing
		t = t.Elem()
	}
	schema := s.of(t)
	if values := enum(f.Tag.Get("enum")); values != nil {
		schema = append(schema, item("enum", values))
	}
	doc := f.Tag.Get("doc")
	if doc == "" {
		return schema
	}
	if schema[0].Key == "$ref" { // nothing may stand beside a reference
		schema = object{item("allOf", []any{schema})}
	}
	return append(schema, item("description", doc))
}

// of returns the schema of a type.
func (s *schemas) of(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[wire.Instant]():
		return object{item("type", "string"), item("format", "date-time")}
	case reflect.TypeFor[json.RawMessage]():
		return object{item("type", "object"), item("additionalProperties", true)}
	}
	switch t.Kind() {
	case reflect.Pointer:
		schema := s.of(t.Elem())
		if schema[0].Key == "$ref" {
			schema = object{item("allOf", []any{schema})}
		}
		return append(schema, item("nullable", true))
	case reflect.Slice:
		return object{item("type", "array"), item("items", s.of(t.Elem()))}
	case reflect.Map:
		return object{item("type", "object"), item("additionalProperties", s.of(t.Elem()))}
	case reflect.Struct:
		return s.refType(t)
	case reflect.String:
		return object{item("type", "string")}
	case reflect.Bool:
		return object{item("type", "boolean")}
	case reflect.Int:
		return object{item("type", "integer")}
	case reflect.Int64:
		return object{item("type", "integer"), item("format", "int64")}
	}
	s.errs = append(s.errs, fmt.Errorf("type %v has no schema", t))
	return object{}
}

// enum returns the values that an enum tag stands for; nil: none.
func enum(tag string) []string {
	switch tag {
	case "callback":
		return states(queue.Callback)
	case "effect":
		return states(queue.Effect)
	case "record":
		return recordStates()
	case "outcome":
		return list(queue.Accepted, queue.Duplicate, queue.Conflict, queue.Invalid,
			queue.Unauthorized, queue.Unavailable)
	case "cause":
		return list("", queue.CauseTransient, queue.CausePermanent, queue.CausePoison,
			queue.CauseIllegal, queue.CauseWaited, queue.CauseBusy, queue.CauseCircle)
	}
	return nil
}

func list[T ~string](values ...T) []string {
	var out []string
	for _, v := range values {
		out = append(out, string(v))
	}
	return out
}
