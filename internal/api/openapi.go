package api

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml"

	"github.com/oncekit/once/internal/wire"
)

// object is a YAML map that keeps its order.
type object = yaml.MapSlice

func item(key string, value any) yaml.MapItem { return yaml.MapItem{Key: key, Value: value} }

// describe makes the OpenAPI description of the routes.
func describe(routes []route, version string) ([]byte, error) {
	s := newSchemas()
	paths := object{}
	for _, rt := range routes {
		operation := item(lower(rt.method), s.operation(&rt))
		i := slices.IndexFunc(paths, func(m yaml.MapItem) bool { return m.Key == rt.pattern })
		if i < 0 {
			paths = append(paths, item(rt.pattern, object{operation}))
			continue
		}
		paths[i].Value = append(paths[i].Value.(object), operation)
	}
	problemSchema := s.ref(wire.Problem{})
	all, err := s.components()
	if err != nil {
		return nil, err
	}
	doc := object{
		item("openapi", "3.0.3"),
		item("info", object{
			item("title", "once: the operator's API"),
			item("version", version),
			item("description", "Each change is a POST with an actor and a reason, kept with it. "+
				"Refusals are problem details (RFC 9457). A path segment is percent-encoded, a "+
				"slash in it as %2F. Times are RFC 3339 in UTC with microseconds."),
			item("license", object{item("name", "Apache-2.0")}),
		}),
		item("security", []any{object{item("token", []any{})}, object{}}),
		item("paths", paths),
		item("components", object{
			item("schemas", all),
			item("responses", problemResponses(problemSchema)),
			item("securitySchemes", object{item("token", object{
				item("type", "http"), item("scheme", "bearer"),
				item("description", "admin.token, where one is configured."),
			})}),
		}),
	}
	out, err := yaml.MarshalWithOptions(doc, yaml.Indent(2), yaml.UseLiteralStyleIfMultiline(true))
	if err != nil {
		return nil, fmt.Errorf("write OpenAPI description: %w", err)
	}
	return out, nil
}

func lower(method string) string {
	if method == http.MethodPost {
		return "post"
	}
	return "get"
}

// operation describes one route.
func (s *schemas) operation(rt *route) object {
	op := object{item("operationId", rt.id), item("summary", rt.summary)}
	if rt.doc != "" {
		op = append(op, item("description", rt.doc))
	}
	if rt.open {
		op = append(op, item("security", []any{}))
	}
	var params []any
	for _, name := range rt.pathParams() {
		params = append(params, object{
			item("name", name), item("in", "path"), item("required", true),
			item("schema", object{item("type", "string"), item("minLength", 1)}),
		})
	}
	for _, p := range rt.query {
		params = append(params, p.describe())
	}
	if params != nil {
		op = append(op, item("parameters", params))
	}
	if rt.request != nil {
		op = append(op, item("requestBody", object{
			item("required", true),
			item("content", content("application/json", s.ref(rt.request))),
		}))
	}
	return append(op, item("responses", s.responses(rt)))
}

func (p *param) describe() object {
	schema := object{item("type", "string"), item("maxLength", maxParam)}
	switch {
	case p.number:
		schema = object{item("type", "integer"), item("minimum", 1), item("maximum", maxLimit),
			item("default", defaultLimit)}
	case p.enum != nil:
		schema = object{item("type", "string"), item("enum", p.enum)}
	}
	return object{item("name", p.name), item("in", "query"), item("description", p.doc),
		item("schema", schema)}
}

func (s *schemas) responses(rt *route) object {
	var body object
	switch rt.produces {
	case "":
		body = content("application/json", s.ref(rt.response))
	case "application/yaml":
		body = content(rt.produces, object{item("type", "object")})
	default:
		body = content(rt.produces, object{item("type", "string")})
	}
	out := object{item("200", object{item("description", "As asked."), item("content", body)})}
	for _, status := range rt.problems() {
		name, _ := problemType(status)
		out = append(out, item(strconv.Itoa(status),
			object{item("$ref", "#/components/responses/"+name)}))
	}
	return out
}

// problems returns the statuses of refusals that follow from what a route is.
func (rt *route) problems() []int {
	out := append([]int{http.StatusForbidden}, rt.refuses...)
	if !rt.open {
		out = append(out, http.StatusUnauthorized)
	}
	if rt.raw == nil {
		out = append(out, http.StatusBadRequest, http.StatusServiceUnavailable,
			http.StatusInternalServerError)
	}
	if len(rt.pathParams()) > 0 {
		out = append(out, http.StatusNotFound)
	}
	if rt.request != nil {
		out = append(out, http.StatusConflict, http.StatusRequestEntityTooLarge,
			http.StatusUnsupportedMediaType)
	}
	slices.Sort(out)
	return out
}

// problemResponses describes each kind of problem once.
func problemResponses(schema object) object {
	var out object
	for _, status := range []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusInternalServerError, http.StatusServiceUnavailable,
	} {
		name, title := problemType(status)
		out = append(out, item(name, object{
			item("description", title+"."),
			item("content", content("application/problem+json", schema)),
		}))
	}
	return out
}

func content(mediaType string, schema object) object {
	return object{item(mediaType, object{item("schema", schema)})}
}
