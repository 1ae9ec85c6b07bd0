package queries_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// patience is how long a test waits for what has to happen.
const patience = time.Minute

// root is the repository's root, seen from this package.
var root = filepath.Join("..", "..")

// configuration has all that makes metrics: a flow with effects, a service, and a gateway.
const configuration = `
sources:
  rcs:
    key: ["body.id"]
    event: "body.event"
    to: {flow: transport}
  shop:
    key: ["body.id"]
    to: {http: "SERVICE/refuses"}
  payments:
    key: ["body.id"]
    to: {document: {database: ledger, in: payments, id: "${body.id}", set: {a: 1}}}
databases:
  ledger: {url: "postgres://nobody@127.0.0.1:1/none?connect_timeout=1"}
flows:
  transport:
    task: "body.task"
    initial: created
    final: [finished]
    events:
      start:
        from: [created]
        to: running
        set: {roadway: "R1"}
        acquire: ["roadway/${task.roadway}"]
        effects: [{name: tell, to: wms, payload: {id: "${effect.id}"}}]
      finish: {from: [running], to: finished, release: all}
resources:
  roadway: {}
destinations:
  wms: {http: {url: "SERVICE/ok"}}
gateway:
  upstream: SERVICE
  scope: "header['x-account-id']"
  routes:
    - {match: POST /ok, key: required, on_unknown: hold}
    - {match: POST /lost, key: required, on_unknown: hold}
`

// shown is what one scrape has: families by name, and the values of each label by series name.
type shown struct {
	types  map[string]dto.MetricType // by family
	labels map[string]map[string]map[string]bool
}

// family is that of a series, and whether it is one of its buckets.
func (s *shown) family(series string) (name string, bucket, ok bool) {
	if _, ok := s.types[series]; ok {
		return series, false, s.types[series] != dto.MetricType_HISTOGRAM
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		name, found := strings.CutSuffix(series, suffix)
		if found && s.types[name] == dto.MetricType_HISTOGRAM {
			return name, suffix == "_bucket", true
		}
	}
	return "", false, false
}

// serveAndScrape serves the configuration, makes everything happen that is measured, and returns
// what /metrics shows then.
func serveAndScrape(t *testing.T) *shown {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/refuses":
			w.WriteHeader(http.StatusBadRequest)
		case "/lost":
			panic(http.ErrAbortHandler) // no answer
		}
	}))
	t.Cleanup(service.Close)
	url, admin := serve(t, strings.ReplaceAll(configuration, "SERVICE", service.URL))
	for _, m := range []struct {
		path, key, body string
		status          int
	}{
		{"/in/rcs", "", `{"id":1,"event":"start","task":"A"}`, 200},
		{"/in/rcs", "", `{"id":1,"event":"start","task":"A"}`, 200},
		{"/in/rcs", "", `{"id":2,"event":"start","task":"B"}`, 200}, // the roadway is taken
		{"/in/rcs", "", `{"event":"start"}`, 400},
		{"/in/shop", "", `{"id":1}`, 200}, // becomes a dead letter
		{"/ok", "k1", `{}`, 200},
		{"/ok", "k1", `{}`, 200},
		{"/lost", "k2", `{}`, 502},
	} {
		if got := post(t, url+m.path, m.key, m.body); got != m.status {
			t.Fatalf("POST %s %s: status %d, want %d", m.path, m.body, got, m.status)
		}
	}
	for _, want := range []string{
		`once_attempts_total{result="done",source="rcs"} 1`,
		`once_callbacks{source="shop",state="dead"} 1`,
		`once_effects_total{destination="wms",result="done"} 1`,
		`once_records{state="held"} 1`,
		`once_resource_conflicts_total 1`,
		`once_database_open{database="ledger"} 0`,
	} {
		await(t, "/metrics shows "+want, func() bool {
			return strings.Contains(get(t, admin+"/metrics"), want+"\n")
		})
	}
	return read(t, get(t, admin+"/metrics"))
}

func read(t *testing.T, text string) *shown {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	s := &shown{types: map[string]dto.MetricType{},
		labels: map[string]map[string]map[string]bool{}}
	for name, f := range families {
		s.types[name], s.labels[name] = f.GetType(), map[string]map[string]bool{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				values := s.labels[name][l.GetName()]
				if values == nil {
					values = map[string]bool{}
					s.labels[name][l.GetName()] = values
				}
				values[l.GetValue()] = true
			}
		}
	}
	return s
}

var greeted = regexp.MustCompile(`(?s)POST (http://\S+?)/\S+\n.*operator +(http://\S+?)/`)

// serve builds the program, serves a configuration on free ports, and returns where senders and
// the operator come.
func serve(t *testing.T, text string) (url, admin string) {
	t.Helper()
	dir := t.TempDir()
	once := filepath.Join(dir, "once")
	build := exec.Command("go", "build", "-o", once, "./cmd/once")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	file, said := filepath.Join(dir, "once.yaml"), filepath.Join(dir, "said")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(said)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(once, "serve", "--config", file, "--listen", "127.0.0.1:0",
		"--admin", "127.0.0.1:0")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	await(t, "the server greets", func() bool {
		b, err := os.ReadFile(said)
		if err != nil {
			t.Fatal(err)
		}
		if found := greeted.FindSubmatch(b); found != nil {
			url, admin = string(found[1]), string(found[2])
			return true
		}
		select {
		case <-ended:
			t.Fatalf("the server ended:\n%s", b)
		default:
		}
		return false
	})
	return url, admin
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	limit, tick := time.After(patience), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func post(t *testing.T, url, key, body string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
		req.Header.Set("X-Account-Id", "a1")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

func get(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: status %d, %v", url, res.StatusCode, err)
	}
	return string(b)
}
