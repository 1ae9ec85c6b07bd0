package cli_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/oncekit/once/internal/metrics"
	"github.com/oncekit/once/internal/testserver"
)

// blocks are the code blocks of a page in one language.
func blocks(t *testing.T, page, language string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	fence := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$")
	for _, m := range fence.FindAllStringSubmatch(string(b), -1) {
		list = append(list, m[1])
	}
	if len(list) == 0 {
		t.Fatalf("%s has no block of %s", page, language)
	}
	return list
}

// strict makes a script end at its first failure; an answer of 400 or more is one.
const strict = "set -eo pipefail\ncurl() { command curl --fail-with-body \"$@\"; }\n"

// bash runs a script in a folder, with the built program on its path, and returns its output.
func bash(t *testing.T, dir, script string) string {
	t.Helper()
	out, err := tryBash(t, dir, script)
	if err != nil {
		t.Fatalf("%v\n%s\nof the script\n%s", err, out, script)
	}
	return out
}

// tryBash is bash for a script that may fail.
func tryBash(t *testing.T, dir, script string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", strict+script)
	cmd.Dir = dir
	// What a script leaves in the background ends with it, however it ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = append(os.Environ(),
		"PATH="+filepath.Dir(program(t, "./cmd/once"))+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// on puts the addresses of a running server in the place of the documented ones.
func (p *process) on(script string) string {
	return strings.NewReplacer("http://127.0.0.1:8080", p.url, "http://127.0.0.1:8081",
		p.admin).Replace(script)
}

func TestTheGreetingsCommandsRunAsTheyArePrinted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := serve(t, dir)
	testserver.Until(t, patience, "the whole greeting is written", func() bool {
		return strings.Contains(p.out.String(), "Effects, as they would go out:\n")
	})
	out := p.out.String()
	for _, want := range []string{"once serves the built-in robot example\n",
		"/agv/agvCallbackService/agvCallback\n", "once.db  (new and empty)\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("the greeting lacks %q", want)
		}
	}
	if !strings.Contains(p.err.String(), "NEW, EMPTY store") {
		t.Errorf("a new store is not announced: %s", p.err)
	}
	_, commands, found := strings.Cut(out, "Try it from another terminal.")
	if !found {
		t.Fatal("the greeting has nothing to try")
	}
	var script strings.Builder
	for _, line := range strings.Split(commands, "\n") {
		if strings.HasPrefix(line, "  ") {
			script.WriteString(line + "\n")
		}
	}
	told := bash(t, t.TempDir(), script.String())
	if n := strings.Count(told, `"message":"Success"`); n != 6 {
		t.Errorf("%d callbacks were accepted, want 6:\n%s", n, told)
	}
	if !strings.Contains(told, `"state": "unloaded"`) {
		t.Errorf("the task is not shown as unloaded:\n%s", told)
	}
	testserver.Until(t, patience, "the effects are printed", func() bool {
		return strings.Contains(p.out.String(), "tell-wms")
	})
	if n := strings.Count(p.out.String(), "plant → roadway/R7/unlock"); n != 1 {
		t.Errorf("the roadway was unlocked %d times, want once", n)
	}
	p.signal(syscall.SIGTERM)
	p.status()
	again := serve(t, dir)
	if strings.Contains(again.out.String(), "new and empty") ||
		strings.Contains(again.err.String(), "NEW") {
		t.Errorf("an old store is announced as new: %s%s", again.out, again.err)
	}
}

