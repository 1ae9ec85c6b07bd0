package demo

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/oncekit/once/internal/child"
)

// janitor is a process that cleans up when the demo ends without having done so, even by SIGKILL:
// it kills the server and removes the folder. It hears of both over its standard input, and acts
// when that ends.
type janitor struct {
	proc *child.Process
	in   io.WriteCloser
}

// JanitorArg is the hidden argument by which the program is its own janitor.
const JanitorArg = "janitor"

// hireJanitor starts the janitor of a folder. It is not tied to the demo's end as other children
// are: it has to outlive it.
func hireJanitor(program, dir string) (*janitor, error) {
	cmd := exec.Command(program, "demo", JanitorArg, dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start janitor: %w", err)
	}
	proc, err := child.StartFree(cmd)
	if err != nil {
		return nil, fmt.Errorf("start janitor: %w", err)
	}
	return &janitor{proc: proc, in: in}, nil
}

// watch names the process that must not stay behind.
func (j *janitor) watch(pid int) {
	if j != nil {
		_, _ = fmt.Fprintln(j.in, "kill", pid) // it only matters if the demo dies
	}
}

// dismiss ends the janitor. What has to be kept is kept.
func (j *janitor) dismiss(keep bool) {
	if j == nil {
		return
	}
	if keep {
		_, _ = fmt.Fprintln(j.in, "keep")
	}
	_, _ = fmt.Fprintln(j.in, "kill", 0) // the server is gone
	_ = j.in.Close()
	select {
	case <-j.proc.Done():
	case <-time.After(sweepLimit):
		j.proc.Kill()
	}
}

// sweepLimit bounds how long a folder may take to go.
const sweepLimit = 10 * time.Second

// Janitor cleans up after the demo whose end is that of in.
func Janitor(in io.Reader, dir string) error {
	pid, keep := 0, false
	for lines := bufio.NewScanner(in); lines.Scan(); {
		what, rest, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "kill":
			n, err := strconv.Atoi(rest)
			if err != nil {
				return fmt.Errorf("read janitor's order: %w", err)
			}
			pid = n
		case "keep":
			keep = true
		}
	}
	if pid > 1 {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // the system may have done it
	}
	if keep || !ours(dir) {
		return nil
	}
	deadline := time.Now().Add(sweepLimit)
	for { // the server may write until it is gone
		err := os.RemoveAll(dir)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}
