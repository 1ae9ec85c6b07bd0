package testserver

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

var (
	brokerRuns   = regexp.MustCompile(`mosquitto version \S+ running`)
	addressTaken = regexp.MustCompile(`(?i)address already in use`)
)

// process is a running child that dies with the test program, even if that is killed.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child is gone
}

// startProcess starts a child. The thread that starts it waits for it as well: the system ties the
// child's end to the end of that thread.
func startProcess(cmd *exec.Cmd) (*process, error) {
	dieWithParent(cmd)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer close(p.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// end signals the child and returns when it is gone; one that does not go in time is killed.
func (p *process) end(signal os.Signal) {
	_ = p.cmd.Process.Signal(signal) // it may be gone already
	select {
	case <-p.done:
	case <-time.After(stopLimit):
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		<-p.done
	}
}

// logSince is what a log holds from an offset on.
func logSince(file string, from int64) string {
	data, err := os.ReadFile(file)
	if err != nil || int64(len(data)) < from {
		return ""
	}
	return string(data[from:])
}
