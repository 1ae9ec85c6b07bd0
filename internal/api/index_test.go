package api_test

import (
	"encoding/json"
	"net/http"
	"testing"
)

func TestTheRootListsWhatThereIs(t *testing.T) {
	a := newEmpty(t).get("/")
	var got struct {
		Version string
		Routes  []struct{ Method, Path, Summary string }
	}
	if err := json.Unmarshal(a.Body.Bytes(), &got); a.Code != http.StatusOK || err != nil {
		t.Fatalf("status %d, %v: %s", a.Code, err, a.Body)
	}
	seen := map[string]string{}
	for _, r := range got.Routes {
		seen[r.Method+" "+r.Path] = r.Summary
	}
	for _, want := range []string{"GET /", "GET /metrics", "GET /api/v1/callbacks",
		"GET /api/v1/openapi.yaml", "POST /api/v1/effects/{id}/done"} {
		if seen[want] == "" {
			t.Errorf("%s is not listed", want)
		}
	}
	if got.Version != "1.2.3" {
		t.Errorf("version %q", got.Version)
	}
}
