package cli_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncekit/once/internal/config"
)

// paidOnce is a gateway before a service that answers at once and counts its runs, and the record
// of a key that was worked.
func paidOnce(t *testing.T, key string) (p *process, id string, ran *atomic.Int64) {
	t.Helper()
	ran = &atomic.Int64{}
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		ran.Add(1)
	}))
	t.Cleanup(service.Close)
	p = proxy(t, t.TempDir(), "--to", service.URL, "--scope", "header['x-account']")
	if status, body, _ := p.pay(key); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	return p, p.recordID(key), ran
}

// recordID is the id of a key's record.
func (p *process) recordID(key string) string {
	p.t.Helper()
	var record struct{ ID string }
	line := p.told("records", "list", "--scope", "a1", "--key", key, "-o", "json")
	if err := json.Unmarshal([]byte(line), &record); err != nil {
		p.t.Fatal(err)
	}
	return record.ID
}

var colours = regexp.MustCompile("\x1b\\[[0-9]+m")

func TestOnATerminalRecordsHaveTheirWholeIDAndWhatTheyAre(t *testing.T) {
	t.Parallel()
	p, id, _ := paidOnce(t, "k-1")
	lines := strings.Split(colours.ReplaceAllString(p.onTerminal("records", "list"), ""), "\n")
	row := regexp.MustCompile(`^[0-9:]+  completed  POST /payments  a1 +1$`) // a short key: nothing
	if len(lines) < 3 || !strings.HasPrefix(lines[0], "LAST") || !row.MatchString(lines[1]) ||
		lines[2] != "  "+id {
		t.Errorf("it shows\n%s", strings.Join(lines, "\n"))
	}
	piped := strings.Split(p.told("records", "list"), "\n")
	if !strings.HasSuffix(piped[0], "  ID") || !strings.HasSuffix(piped[1], "  "+id) {
		t.Errorf("in a pipe\n%s", strings.Join(piped, "\n"))
	}
	none := p.onTerminal("records", "list", "--scope", "a")
	if !strings.Contains(none, "no record matches; a scope has to be whole") {
		t.Errorf("for a part of a scope it says %q", none)
	}
}

func TestToReleaseACompletedRecordIsAskedAbout(t *testing.T) {
	t.Parallel()
	p, id, ran := paidOnce(t, "order-4711")
	const question = "POST /payments is completed. Released, its next repeat runs a second time. " +
		"Release it? [y/N] "
	said, status := p.ask("n\n", "records", "release", id, why)
	if status != 1 || !strings.Contains(said, question) {
		t.Errorf("status %d, it says\n%s", status, said)
	}
	if said, status := p.ask("", "records", "release", id, why); status != 130 {
		t.Errorf("interrupted: status %d, it says\n%s", status, said)
	}
	if _, _, header := p.pay("order-4711"); header.Get("Idempotent-Replayed") != "true" {
		t.Error("what nobody agreed to was done")
	}
	said, status = p.ask("y\n", "records", "release", id, why)
	if status != 0 || !strings.Contains(said, "now released; the next request runs a second time") {
		t.Errorf("status %d, it says\n%s", status, said)
	}
	if p.pay("order-4711"); ran.Load() != 2 {
		t.Errorf("it ran %d times, want 2", ran.Load())
	}
}

func TestARequestThatRunsIsNotReleased(t *testing.T) {
	t.Parallel()
	began, end := make(chan struct{}, 1), make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		began <- struct{}{}
		<-end
	}))
	t.Cleanup(service.Close)
	p := proxy(t, t.TempDir(), "--to", service.URL, "--scope", "header['x-account']")
	answered := make(chan int)
	go func() {
		status, _, _ := p.pay("order-4711")
		answered <- status
	}()
	<-began
	id := p.recordID("order-4711")
	status, out, errs := run("records", "release", id, why, "--yes", "--server", p.admin)
	if status != 4 || !strings.Contains(errs, "the request runs") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
	close(end)
	if status := <-answered; status != http.StatusOK {
		t.Errorf("the request was answered %d", status)
	}
}

func TestTheHelpOfAGatewayWithoutAFileTellsItsDefaults(t *testing.T) {
	t.Parallel()
	cfg, err := config.Parse("once proxy", []byte("gateway: {upstream: 'http://h', scope: none, "+
		"routes: [{match: POST /}]}"), config.OS())
	if err != nil {
		t.Fatal(err)
	}
	_, out, _ := run("proxy", "--help")
	for _, want := range []string{cfg.Listen, cfg.Admin.Listen, "sqlite:once.db"} {
		if !strings.Contains(out, "(default "+want+")") {
			t.Errorf("the help doesn't tell %s:\n%s", want, out)
		}
	}
}
