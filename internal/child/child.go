// Package child runs programs that end with this one, however it ends: on Linux the system kills
// them, also after a SIGKILL of this process; elsewhere whoever started them has to.
package child

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a running child in a process group of its own: Ctrl-C in a terminal does not reach it.
// It is safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts cmd, which must not have been started and is not to be touched afterwards. The
// thread that starts it waits for it as well: the system ties the child's end to the end of that
// thread.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = attributes()
	return start(cmd)
}

// StartAs starts cmd as Start does, as another user of the system: only root may.
func StartAs(cmd *exec.Cmd, user *syscall.Credential) (*Process, error) {
	cmd.SysProcAttr = attributes()
	cmd.SysProcAttr.Credential = user
	return start(cmd)
}

// StartFree starts cmd as Start does, but for its end: it lives on after this process.
func StartFree(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return start(cmd)
}

func start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer close(p.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // State tells how it ended
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// PID is its process id, and that of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the child is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether the child is gone.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// State tells how the child ended; nil while it runs.
func (p *Process) State() *os.ProcessState {
	if !p.Ended() {
		return nil
	}
	return p.cmd.ProcessState
}

// Signal sends a signal. A child that is gone gets none, which is no error.
func (p *Process) Signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// Kill ends the child and its group at once, and returns when the child is gone.
func (p *Process) Kill() {
	if !p.Ended() {
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // it may be gone by now
	}
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// End signals the child and returns when it is gone; one that does not go in time is killed.
func (p *Process) End(s os.Signal, limit time.Duration) {
	p.Signal(s)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Kill()
	}
}
