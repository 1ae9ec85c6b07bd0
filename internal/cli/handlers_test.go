package cli_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/oncekit/once/internal/testserver"
)

// source reads a file of the repository.
func source(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestThePageAboutHandlersShowsTheExamplesAsTheyAre(t *testing.T) {
	t.Parallel()
	const page = "docs/handlers.md"
	program := source(t, "examples", "handler", "main.go")
	for language, file := range map[string]string{
		"yaml":   source(t, "examples", "service", "service.yaml"),
		"python": source(t, "examples", "service", "service.py"),
		"go":     program,
	} {
		for _, block := range blocks(t, page, language) {
			if !strings.Contains(file, block) {
				t.Errorf("the example doesn't have the %s\n%s", language, block)
			}
		}
	}
}

// listens finds where the service of the example listens.
var listens = regexp.MustCompile(`service on (http://\S+)`)

// service starts the service of the example in a folder and returns its URL.
func service(t *testing.T, dir, port string) (*process, string) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatalf("the example of a service needs python3: %v", err)
	}
	file, err := filepath.Abs(filepath.Join(root, "examples", "service", "service.py"))
	if err != nil {
		t.Fatal(err)
	}
	p, url := start(t, python, dir, file, port, "balances.db"), ""
	testserver.Until(t, patience, "the service listens", func() bool {
		if m := listens.FindStringSubmatch(p.out.String()); m != nil {
			url = m[1]
		}
		return url != ""
	})
	return p, url
}

func TestTheExampleOfAServiceBooksAPaymentOnce(t *testing.T) {
	t.Parallel()
	shell := blocks(t, "docs/handlers.md", "sh")
	if len(shell) != 3 || !strings.Contains(shell[0], "service.py 9000 balances.db") {
		t.Fatalf("the page has other commands than this test knows: %q", shell)
	}
	dir := t.TempDir()
	down, url := service(t, dir, "0")
	write(t, dir, "service.yaml", strings.Replace(source(t, "examples", "service", "service.yaml"),
		"http://127.0.0.1:9000", url, 1))
	p := serve(t, dir, "--config", "service.yaml")
	told := bash(t, dir, p.on(shell[1]))
	if strings.Count(told, `"accepted"`) != 5 || strings.Count(told, `"evt-1"`) != 1 {
		t.Errorf("the page's commands say\n%s", told)
	}
	p.awaitDone(1)
	books := func(what string, cents, payments int) {
		t.Helper()
		c, n := balance(t, filepath.Join(dir, "balances.db"), "A-7")
		if c != cents || n != payments {
			t.Errorf("%s: %d cents in %d payments, want %d in %d", what, c, n, cents, payments)
		}
	}
	books("after five times evt-1", 1250, 1)

	// A try whose answer got lost comes again under its key.
	again, err := http.NewRequest(http.MethodPost, url+"/payments",
		bytes.NewBufferString(`{"id":"evt-1","account":"A-7","cents":1250}`))
	if err != nil {
		t.Fatal(err)
	}
	again.Header.Set("Idempotency-Key", `"`+p.one("key=evt-1")+`"`)
	res, err := http.DefaultClient.Do(again)
	if err != nil {
		t.Fatal(err)
	}
	if _ = res.Body.Close(); res.StatusCode != http.StatusNoContent {
		t.Errorf("the service answers a repeat with %d", res.StatusCode)
	}
	books("after a try that came again", 1250, 1)

	down.signal(syscall.SIGKILL)
	<-down.ended
	p.mustPost("payments", `{"id":"evt-2","account":"A-7","cents":750}`)
	p.mustPost("payments", `{"id":"evt-3","account":"A-8","cents":-1}`)
	testserver.Until(t, patience, "a try has failed", func() bool {
		list := p.callbacks("key=evt-2")
		return len(list) == 1 && list[0].Attempt > 0 && list[0].State != "done"
	})
	service(t, dir, url[strings.LastIndexByte(url, ':')+1:])
	testserver.Until(t, patience, "the others are worked", func() bool {
		return len(p.callbacks("state=done")) == 2 && len(p.callbacks("state=dead")) == 1
	})
	books("after the service was away", 2000, 2)
}
