//go:build unix && !linux

package child

import "syscall"

// attributes give the child a group of its own. The system has nothing that ends it with us.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
