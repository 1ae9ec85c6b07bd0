package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/oncekit/once/internal/testserver"
)

// tail starts a tail of a server and waits until it has shown n lines.
func (p *process) tail(n int, args ...string) *process {
	p.t.Helper()
	c := start(p.t, program(p.t, "./cmd/once"), p.t.TempDir(), append(args, "--interval", "100ms",
		"--server", p.admin)...)
	c.lines(n)
	return c
}

// lines waits until a program has written n lines, and returns them.
func (p *process) lines(n int) (list []string) {
	p.t.Helper()
	testserver.Until(p.t, patience, fmt.Sprintf("%d lines are shown", n), func() bool {
		list = strings.SplitAfter(p.out.String(), "\n")
		list = list[:len(list)-1] // after the last line end
		return len(list) >= n
	})
	return list
}

func begin(id string) string {
	return `{"reqCode":"` + id + `","taskCode":"` + id + `","callbackMethod":"startFE"}`
}

func TestATailGoesOnOverARestartOfTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := serve(t, dir)
	for i := range 15 {
		p.mustPost("rcs", begin(fmt.Sprint("old-", i)))
	}
	p.awaitDone(15)
	c := p.tail(5, "callbacks", "tail", "--lines", "4")
	if got := plain(strings.Join(c.lines(5), "")); got != "RECEIVED ID SOURCE EVENT TASK KEY "+
		"STATE TRIES DUPL CONFL ERROR\n"+`TIME ID rcs startFE old-11 old-11 · old-11 · startFE done 1
TIME ID rcs startFE old-12 old-12 · old-12 · startFE done 1
TIME ID rcs startFE old-13 old-13 · old-13 · startFE done 1
TIME ID rcs startFE old-14 old-14 · old-14 · startFE done 1
` {
		t.Fatalf("it begins with\n%s", got)
	}
	p.mustPost("rcs", begin("one"))
	c.lines(6)
	p.kill()
	testserver.Until(t, patience, "it waits", func() bool {
		return strings.Contains(c.err.String(), "waiting for it")
	})
	again := serve(t, dir, "--admin", strings.TrimPrefix(p.admin, "http://"))
	again.mustPost("rcs", begin("two"))
	testserver.Until(t, patience, "the second is shown", func() bool {
		return strings.Contains(c.out.String(), " two ")
	})
	c.signal(syscall.SIGINT)
	if status := c.status(); status != 0 {
		t.Errorf("status %d, want 0", status)
	}
	seen := map[string]int{}
	for _, line := range c.lines(7)[1:] {
		f := strings.Fields(line)
		seen[f[1]+line[strings.Index(line, "startFE  "):]]++
	}
	for line, n := range seen {
		if n != 1 {
			t.Errorf("shown %d times: %s", n, line)
		}
	}
	told := c.err.String()
	if strings.Count(told, "waiting for it\n") != 1 || strings.Count(told, "answers again\n") != 1 {
		t.Errorf("it tells\n%s", told)
	}
	if strings.Contains(c.out.String(), "old-10") {
		t.Errorf("it shows what was there before:\n%s", c.out)
	}
}

func TestATailOfAStateShowsWhatComesIntoItLate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	asked, late := make(chan struct{}), make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "slow") {
			close(asked)
			<-late
		}
		w.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(service.Close)
	letGo := sync.OnceFunc(func() { close(late) })
	t.Cleanup(letGo)
	write(t, dir, "once.yaml", `
sources:
  s: {key: ["body.id"], to: {http: "`+service.URL+`", timeout: 10m}}
`)
	p := serve(t, dir, "--config", "once.yaml")
	p.mustPost("s", `{"id":"dies-first"}`)
	p.awaitDead(1)
	// The next to come dies last.
	p.mustPost("s", `{"id":"slow"}`)
	<-asked
	p.mustPost("s", `{"id":"fast"}`)
	p.awaitDead(2)
	c := p.tail(2, "callbacks", "tail", "--state", "dead", "-o", "json", "--lines", "1000")
	letGo()
	var got []string
	for _, line := range c.lines(3) {
		var one struct {
			Key   []string
			State string
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil || one.State != "dead" {
			t.Fatalf("%v: %s", err, line)
		}
		got = append(got, one.Key...)
	}
	if fmt.Sprint(got) != "[dies-first fast slow]" {
		t.Errorf("shown %v", got)
	}
}

func TestATailShowsHowAnEffectStands(t *testing.T) {
	t.Parallel()
	dir, sink := t.TempDir(), testserver.NewHTTPSink(t)
	b, err := os.ReadFile(filepath.Join(root, "examples", "robots.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "once.yaml", strings.NewReplacer(`{mqtt: {url: "mqtt://127.0.0.1:1883", qos: 1}`,
		`{log: {}`, "http://127.0.0.1:9000", sink.URL(), "base: 500ms, cap: 5m", "base: 1s, cap: 1s").
		Replace(string(b)))
	p := serve(t, dir, "--config", "once.yaml")
	p.mustPost("rcs", begin("T"))
	sink.Script(testserver.Answer{Status: http.StatusServiceUnavailable})
	c := p.tail(0, "effects", "tail", "--destination", "wms")
	p.mustPost("rcs", `{"reqCode":"2","taskCode":"T","callbackMethod":"finishFE"}`)
	testserver.Until(t, patience, "it is done", func() bool {
		return strings.Contains(c.out.String(), "  done  ")
	})
	if n := strings.Count(c.out.String(), "tell-wms"); n < 2 ||
		!strings.Contains(c.out.String(), "503 Service Unavailable") {
		t.Errorf("it is shown %d times:\n%s", n, c.out)
	}
}

func TestTailsThatCannotBegin(t *testing.T) {
	t.Parallel()
	for args, status := range map[string]int{
		"callbacks tail --server http://127.0.0.1:1":   5,
		"callbacks tail --lines 1001":                  2,
		"callbacks tail --interval 1ms":                2,
		"callbacks tail --interval soon":               2,
		"callbacks tail now":                           2,
		"callbacks list --limit 0":                     2,
		"callbacks list --all --limit 3":               2,
		"tasks tail":                                   2,
		"callbacks list --colour red":                  2,
		"status --server http://127.0.0.1:1 -o json":   5,
		"rejected show 1 --server http://127.0.0.1:1":  5,
		"resources release R7 --reason x":              2,
		"resources release /R7 --reason x":             2,
		"resources transfer roadway/R7 --reason x":     2,
		"resources transfer a/b --to R --reason x":     2,
		"callbacks retry x --yes --state":              2,
		"callbacks show":                               2,
		"callbacks list --state dead --server http://": 2,
	} {
		got, out, errs := run(strings.Fields(args)...)
		if got != status || errs == "" || out != "" {
			t.Errorf("once %s: status %d, want %d: %s%s", args, got, status, out, errs)
		}
	}
}