func TestTheReadmesCommandsRun(t *testing.T) {
	t.Parallel()
	shell := blocks(t, "README.md", "sh")
	if len(shell) != 3 {
		t.Fatalf("the README has %d shell blocks; this test knows 3", len(shell))
	}
	for _, want := range []string{"go run ./cmd/once serve", "make test"} {
		if !strings.Contains(shell[0], want) {
			t.Errorf("the first block lacks %q", want)
		}
	}
	p := serve(t, t.TempDir())
	told := bash(t, t.TempDir(), p.on(shell[1]))
	line := regexp.MustCompile(`(?m)^[0-9:]+ (plant → .*)$`).FindStringSubmatch(
		blocks(t, "README.md", "text")[0])
	if line == nil {
		t.Fatal("the README shows no effect")
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(line[1]), "5o0j…", "[0-9a-v]+")
	shows := regexp.MustCompile("(?m)^[0-9:]+ " + pattern + "$")
	testserver.Until(t, patience, "the effect is printed as the README shows it", func() bool {
		return len(shows.FindAllString(p.out.String(), -1)) == 1
	})
	if n := strings.Count(told, `"message":"Success"`); n != 6 ||
		!strings.Contains(told, `"state": "unloaded"`) {
		t.Errorf("%d callbacks were accepted, want 6, and the task unloaded:\n%s", n, told)
	}

	// The plant's own file: all commands but the last, which serves.
	dir := t.TempDir()
	commands, last, found := strings.Cut(shell[2], "once serve ")
	if !found {
		t.Fatal("the last block serves nothing")
	}
	build, rest, _ := strings.Cut(commands, "\n")
	if !strings.HasPrefix(build, "go build -o once ./cmd/once") {
		t.Errorf("the block begins with %s", build)
	}
	told = bash(t, dir, "cp "+program(t, "./cmd/once")+" once\n"+rest)
	if !strings.Contains(told, "once.yaml is right") {
		t.Errorf("config check says %s", told)
	}
	serve(t, filepath.Join(dir, "plant"), strings.Fields(last)...).mustPost("rcs",
		`{"reqCode":"1","taskCode":"T","callbackMethod":"startFE"}`)
}

func TestTheReadmesFileIsRight(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"README.md"} {
		for _, yaml := range blocks(t, page, "yaml") {
			dir := t.TempDir()
			file := filepath.Join(dir, write(t, dir, "once.yaml", yaml))
			if status, _, errs := run("config", "check", file); status != 0 {
				t.Errorf("%s: %s", page, errs)
			}
		}
	}
}

// page runs the shell blocks of a page, each on top of its first one and of what is given, and
// hands those that serve to serving.
func (p *process) page(dir, page, vars string, serving func(before, args string)) {
	p.t.Helper()
	shell := blocks(p.t, page, "sh")
	preamble := p.on(shell[0]) + vars
	for _, block := range shell {
		if at := strings.Index(block, "once serve "); at >= 0 {
			serving(preamble+block[:at], strings.TrimPrefix(block[at:], "once serve "))
			continue
		}
		told := bash(p.t, dir, preamble+p.on(block))
		if told == "" && block != shell[0] {
			p.t.Errorf("nothing is told by\n%s", block)
		}
	}
}

// plantIn serves the robots' example in a folder, with effects that are printed and a WMS that
// refuses them, and returns the file as well.
func plantIn(t *testing.T, dir string) (p *process, file string) {
	t.Helper()
	sink := testserver.NewHTTPSink(t)
	sink.Otherwise(testserver.Answer{Status: http.StatusBadRequest})
	b, err := os.ReadFile(filepath.Join(root, "examples", "robots.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	file = strings.NewReplacer(`{mqtt: {url: "mqtt://127.0.0.1:1883", qos: 1}`,
		`{log: {}`, "http://127.0.0.1:9000", sink.URL()).Replace(string(b))
	write(t, dir, "once.yaml", file)
	p = serve(t, dir, "--config", "once.yaml")
	p.stuck()
	return p, file
}

func TestTheCommandsForOperatorsRunAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, plant := plantIn(t, dir)
	write(t, dir, "trial.yaml", "create: false\n"+plant)
	p.page(dir, "docs/operating.md", "", func(before, args string) {
		if strings.Contains(before, "rm -f once.db-wal") {
			p.signal(syscall.SIGTERM)
			if status := p.status(); status != 0 {
				t.Errorf("the server ended with %d", status)
			}
		}
		bash(t, dir, before)
		if n := serve(t, dir, strings.Fields(args)...).callbacks(""); len(n) < 5 {
			t.Errorf("%s: the backup has %d callbacks", args, len(n))
		}
	})
}

func TestWhatMendsWhatIsStuckRunsAsItIsWritten(t *testing.T) {
	t.Parallel()
	p, _ := plantIn(t, t.TempDir())
	first := p.deadEffect()
	p.mustPost("rcs", `{"reqCode":"REQ-6","taskCode":"TASK-6","callbackMethod":"startFE"}`)
	p.mustPost("rcs", `{"reqCode":"REQ-7","taskCode":"TASK-6","callbackMethod":"finishFE"}`)
	var page struct{ Items []struct{ ID string } }
	testserver.Until(t, patience, "a second effect is dead", func() bool {
		p.get("/api/v1/effects?state=dead", &page)
		return len(page.Items) == 2
	})
	if status := p.post("rcs", `{"reqCode":"R"}`); status != http.StatusBadRequest {
		t.Fatalf("status %d", status)
	}
	p.page(t.TempDir(), "docs/stuck.md", "CALLBACK="+p.one("key=early")+"\nOTHER="+
		p.one("key=other")+"\nCONFLICT="+p.one("key=REQ-1")+"\nEFFECT="+first+"\nOTHER_EFFECT="+
		page.Items[0].ID+"\n", nil)
	if _, out, _ := p.operate("tasks", "list", "--state", "cancelled"); !strings.Contains(out,
		"transport/TASK-2") {
		t.Errorf("in the end the task is not cancelled:\n%s", out)
	}
}

func TestTheCommandsOfTheReferenceRunAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, _ := plantIn(t, t.TempDir())
	id := p.one("key=early")
	p.page(dir, "docs/cli.md", "CALLBACK="+id+"\n", nil)
	body, err := os.ReadFile(filepath.Join(dir, "body.bin"))
	if want := `{"reqCode":"early","taskCode":"TASK-3","callbackMethod":"finish"}`; err != nil ||
		string(body) != want {
		t.Errorf("the body is %q, want %q, %v", body, want, err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, statuses, _ := run("help", "exit-status")
	lines := regexp.MustCompile(`(?m)^ +(\d+)  (.+)$`).FindAllStringSubmatch(statuses, -1)
	if len(lines) != 8 {
		t.Errorf("%d statuses", len(lines))
	}
	for _, s := range lines {
		if want := "\n| " + s[1] + " | " + s[2]; !strings.Contains(string(text), want) {
			t.Errorf("docs/cli.md lacks %q", want)
		}
	}
	pages := t.TempDir()
	run("man", pages)
	list, err := filepath.Glob(filepath.Join(pages, "once-*-*.1"))
	if err != nil || len(list) < 25 {
		t.Fatalf("%d pages, %v", len(list), err)
	}
	for _, page := range list {
		name := strings.Split(strings.TrimSuffix(filepath.Base(page), ".1"), "-")
		group := regexp.MustCompile("`once " + name[1] + " [^\n]*\\b" + name[2] + "\\b")
		if name[1] != "config" && name[1] != "completion" && !group.Match(text) {
			t.Errorf("docs/cli.md doesn't name once %s %s", name[1], name[2])
		}
	}
}

// stuck makes two callbacks that are parked, one with a conflict, and an effect that is dead.
func (p *process) stuck() {
	for _, body := range []string{
		`{"reqCode":"REQ-1","taskCode":"TASK-1","callbackMethod":"startFE","data":{"roadway":"R7"}}`,
		`{"reqCode":"REQ-1","taskCode":"TASK-1","callbackMethod":"startFE","data":{"roadway":"R8"}}`,
		`{"reqCode":"REQ-2","taskCode":"TASK-1","callbackMethod":"finishFE"}`,
		`{"reqCode":"early","taskCode":"TASK-3","callbackMethod":"finish"}`,
		`{"reqCode":"other","taskCode":"TASK-3","callbackMethod":"finishFE"}`,
		`{"reqCode":"REQ-4","taskCode":"TASK-4","callbackMethod":"startFE","data":{"roadway":"R9"}}`,
		`{"reqCode":"REQ-5","taskCode":"TASK-2","callbackMethod":"startFE"}`,
	} {
		p.mustPost("rcs", body)
	}
	testserver.Until(p.t, patience, "all are worked", func() bool {
		return len(p.callbacks("state=done")) == 4 && len(p.callbacks("state=parked")) == 2
	})
}

// one returns the id of the only callback of a query.
func (p *process) one(query string) string {
	p.t.Helper()
	list := p.callbacks(query)
	if len(list) != 1 {
		p.t.Fatalf("%d callbacks for %s, want 1", len(list), query)
	}
	return list[0].ID
}

// deadEffect returns the id of the effect that its destination refuses.
func (p *process) deadEffect() string {
	p.t.Helper()
	var page struct{ Items []struct{ ID string } }
	testserver.Until(p.t, patience, "an effect is dead", func() bool {
		p.get("/api/v1/effects?state=dead", &page)
		return len(page.Items) == 1
	})
	return page.Items[0].ID
}

func TestTheDocumentedMetricsExist(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, f := range metrics.Families() {
		known[f.Name] = true
	}
	b, err := os.ReadFile(filepath.Join(root, "docs", "operating.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`\bonce_[a-z_]+`).FindAllString(string(b), -1)
	if len(found) < 8 {
		t.Errorf("only %v", found)
	}
	for _, name := range found {
		if !known[strings.TrimSuffix(name, "_bucket")] {
			t.Errorf("there is no metric %s", name)
		}
	}
}
