package cli_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/testserver"
)

// The guide's commands run in its order: secrets, the file, the server, and what is sent to it.
func TestTheWebhookGuidesCommandsRun(t *testing.T) {
	t.Parallel()
	const page = "docs/webhooks.md"
	shell, files := blocks(t, page, "sh"), blocks(t, page, "yaml")
	if len(shell) != 5 || len(files) != 4 {
		t.Fatalf("the guide has %d shell and %d yaml blocks; this test knows 5 and 4", len(shell),
			len(files))
	}
	dir, sink := t.TempDir(), testserver.NewHTTPSink(t)
	bash(t, dir, shell[0])
	write(t, dir, "once.yaml", strings.ReplaceAll(files[0], "http://127.0.0.1:3000", sink.URL()))
	commands, last, found := strings.Cut(shell[1], "once serve ")
	if !found {
		t.Fatal("the second block serves nothing")
	}
	if told := bash(t, dir, commands); !strings.Contains(told, "once.yaml is right") ||
		!strings.Contains(told, `key: ["body.id"]`) || strings.Contains(told, "whsec_") {
		t.Errorf("the commands tell\n%s", told)
	}
	p := serve(t, dir, strings.Fields(last)...)

	var listed struct {
		Items []struct {
			Event      string
			Duplicates int
		}
	}
	told := bash(t, dir, p.on(shell[2]))
	answers, list, _ := strings.Cut(told, "{")
	if err := json.Unmarshal([]byte("{"+list), &listed); err != nil {
		t.Fatalf("%v: %s", err, told)
	}
	if answers != "200\n200\n" || len(listed.Items) != 1 ||
		listed.Items[0].Event != "invoice.paid" {
		t.Errorf("Stripe was answered\n%s", told)
	}
	if told = bash(t, dir, p.on(shell[3])); !strings.HasPrefix(told,
		`{"zen":"Keep it logically awesome."}200`) || !strings.Contains(told, "202\n") ||
		strings.Count(told, `"push"`) != 1 {
		t.Errorf("GitHub was answered\n%s", told)
	}
	p.awaitDone(2)
	paths := map[string]int{}
	for _, r := range sink.Requests() {
		paths[r.URI]++
	}
	if paths["/stripe"] != 1 || paths["/github"] != 1 || len(paths) != 2 {
		t.Errorf("the service was called %v", paths)
	}
	if told = bash(t, dir, p.on(shell[4])); !strings.Contains(told, "401\n") ||
		!strings.Contains(told, "no Stripe-Signature header") {
		t.Errorf("a stranger was answered\n%s", told)
	}
	if status := p.get("/healthz", nil); status != http.StatusOK {
		t.Errorf("healthz says %d", status)
	}
}

func TestTheWebhookGuidesFilesAreRight(t *testing.T) {
	t.Parallel()
	for i, yaml := range blocks(t, "docs/webhooks.md", "yaml") {
		dir := t.TempDir()
		for _, name := range []string{"stripe", "github", "twilio", "billing"} {
			write(t, dir, name+".secret", "whsec_0123456789abcdef0123456789abcdef")
		}
		file := filepath.Join(dir, write(t, dir, "once.yaml", yaml))
		if status, _, errs := run("config", "check", file); status != 0 {
			t.Errorf("file %d: %s", i, errs)
		}
	}
}
