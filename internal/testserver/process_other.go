//go:build !linux

package testserver

import "os/exec"

// dieWithParent does nothing where the system has no such thing: the test's cleanup ends the child.
func dieWithParent(*exec.Cmd) {}
