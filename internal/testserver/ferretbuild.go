package testserver

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// ferretProgram builds the program of package ferret, a module of its own, unless a process before
// has built it from the same files, and returns where it is.
var ferretProgram = sync.OnceValues(func() (string, error) {
	source, err := ferretSource()
	if err != nil {
		return "", err
	}
	key, err := contentOf(source)
	if err != nil {
		return "", err
	}
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	dir := filepath.Join(base, "once-ferret", key)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	unlock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	program := filepath.Join(dir, "ferret")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	// Renamed when it is complete: a build that was killed leaves nothing that looks like one.
	partial := program + ".partial"
	out, err := exec.Command("go", "build", "-C", source, "-o", partial, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, os.Rename(partial, program)
})

// ferretSource is the folder of the module, found by the root module's: tests run in their own
// folders, and those of other modules use this package too.
func ferretSource() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/oncekit/once").Output()
	if err != nil {
		return "", fmt.Errorf("find module: %w", err)
	}
	root := strings.TrimSpace(string(out))
	return filepath.Join(root, "internal", "testserver", "ferret"), nil
}

// contentOf names the program that these files make with this Go.
func contentOf(dir string) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, pattern := range []string{"*.go", "go.*"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(hash, "%s %d\n%s", filepath.Base(name), len(text), text)
		}
	}
	return hex.EncodeToString(hash.Sum(nil)[:16]), nil
}

// lockFile waits until no other process has the file locked, and locks it.
func lockFile(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	var once sync.Once
	return func() { once.Do(func() { _ = f.Close() }) }, nil
}
