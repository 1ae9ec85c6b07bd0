package api_test

import (
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
)

func mustAddr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func logTo(b *strings.Builder) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

func TestTheDescriptionIsValidAndNamesEachRoute(t *testing.T) {
	e := newEmpty(t)
	if err := e.spec.Doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e.spec.Doc.Info.Version != "1.2.3" {
		t.Errorf("version %q", e.spec.Doc.Info.Version)
	}
	got := map[string]bool{}
	for path, item := range e.spec.Doc.Paths.Map() {
		for method, op := range item.Operations() {
			got[method+" "+path] = true
			if op.Summary == "" || op.OperationID == "" {
				t.Errorf("%s %s has no summary or no id", method, path)
			}
		}
	}
	want := strings.Fields(`GET/ GET/healthz GET/readyz GET/metrics GET/api/v1/openapi.yaml
		GET/api/v1/callbacks GET/api/v1/callbacks/{id} POST/api/v1/callbacks/{id}/retry
		POST/api/v1/callbacks/{id}/discard POST/api/v1/callbacks/{id}/accept
		GET/api/v1/tasks/{flow}/{id} POST/api/v1/tasks/{flow}/{id}/move GET/api/v1/resources
		POST/api/v1/resources/{kind}/{name}/release POST/api/v1/resources/{kind}/{name}/transfer
		GET/api/v1/effects GET/api/v1/effects/{id} POST/api/v1/effects/{id}/retry
		POST/api/v1/effects/{id}/discard POST/api/v1/effects/{id}/done GET/api/v1/rejected
		GET/api/v1/destinations GET/api/v1/sources GET/api/v1/nodes GET/api/v1/counts GET/api/v1/tasks
		GET/api/v1/records GET/api/v1/records/{id} POST/api/v1/records/{id}/release
		POST/api/v1/records/{id}/resolve`)
	for _, w := range want {
		if method, path, _ := strings.Cut(w, "/"); !got[method+" /"+path] {
			t.Errorf("%s is not described", w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d operations are described, want %d", len(got), len(want))
	}
}

func TestTheDescriptionSaysWhatAChangeNeeds(t *testing.T) {
	e := newEmpty(t)
	for name, want := range map[string]string{"Change": "actor reason",
		"AcceptChange": "actor reason receipt", "MoveChange": "actor reason to",
		"TransferChange": "actor reason to", "Owner": "flow task"} {
		schema := e.spec.Doc.Components.Schemas[name].Value
		if got := strings.Join(schema.Required, " "); got != want {
			t.Errorf("%s requires %q, want %q", name, got, want)
		}
	}
	if a := e.get("/api/v1/openapi.yaml"); a.Code != http.StatusOK ||
		a.Header().Get("Content-Type") != "application/yaml" {
		t.Errorf("status %d, %q", a.Code, a.Header().Get("Content-Type"))
	}
}

func TestTheDocumentationNamesEachRoute(t *testing.T) {
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range newEmpty(t).spec.Doc.Paths.Map() {
		for method := range item.Operations() {
			if want := "`" + method + " " + path + "`"; !strings.Contains(string(text), want) {
				t.Errorf("docs/api.md doesn't name %s", want)
			}
		}
	}
}
