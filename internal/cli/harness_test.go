package cli_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3/driver"

	"github.com/oncekit/once/internal/api/apitest"
	"github.com/oncekit/once/internal/cli"
	"github.com/oncekit/once/internal/testserver"
)

// patience is how long a test waits for what has to happen.
const patience = time.Minute

// root is the repository's root, seen from this package.
var root = filepath.Join("..", "..")

// builder builds programs of this module once for all tests.
type builder struct {
	mu   sync.Mutex
	dir  string
	done map[string]error
}

var built = &builder{done: map[string]error{}}

// program returns the path of a program that was built from a package of this module.
func program(t *testing.T, pkg string) string {
	t.Helper()
	built.mu.Lock()
	defer built.mu.Unlock()
	path := filepath.Join(built.dir, filepath.Base(pkg))
	err, ok := built.done[pkg]
	if !ok {
		cmd := exec.Command("go", "build", "-o", path, pkg)
		cmd.Dir = root
		var out []byte
		if out, err = cmd.CombinedOutput(); err != nil {
			err = errors.Join(err, errors.New(string(out)))
		}
		built.done[pkg] = err
	}
	if err != nil {
		t.Fatalf("build %s: %v", pkg, err)
	}
	return path
}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if built.dir, err = os.MkdirTemp("", "once-programs-"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(built.dir)
		return testserver.Main(m)
	}())
}

// process is a program that runs.
type process struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err *testserver.Text
	ended    chan struct{} // closed when it is gone
	url      string        // of senders
	admin    string
}

// start starts a program in a folder. It dies with the test, even if that is killed: the thread
// that starts it waits for it as well.
func start(t *testing.T, path, dir string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(path, args...), ended: make(chan struct{}),
		out: &testserver.Text{}, err: &testserver.Text{}}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, p.out, p.err
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer close(p.ended)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // its status is asked for below
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.ended
		if t.Failed() {
			t.Logf("%v wrote:\n%s%s", args, p.out, p.err)
		}
	})
	return p
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // it may be gone

// status waits for the end and returns the status; -1: it was killed.
func (p *process) status() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("%v does not end", p.cmd.Args)
	}
	return p.cmd.ProcessState.ExitCode()
}

// kill ends the process at once and waits until it is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// greeted finds the addresses in what the program says at its start.
var greeted = regexp.MustCompile(`(?s)POST (http://\S+?)/\S+\n.*operator +(http://\S+?)/`)

// serve starts `once serve` with more arguments, on free ports, and waits until it serves.
func serve(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	return serveWith(t, program(t, "./cmd/once"), dir, args...)
}

func serveWith(t *testing.T, path, dir string, args ...string) *process {
	t.Helper()
	p := start(t, path, dir, append([]string{"serve", "--listen", "127.0.0.1:0",
		"--admin", "127.0.0.1:0"}, args...)...)
	testserver.Until(t, patience, "the server greets", func() bool {
		found := greeted.FindStringSubmatch(p.out.String())
		if found != nil {
			p.url, p.admin = found[1], found[2]
		}
		select {
		case <-p.ended:
			t.Fatalf("the server ended with %d", p.status())
		default:
		}
		return found != nil
	})
	return p
}

// post sends a JSON message and returns the status; 0: no answer.
func (p *process) post(source, body string) int {
	res, err := http.Post(p.url+"/in/"+source, "application/json", strings.NewReader(body))
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return 0
	}
	return res.StatusCode
}

// mustPost wants the status 200.
func (p *process) mustPost(source, body string) {
	p.t.Helper()
	if status := p.post(source, body); status != http.StatusOK {
		p.t.Fatalf("post %s: status %d", body, status)
	}
}

// get reads JSON from the operator's listener and returns the status.
func (p *process) get(path string, into any) int {
	p.t.Helper()
	client := http.Client{Transport: &apitest.Transport{
		Host: strings.TrimPrefix(p.admin, "http://")}}
	res, err := client.Get(p.admin + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(b, into); err != nil {
			p.t.Fatalf("get %s: status %d, %v: %s", path, res.StatusCode, err, b)
		}
	}
	return res.StatusCode
}

// callback is a callback as the API lists it.
type callback struct {
	ID, State string
	Key       []string
	Attempt   int
}

// callbacks lists all callbacks that a query finds.
func (p *process) callbacks(query string) []callback {
	p.t.Helper()
	var all []callback
	for cursor := ""; ; {
		var page struct {
			Items []callback
			Next  string
		}
		p.get("/api/v1/callbacks?limit=200&"+query+"&cursor="+cursor, &page)
		all = append(all, page.Items...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

// awaitDone waits until n callbacks are done and none is in another state.
func (p *process) awaitDone(n int) {
	p.t.Helper()
	testserver.Until(p.t, patience, "the callbacks are done", func() bool {
		var page struct{ Items []callback }
		if p.get("/api/v1/callbacks?limit=1&state=pending", &page); len(page.Items) > 0 {
			return false // all of them are a long list
		}
		list := p.callbacks("")
		for _, c := range list {
			if c.State != "done" {
				return false
			}
		}
		return len(list) == n
	})
}

// write writes a file and returns its name.
func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// run runs the program inside of the test and returns what it wrote.
func run(args ...string) (status int, out, errs string) {
	var o, e bytes.Buffer
	status = cli.Run(args, cli.IO{In: strings.NewReader(""), Out: &o, Err: &e}, nil)
	return status, o.String(), e.String()
}

// balance reads what the example of a handler has booked.
func balance(t *testing.T, file, account string) (cents, payments int) {
	t.Helper()
	db, err := driver.Open("file:" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(`SELECT cents, payments FROM balances WHERE account = ?`,
		account).Scan(&cents, &payments); err != nil {
		t.Fatal(err)
	}
	return cents, payments
}
