package apitest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/api/apitest"
)

func TestAnAnswerThatIsNotAsDescribedIsFound(t *testing.T) {
	const page, problem = "application/json", "application/problem+json"
	const refusal = `{"type":"/problems/not-found","title":"Not Found","status":404,` +
		`"detail":"no such path"}`
	var status int
	var kind, body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // the client tells of a loss
	}))
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &apitest.Transport{Host: u.Host}}
	for name, c := range map[string]struct {
		path   string
		status int
		kind   string
		body   string
		wrong  string // part of what is said; empty: nothing is wrong
	}{
		"a page":           {"/api/v1/callbacks", 200, page, `{"items":[],"next":""}`, ""},
		"a refusal":        {"/api/v1/callbacks", 400, problem, refusal, ""},
		"an unknown path":  {"/nowhere", 404, problem, refusal, ""},
		"a missing member": {"/api/v1/callbacks", 200, page, `{"next":""}`, `"items" is missing`},
		"another type":     {"/api/v1/callbacks", 200, page, `{"items":"none","next":""}`, "must be an array"},
		"another status":   {"/api/v1/callbacks", 201, page, `{"items":[],"next":""}`, "not supported"},
		"no JSON":          {"/api/v1/callbacks", 200, "text/plain", "none", "not as described"},
		"a bare 404":       {"/nowhere", 404, "text/plain", "404", "not described"},
	} {
		status, kind, body = c.status, c.kind, c.body
		res, err := client.Get(server.URL + c.path)
		switch {
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: the error is %v, want %q", name, err, c.wrong)
		case c.wrong == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.wrong == "":
			if b, err := io.ReadAll(res.Body); string(b) != c.body || err != nil {
				t.Errorf("%s: the body became %s, %v", name, b, err)
			}
		}
		if err == nil {
			res.Body.Close()
		}
	}
	elsewhere := http.Client{Transport: &apitest.Transport{Host: "127.0.0.1:1"}}
	res, err := elsewhere.Get(server.URL + "/nowhere")
	if err != nil {
		t.Fatalf("what another host answers is looked at: %v", err)
	}
	res.Body.Close()
}
