package deploy_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/oncekit/once/internal/testserver"
)

const (
	// patience is how long a test waits for what has to happen.
	patience = time.Minute
	// token is the operator's in all tests; nothing secret is behind it.
	token = "0123456789abcdef"
	// afterDrain is how long a server may take beyond its drain: 5 s for what has to be told to
	// stop, and 5 s for spans.
	afterDrain = 10 * time.Second
)

// root is the repository's root, seen from this package.
const root = ".."

var images struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		defer func() {
			if images.dir != "" {
				_ = os.RemoveAll(images.dir)
			}
		}()
		return m.Run()
	}())
}

// program returns the path of the program as the image has it: built by the very line of the
// Containerfile, once for all tests.
func program(t *testing.T) string {
	t.Helper()
	lines := containerfile(t)
	images.once.Do(func() {
		if images.dir, images.err = os.MkdirTemp("", "once-image-"); images.err != nil {
			return
		}
		line := buildLine(lines)
		if !strings.Contains(line, " -o /out/once ") {
			images.err = fmt.Errorf("the line makes no /out/once: %s", line)
			return
		}
		cmd := exec.Command("sh", "-c", strings.Replace(line, "/out/", images.dir+"/", 1))
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			images.err = fmt.Errorf("%s: %w\n%s", line, err, out)
		}
	})
	if images.err != nil {
		t.Fatal(images.err)
	}
	return filepath.Join(images.dir, "once")
}

// run runs the program to its end.
func run(t *testing.T, env []string, args ...string) (status int, output string) {
	t.Helper()
	cmd := exec.Command(program(t), args...)
	cmd.Dir, cmd.Env = t.TempDir(), slices.Concat(os.Environ(), env)
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// process is a server that runs.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	said           *testserver.Text
	ended          chan struct{} // closed when it is gone
	senders, admin string
}

var greeted = regexp.MustCompile(
	`(?s)(?:POST|gateway +)\s*(http://[^/\s]+).*\n *operator +(http://[^/\s]+)/`)

// serve starts a command that serves, and waits until it does. It ends with the test.
func serve(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, said: &testserver.Text{}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.said, p.said
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	go func() {
		// The thread that starts it has to live as long, or the kernel takes it for the death of
		// the parent.
		runtime.LockOSThread()
		defer close(p.ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its status is asked for below
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be gone
		<-p.ended
		if t.Failed() {
			t.Logf("%v wrote:\n%s", cmd.Args, p.said)
		}
	})
	testserver.Until(t, patience, "the server greets", func() bool {
		found := greeted.FindStringSubmatch(p.said.String())
		if found != nil {
			p.senders, p.admin = found[1], found[2]
			return true
		}
		select {
		case <-p.ended:
			t.Fatalf("the server ended:\n%s", p.said)
		default:
		}
		return false
	})
	return p
}

// end sends SIGTERM and wants an end in order.
func (p *process) end() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // if it is gone, its status says so
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatal("the server does not end")
	}
	if status := p.cmd.ProcessState.ExitCode(); status != 0 {
		p.t.Errorf("the server ended with %d", status)
	}
}

// ask sends one request and returns the answer.
func ask(t *testing.T, method, url, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	client := http.Client{Timeout: patience}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// file reads a file of the repository.
func file(t *testing.T, name ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, filepath.Join(name...)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// strict reads one YAML document and refuses fields that it doesn't know.
func strict(t *testing.T, name, text string, into any) {
	t.Helper()
	d := yaml.NewDecoder(bytes.NewBufferString(text), yaml.Strict(), yaml.DisallowUnknownField())
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// settings are what a configuration says that the files around it have to agree with.
type settings struct {
	listen, admin string // ports
	drain         time.Duration
	env           []string // variables that it takes
}

// configured reads a configuration as the program prints it, with all defaults.
func configured(t *testing.T, name string) settings {
	t.Helper()
	var s settings
	env := fakeEnv(t, name)
	for _, e := range env {
		v, _, _ := strings.Cut(e, "=")
		s.env = append(s.env, v)
	}
	path, err := filepath.Abs(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	status, out := run(t, env, "config", "print", path)
	if status != 0 {
		t.Fatalf("%s: %s", name, out)
	}
	var c struct {
		Listen   string
		Admin    struct{ Listen string }
		Shutdown struct{ Drain string }
	}
	if err := yaml.Unmarshal([]byte(out), &c); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if s.drain, err = time.ParseDuration(c.Shutdown.Drain); err != nil {
		t.Fatal(err)
	}
	s.listen, s.admin = port(c.Listen), port(c.Admin.Listen)
	return s
}

func port(addr string) string { return addr[strings.LastIndex(addr, ":")+1:] }

// fakeEnv has a value for each variable that a configuration takes.
func fakeEnv(t *testing.T, name string) (env []string) {
	t.Helper()
	values := map[string]string{"ONCE_ADMIN_TOKEN": token,
		"ONCE_RECORDS": "redis://127.0.0.1:1/0", "ONCE_UPSTREAM": "http://127.0.0.1:1"}
	refs := regexp.MustCompile(`\$\{env:([A-Z_]+)\}`).FindAllStringSubmatch(file(t, name), -1)
	for _, m := range refs {
		if values[m[1]] == "" {
			t.Fatalf("%s takes %s, for which this test has no value", name, m[1])
		}
		env = append(env, m[1]+"="+values[m[1]])
	}
	return env
}

// variables are those that the documentation has for the program and its commands.
func variables(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{"GOMEMLIMIT": true, "GOMAXPROCS": true, "GOGC": true} // Go's own
	text := file(t, "docs/configuration.md") + file(t, "docs/cli.md")
	for _, name := range regexp.MustCompile("`(ONCE_[A-Z_]+)`").FindAllStringSubmatch(text, -1) {
		known[name[1]] = true
	}
	if !known["ONCE_STORE"] || !known["ONCE_TOKEN"] {
		t.Fatalf("the documentation has only %v", known)
	}
	return known
}
