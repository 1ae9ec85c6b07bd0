package oncesqlite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oncekit/once"
)

// LockedError says that another process has the store.
type LockedError struct {
	// Path of the lock file.
	Path string
	// Owner is what the other process wrote about itself: its process id, host and start.
	Owner string
}

// Error names the other process.
func (e *LockedError) Error() string {
	return fmt.Sprintf("another process has this store: %s (lock file %s); stop it first, "+
		"or give this one a store of its own", e.Owner, e.Path)
}

// Unwrap makes it an [once.ErrLocked].
func (e *LockedError) Unwrap() error { return once.ErrLocked }

// fileLock is a lock that the operating system drops when the process ends, however it ends.
type fileLock struct{ f *os.File }

// maxOwnerText bounds what is read of another process's lock file, in bytes.
const maxOwnerText = 256

func lockFile(path string) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		owner, rerr := io.ReadAll(io.LimitReader(f, maxOwnerText))
		return nil, errors.Join(&LockedError{Path: path, Owner: ownerText(owner)}, rerr, f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	text := fmt.Sprintf("process %d on %s since %s\n", os.Getpid(), host,
		time.Now().UTC().Format(time.RFC3339))
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &fileLock{f: f}, nil
}

// checkPlace says why no store can be at a path, and what to do. What it can't tell is left to
// whoever opens the file.
func checkPlace(path string) error {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the folder %s does not exist; create it, or name another path", dir)
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%s is below a file; name another path", dir)
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is a file and no folder; name another path", dir)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("this is a folder; name a file in it, such as %s",
			filepath.Join(path, "once.db"))
	}
	return nil
}

func ownerText(b []byte) string {
	if t := strings.TrimSpace(string(b)); t != "" {
		return t
	}
	return "an unnamed process"
}

// release drops the lock. The file stays: removing it would let two processes lock two files.
func (l *fileLock) release() error { return l.f.Close() }
