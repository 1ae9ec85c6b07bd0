package cli_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/oncekit/once/internal/testserver"
)

// proxied finds the addresses in what `once proxy` says at its start.
var proxied = regexp.MustCompile(`(?s)gateway +(http://\S+) -> .*operator +(http://\S+?)/`)

// proxy starts `once proxy` on free ports, and waits until it serves.
func proxy(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := start(t, program(t, "./cmd/once"), dir, append([]string{"proxy", "--listen", "127.0.0.1:0",
		"--admin", "127.0.0.1:0", "--store", "sqlite:" + filepath.Join(dir, "records.db")},
		args...)...)
	testserver.Until(t, patience, "the gateway greets", func() bool {
		found := proxied.FindStringSubmatch(p.out.String())
		if found != nil {
			p.url, p.admin = found[1], found[2]
		}
		select {
		case <-p.ended:
			t.Fatalf("it ended with %d", p.status())
		default:
		}
		return found != nil
	})
	return p
}

// pay sends a request with a key; status 0: no answer.
func (p *process) pay(key string) (status int, body string, header http.Header) {
	req, err := http.NewRequest("POST", p.url+"/payments", strings.NewReader("{}"))
	if err != nil {
		p.t.Error(err)
		return 0, "", nil
	}
	req.Host = "api.example" // the port is another one after a restart
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("X-Account", "a1")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", nil
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b), res.Header
}

func TestAPaymentThatASecondSignalCutOffIsHeldAndDecidedOnTheCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var ran atomic.Int64
	began := make(chan struct{}, 1)
	origin := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if ran.Add(1) == 1 {
			began <- struct{}{}
			<-r.Context().Done()
		}
	}))
	t.Cleanup(origin.Close)
	args := []string{"--to", origin.URL, "--scope", "header['x-account']", "--key", "required",
		"--on-unknown", "hold"}
	p := proxy(t, dir, args...)
	said := p.out.String()
	if !strings.Contains(said, "  POST /  (key required, on_unknown hold)") ||
		!strings.Contains(said, "  PATCH /  (key required, on_unknown hold)") {
		t.Errorf("the greeting doesn't tell what is guarded: %s", said)
	}
	if said := p.err.String(); !strings.Contains(said, "nothing is remembered of earlier keys") ||
		strings.Contains(said, "create: false") || strings.Contains(said, "callbacks") {
		t.Errorf("the new store is told as %s", said)
	}
	go p.pay("order-4711")
	<-began
	p.signal(syscall.SIGTERM)
	testserver.Until(t, patience, "it drains", func() bool {
		return strings.Contains(p.err.String(), "draining")
	})
	p.signal(syscall.SIGTERM)
	if status := p.status(); status != 130 {
		t.Errorf("status %d, want 130", status)
	}

	p = proxy(t, dir, args...)
	if status, body, _ := p.pay("order-4711"); status != 409 || !strings.Contains(body, ":held") {
		t.Errorf("%d %s", status, body)
	}
	ask := func(want int, args ...string) string {
		t.Helper()
		status, out, errs := run(append([]string{"records", "--server", p.admin}, args...)...)
		if status != want {
			t.Errorf("records %v: status %d, want %d: %s%s", args, status, want, out, errs)
		}
		return out + errs
	}
	line := ask(0, "list", "--scope", "a1", "--key", "order-4711", "--output", "json")
	var record struct{ ID, State, Request string }
	if err := json.Unmarshal([]byte(line), &record); err != nil || record.State != "held" ||
		record.Request != "POST /payments" {
		t.Fatalf("%v: %s", err, line)
	}
	if out := ask(0, "list", "--state", "held"); !strings.Contains(out, record.ID) ||
		strings.Contains(out, "4711") {
		t.Errorf("list: %s", out)
	}
	if status, out, errs := run("status", "--server", p.admin); status != 0 ||
		!strings.Contains(out, "RECORDS") ||
		!strings.Contains(out, "1 held record needs a person: once records list --state held") {
		t.Errorf("status: %d %s%s", status, out, errs)
	}
	if out := ask(2, "list", "--key", "order-4711"); !strings.Contains(out, "--scope is missing") {
		t.Errorf("without a scope: %s", out)
	}
	if out := ask(2, "resolve", record.ID, "--status", "abc"); !strings.Contains(out,
		"--status abc: want a whole number") || strings.Contains(out, "strconv") {
		t.Errorf("status abc: %s", out)
	}
	if out := ask(0, "show", record.ID); !strings.Contains(out, "nobody knows") {
		t.Errorf("show: %s", out)
	}
	ask(2, "resolve", record.ID, "--reason", "r")
	ask(2, "resolve", record.ID, "--run-again")
	ask(4, "resolve", record.ID, "--run-again", "--fence", "7", "--reason", "r")
	body := write(t, dir, "answer.json", `{"id":7}`)
	ask(0, "resolve", record.ID, "--status", "201", "--header", "Content-Type: application/json",
		"--body", "@"+filepath.Join(dir, body), "--reason", "charged, no. 7")
	status, got, header := p.pay("order-4711")
	if status != 201 || got != `{"id":7}` || header.Get("Idempotent-Replayed") != "true" ||
		ran.Load() != 1 {
		t.Errorf("%d %s after %d runs", status, got, ran.Load())
	}
	if out := ask(0, "show", record.ID); !strings.Contains(out, `{"id":7}`) {
		t.Errorf("show: %s", out)
	}
	if out := ask(2, "release", record.ID, "--reason", "again"); !strings.Contains(out,
		"released, it runs a second time") {
		t.Errorf("release: %s", out)
	}
	ask(0, "release", record.ID, "--reason", "again", "--yes")
	if status, _, _ := p.pay("order-4711"); status != 200 || ran.Load() != 2 {
		t.Errorf("%d after %d runs", status, ran.Load())
	}
	ask(4, "resolve", record.ID, "--run-again", "--reason", "r")
	ask(3, "show", strings.Repeat("0", 64))
	if strings.Contains(p.err.String(), "4711") {
		t.Error("the log has the key")
	}
}

