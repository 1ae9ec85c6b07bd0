// Package proc starts the processes of a benchmark, waits until they serve, and reads what they
// use.
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Process is one process that was started. Its methods are safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	name string
	out  *tail
	done chan struct{} // closed when it ended
	err  error         // how it ended
}

// Start starts a program with further environment variables.
func Start(env []string, name string, args ...string) (*Process, error) {
	p := &Process{name: name, out: &tail{}, done: make(chan struct{})}
	p.cmd = exec.Command(name, args...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	// A benchmark that is killed takes its processes with it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID returns the process's number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// stopTime is how long a process may take to end in order.
const stopTime = 60 * time.Second

// Stop ends the process in order. It is safe to call twice.
func (p *Process) Stop() error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTime):
		p.Kill()
		return fmt.Errorf("stop %s: it did not end within %s", p.name, stopTime)
	}
}

// Kill ends the process at once, as a power cut would.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.done
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns when the process has ended by itself; its error has what it wrote.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		p.Kill()
		return ctx.Err()
	case <-p.done:
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w\n%s", p.name, p.err, p.out)
	}
	return nil
}

// Until polls a condition while the process lives, every pause, for at most limit.
func (p *Process) Until(ctx context.Context, limit, pause time.Duration, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !ok() {
		select {
		case <-p.done:
			return fmt.Errorf("%s ended: %w\n%s", p.name, errors.Join(p.err, errEnded), p.out)
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w\n%s", p.name, ctx.Err(), p.out)
		case <-time.After(pause):
		}
	}
	return nil
}

var errEnded = errors.New("it was not to end")

// Listens reports whether somebody listens on an address.
func Listens(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	return c.Close() == nil
}

// FreeAddr returns a loopback address that nobody listens on.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// tail keeps the last bytes that were written.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailBytes = 8 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > tailBytes {
		t.b = bytes.Clone(t.b[len(t.b)-tailBytes:])
	}
	return len(p), nil
}

// String returns what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
