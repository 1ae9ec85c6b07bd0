// Package apitest holds answers of the operator's API to the description that the API gives of
// itself, in tests of every level: the handler alone, the server, the process.
package apitest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// Path is where the API describes itself.
const Path = "/api/v1/openapi.yaml"

// Spec is a description. It is safe for concurrent use.
type Spec struct {
	// Doc is the description as it was read. It is not to be changed.
	Doc *openapi3.T
}

// Load reads a description, the body of an answer to GET [Path].
func Load(document []byte) (*Spec, error) {
	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		return nil, fmt.Errorf("load OpenAPI description: %w", err)
	}
	return &Spec{Doc: doc}, nil
}

// Check returns why an answer to a request is not what is described, with the answer; nil if it is.
// What is outside of the description (the 404 and 405 of the router) has to be a problem all the
// same. Answers to HEAD are not looked at: they have no body.
func (s *Spec) Check(r *http.Request, status int, header http.Header, body []byte) error {
	if r.Method == http.MethodHead {
		return nil
	}
	pattern, params := s.pattern(r.URL.EscapedPath())
	item := s.Doc.Paths.Value(pattern)
	if item == nil || item.GetOperation(r.Method) == nil {
		if got := header.Get("Content-Type"); got != "application/problem+json" {
			return fmt.Errorf("%s %s: content type %q of what is not described, status %d: %s",
				r.Method, r.URL, got, status, body)
		}
		return nil
	}
	err := openapi3filter.ValidateResponse(context.Background(),
		&openapi3filter.ResponseValidationInput{
			RequestValidationInput: &openapi3filter.RequestValidationInput{
				Request: r, PathParams: params,
				Route: &routers.Route{Spec: s.Doc, Path: pattern, PathItem: item, Method: r.Method,
					Operation: item.GetOperation(r.Method)},
			},
			Status: status, Header: header, Body: io.NopCloser(bytes.NewReader(body)),
			Options: &openapi3filter.Options{IncludeResponseStatus: true},
		})
	if err != nil {
		return fmt.Errorf("%s %s, status %d, is not as described: %w\n%s", r.Method, r.URL, status,
			err, body)
	}
	return nil
}

// pattern finds the path of the description that a request belongs to, and what stands in its
// places.
func (s *Spec) pattern(path string) (string, map[string]string) {
	got := strings.Split(path, "/")
	for pattern := range s.Doc.Paths.Map() {
		want, params := strings.Split(pattern, "/"), map[string]string{}
		ok := len(want) == len(got)
		for i := 0; ok && i < len(want); i++ {
			if strings.HasPrefix(want[i], "{") {
				params[strings.Trim(want[i], "{}")], _ = url.PathUnescape(got[i])
				continue
			}
			ok = want[i] == got[i]
		}
		if ok {
			return pattern, params
		}
	}
	return "", nil
}
