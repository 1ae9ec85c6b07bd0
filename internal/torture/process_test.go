package torture_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// process is a running child. What it prints comes line by line.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer // the child ends with it
	lines chan string
	done  chan struct{} // closed when it is gone
	state error         // of its end, after done
}

// buildChild builds the children once, without the race detector: under it SQLite is many times
// slower, and it is not the data races of the children that are looked for here.
func buildChild(t *testing.T, dir string) string {
	t.Helper()
	tool := os.Getenv("GO")
	if tool == "" {
		tool = "go"
	}
	bin := filepath.Join(dir, "child")
	cmd := exec.Command(tool, "build", "-race=false", "-o", bin, "./child")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build child: %v\n%s", err, out)
	}
	return bin
}

// startProcess starts a child whose complaints go to a file.
func startProcess(bin, complaints string, env []string, args ...string) (*process, error) {
	log, err := os.OpenFile(complaints, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	p := &process{cmd: exec.Command(bin, args...), lines: make(chan string, 64),
		done: make(chan struct{})}
	p.cmd.Stderr, p.cmd.Env = log, append(os.Environ(), env...)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", args[0], err)
	}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
		close(p.lines)
		p.state = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// errEnded says that a child printed all that it ever will.
var errEnded = errors.New("the process ended")

// await returns the next line that begins with one of the words.
func (p *process) await(limit time.Duration, words ...string) (word, rest string, err error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				return "", "", errEnded
			}
			if word, rest, _ = strings.Cut(line, " "); slices.Contains(words, word) {
				return word, rest, nil
			}
		case <-timer.C:
			return "", "", fmt.Errorf("no line %q within %v", words, limit)
		}
	}
}

// kill ends the child by SIGKILL and returns when it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be gone already
	p.drain()
}

// drain reads what is left and returns when the child is gone.
func (p *process) drain() {
	for range p.lines {
		continue
	}
	<-p.done
	_ = p.stdin.Close()
}
