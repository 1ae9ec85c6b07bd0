package cli_test

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/cli"
)

// scenariosRun runs the command against a proxy that does nothing about keys.
func scenariosRun(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	origin := l.Addr().String() // free again for the command
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(httputil.NewSingleHostReverseProxy(&url.URL{
		Scheme: "http", Host: origin,
	}))
	defer proxy.Close()
	args = append([]string{"scenarios", "run", "--origin", origin, "--target", proxy.URL}, args...)
	return quiet(args...)
}

func quiet(args ...string) (status int, out, errs string) {
	var o, e bytes.Buffer
	status = cli.Run(args, cli.IO{In: strings.NewReader(""), Out: &o, Err: &e}, nil)
	return status, o.String(), e.String()
}

func TestScenariosThatPassAndFailAreToldApart(t *testing.T) {
	t.Parallel()
	status, out, errs := scenariosRun(t, "--only", "no-key-is-not-guarded")
	if status != 0 || !strings.Contains(out, "1 scenarios: 1 passed, 0 failed") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	status, out, errs = scenariosRun(t, "--only", "no-key-is-not-guarded,changed-content")
	if status != 1 || !strings.Contains(out, "step 2: status: got 201, want 422") || errs != "" {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	status, out, _ = scenariosRun(t, "--only", "changed-content", "--json")
	var result struct {
		ID       string
		Passed   bool
		Problems []string
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil || status != 1 || result.Passed ||
		result.ID != "changed-content" || len(result.Problems) == 0 {
		t.Errorf("status %d, %+v, %v", status, result, err)
	}
}

func TestWrongCommandLinesOfScenariosAreRefused(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--target is missing":            {},
		"expected http://HOST:PORT":      {"--target", "127.0.0.1:80"},
		`there is no scenario "no-such"`: {"--target", "http://127.0.0.1:1", "--only", "no-such"},
		"are to be positive":             {"--target", "http://127.0.0.1:1", "--parallel", "0"},
	} {
		status, _, errs := quiet(append([]string{"scenarios", "run"}, args...)...)
		if status != 2 || !strings.Contains(errs, want) {
			t.Errorf("%q: status %d, %s", args, status, errs)
		}
	}
	status, _, errs := quiet("scenarios", "run", "--target", "http://127.0.0.1:1", "--origin",
		"127.0.0.1:0")
	if status != 1 || !strings.Contains(errs, "connect to the target") {
		t.Errorf("a target that is not there: status %d, %s", status, errs)
	}
}

func TestTheSettingsOfScenariosAreAFileThatServes(t *testing.T) {
	t.Parallel()
	status, out, errs := quiet("scenarios", "settings")
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if status != 0 {
		t.Fatalf("status %d, %s", status, errs)
	}
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := quiet("config", "check", file); status != 0 {
		t.Errorf("status %d, %s", status, errs)
	}
	if status, out, _ := quiet("scenarios", "list"); status != 0 ||
		!strings.Contains(out, "race-of-twenty ") {
		t.Errorf("status %d\n%s", status, out)
	}
	status, out, _ = quiet("scenarios", "list", "--json")
	line, _, _ := strings.Cut(out, "\n")
	var one struct{ ID, Title, Why string }
	if err := json.Unmarshal([]byte(line), &one); err != nil || status != 0 || one.ID == "" ||
		one.Title == "" || one.Why == "" {
		t.Errorf("status %d, %v: %s", status, err, line)
	}
}
