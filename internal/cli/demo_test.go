package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/oncekit/once/internal/testserver"
)

// demo starts `once demo` whose folder is made in a folder of its own, and returns that.
func demo(t *testing.T, args ...string) (*process, string) {
	t.Helper()
	dir := t.TempDir()
	return start(t, "/usr/bin/env", dir, append([]string{"TMPDIR=" + dir, program(t, "./cmd/once"),
		"demo"}, args...)...), dir
}

// children are the processes whose command line names a folder.
func children(t *testing.T, dir string) (out []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		b, err := os.ReadFile(file)
		if err == nil && bytes.Contains(b, []byte(filepath.Join(dir, "once-demo-"))) {
			out = append(out, string(bytes.ReplaceAll(b, []byte{0}, []byte{' '})))
		}
	}
	return out
}

// nothingLeft waits until neither a process nor a folder of a demo is there.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	testserver.Until(t, patience, "nothing is left behind", func() bool {
		list, err := os.ReadDir(dir)
		return err == nil && len(list) == 0 && len(children(t, dir)) == 0
	})
}

func TestTheDemoComesOutRight(t *testing.T) {
	t.Parallel()
	p, dir := demo(t, "--robots", "4", "--duration", "4s", "--seed", "7", "--rate", "40")
	if status := p.status(); status != 0 {
		t.Fatalf("status %d:\n%s%s", status, p.out, p.err)
	}
	for _, want := range []string{"once demo: 4 robots, 4s, 40 requests a second, seed 7\n",
		"server   SIGKILL", "  doubled" + strings.Repeat(" ", 15) + "0\n", "order kept   yes\n",
		"✓ Nothing was lost and nothing was done twice, in spite of 2 SIGKILLs"} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, p.out)
		}
	}
	nothingLeft(t, dir)
}

// Somebody moves a task behind the robots' backs: that is not what had to come of its callbacks.
func TestADemoThatIsTamperedWithComesOutWrongAndNamesTheTask(t *testing.T) {
	t.Parallel()
	p, dir := demo(t, "--robots", "4", "--duration", "4s", "--seed", "7", "--rate", "40")
	task := ""
	testserver.Until(t, patience, "a task is moved", func() bool {
		select {
		case <-p.ended:
			t.Fatalf("it ended with %d:\n%s%s", p.status(), p.out, p.err)
		default:
		}
		task = tamper(t, dir)
		return task != ""
	})
	if status := p.status(); status != 1 {
		t.Errorf("status %d, want 1", status)
	}
	for _, want := range []string{"✗ It came out wrong: ", "task " + task + ": ",
		"\ntask " + task + "\n  sent, and the answer:\n", "its store are kept in " + dir,
		"The same again: once demo --robots 4 --duration 4s --rate 40 --seed 7\n"} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, p.out)
		}
	}
	if n := len(children(t, dir)); n != 0 || p.err.String() != "" {
		t.Errorf("%d processes are left, and it complains %q", n, p.err)
	}
}

// tamper ends a task that owns a roadway, as a person would, and returns it; empty: it could not.
func tamper(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "once-demo-*", "once.yaml"))
	if err != nil || len(files) != 1 {
		return ""
	}
	b, err := os.ReadFile(files[0])
	found := regexp.MustCompile(`admin: {listen: "(.*)"}`).FindSubmatch(b)
	if err != nil || found == nil {
		return ""
	}
	url := "http://" + string(found[1]) + "/api/v1/"
	res, err := http.Get(url + "resources?kind=roadway")
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	var page struct {
		Items []struct{ Owner *struct{ Task string } }
	}
	if err := json.NewDecoder(res.Body).Decode(&page); err != nil {
		return ""
	}
	for _, r := range page.Items {
		if r.Owner == nil {
			continue
		}
		moved, err := http.Post(url+"tasks/transport/"+r.Owner.Task+"/move", "application/json",
			strings.NewReader(`{"actor":"test","reason":"tampers","to":"finished"}`))
		if err != nil {
			return ""
		}
		moved.Body.Close()
		if moved.StatusCode == http.StatusOK {
			return r.Owner.Task
		}
	}
	return ""
}

func TestTheDemosPageKnowsAllOfItsFlags(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join(root, "docs", "demo.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, help, _ := run("help", "demo")
	flags := regexp.MustCompile(`--[a-z]+`)
	known, told := map[string]bool{"--help": true}, map[string]bool{"--help": true}
	for _, name := range flags.FindAllString(help, -1) {
		known[name] = true
	}
	for _, name := range flags.FindAllString(string(b), -1) {
		told[name] = true
	}
	if len(known) < 6 || !maps.Equal(known, told) {
		t.Errorf("the program has %v, the page %v", known, told)
	}
}

func TestAStoreThatIsAskedForIsKept(t *testing.T) {
	t.Parallel()
	p, dir := demo(t, "--robots", "2", "--duration", "2s", "--store", "sqlite:kept.db")
	if status := p.status(); status != 0 {
		t.Fatalf("status %d:\n%s%s", status, p.out, p.err)
	}
	file := filepath.Join(dir, "kept.db")
	if want := "once serve --store sqlite:" + file; !strings.Contains(p.out.String(), want) {
		t.Errorf("it lacks %q:\n%s", want, p.out)
	}
	again := serve(t, dir, "--store", "sqlite:kept.db")
	if list := again.callbacks("state=done"); len(list) < 3 {
		t.Errorf("the store has %d callbacks that are done", len(list))
	}
}

func TestADemoThatIsEndedLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP,
		syscall.SIGKILL} {
		t.Run(fmt.Sprint(signal), func(t *testing.T) {
			t.Parallel()
			p, dir := demo(t, "--robots", "3", "--duration", "1m")
			testserver.Until(t, patience, "it runs", func() bool {
				return strings.Contains(p.out.String(), "accepted ")
			})
			testserver.Until(t, patience, "the server and the janitor run", func() bool {
				return len(children(t, dir)) == 2
			})
			p.signal(signal)
			status, want := p.status(), 130
			if signal == syscall.SIGKILL {
				want = -1
			}
			if status != want {
				t.Errorf("status %d, want %d", status, want)
			}
			if says := "once: demo: stopped before its end: there is no verdict\n"; want == 130 &&
				p.err.String() != says {
				t.Errorf("it says %q, want %q", p.err, says)
			}
			nothingLeft(t, dir)
		})
	}
}
