package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/oncekit/once/queue"
)

// route is one row of the table: what is registered, checked and described.
type route struct {
	method, pattern string // a segment {name} of the pattern is a parameter
	id, summary     string
	doc             string // more than fits into the summary
	query           []param
	request         any // value of the type of the body; nil: none
	response        any // value of the type of the answer; nil with raw
	handle          func(*call) (any, error)

	// raw answers by itself with the content type produces.
	raw      http.HandlerFunc
	produces string
	// open asks for no token.
	open bool
	// refuses are statuses besides those that follow from the rest of the row.
	refuses []int
}

// call is one request of the API.
type call struct {
	ctx   context.Context
	w     http.ResponseWriter
	r     *http.Request
	route *route
	path  map[string]string
	query map[string]string
	by    queue.Action // set by change
	// request is what a record's request was, for the log; empty: it is about no record.
	request string
}

// segments splits a path that is still percent-encoded, so that %2F stays within its segment.
func segments(path string) []string { return strings.Split(strings.TrimPrefix(path, "/"), "/") }

// find returns the route of a request and its path parameters, or a problem: 404, or 405 with the
// methods that the path has.
func find(routes []route, r *http.Request) (*route, map[string]string, error) {
	got := segments(r.URL.EscapedPath())
	var allow []string
	for i := range routes {
		rt := &routes[i]
		path, ok := rt.match(got)
		switch {
		case !ok:
		case r.Method == rt.method, r.Method == http.MethodHead && rt.method == http.MethodGet:
			return rt, path, nil
		default:
			allow = append(allow, rt.method)
			if rt.method == http.MethodGet {
				allow = append(allow, http.MethodHead)
			}
		}
	}
	if allow == nil {
		return nil, nil, problemf(http.StatusNotFound, "there is nothing under this path")
	}
	slices.Sort(allow)
	p := problemf(http.StatusMethodNotAllowed, "method is %s, want %s", r.Method,
		strings.Join(allow, " or "))
	p.header = http.Header{"Allow": {strings.Join(allow, ", ")}}
	return nil, nil, p
}

// match returns the parameters, each percent-decoded by itself. A parameter is never empty.
func (rt *route) match(got []string) (map[string]string, bool) {
	want := segments(rt.pattern)
	if len(want) != len(got) {
		return nil, false
	}
	path := map[string]string{}
	for i, w := range want {
		g, err := url.PathUnescape(got[i])
		name, isParam := paramName(w)
		switch {
		case err != nil, !isParam && g != w, isParam && g == "":
			return nil, false
		case isParam:
			path[name] = g
		}
	}
	return path, true
}

// paramName returns the name in a segment {name}.
func paramName(segment string) (string, bool) {
	name, ok := strings.CutPrefix(segment, "{")
	return strings.TrimSuffix(name, "}"), ok
}

// pathParams returns the names of the path parameters, in order.
func (rt *route) pathParams() []string {
	var names []string
	for _, s := range segments(rt.pattern) {
		if name, ok := paramName(s); ok {
			names = append(names, name)
		}
	}
	return names
}
