package testserver

import (
	"os/exec"
	"syscall"
)

// dieWithParent lets the system kill the child when the thread that started it ends.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