func TestSeveralScopesOnTheCommandLineAreThePartsOfOne(t *testing.T) {
	t.Parallel()
	var ran atomic.Int64
	origin := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		ran.Add(1)
	}))
	t.Cleanup(origin.Close)
	p := proxy(t, t.TempDir(), "--to", origin.URL, "--scope", "header['x-account']",
		"--scope", "header['x-shop']")
	for _, c := range []struct {
		account, shop string
		want          int64
	}{{"a1", "s1", 1}, {"a1", "s1", 1}, {"a1", "s2", 2}, {"a2", "s1", 3}} {
		req, err := http.NewRequest("POST", p.url+"/payments", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Idempotency-Key": {"k"}, "X-Account": {c.account},
			"X-Shop": {c.shop}}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if got := ran.Load(); got != c.want {
			t.Errorf("account %s, shop %s: it ran %d times, want %d", c.account, c.shop, got,
				c.want)
		}
	}
}

func TestAGatewayInOneLineSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want string
		args []string
	}{
		{"--to is missing", []string{"--scope", "none"}},
		{"--scope is missing", []string{"--to", "http://127.0.0.1:1"}},
		{"--scope none stands alone", []string{"--to", "http://h", "--scope", "none", "--scope",
			"header['x']"}},
		{"--on-unknown is missing", []string{"--to", "http://127.0.0.1:1", "--scope", "none",
			"--key", "required"}},
		{"want optional or required", []string{"--to", "http://h", "--scope", "none",
			"--key", "no"}},
		{"want retry or hold", []string{"--to", "http://h", "--scope", "none",
			"--on-unknown", "x"}},
		{"--to 127.0.0.1:1 is no URL: is it http://127.0.0.1:1?", []string{"--to", "127.0.0.1:1",
			"--scope", "none"}},
		{"stands in quotes: header['x-account-id']", []string{"--to", "http://h", "--scope",
			"header[x-account-id]"}},
		{"doesn't exist here", []string{"--to", "http://h", "--scope", "body.account"}},
		{"scope: ", []string{"--to", "http://h", "--scope", "header['x"}},
	} {
		status, out, errs := run(append([]string{"proxy"}, c.args...)...)
		if status != 2 || !strings.Contains(errs, c.want) {
			t.Errorf("%v: status %d, %s%s, want %q", c.args, status, out, errs, c.want)
		}
	}
}
