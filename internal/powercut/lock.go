package powercut

import (
	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// locks are those of SQLite's file locking (https://sqlite.org/lockingv3.html) on one file, with
// the handle that holds each. The disk's lock guards them.
type locks struct {
	shared    int // handles at SHARED or above
	reserved  *file
	pending   *file
	exclusive *file
}

// Lock implements [vfs.File]. It never waits: SQLite's busy handler does.
func (f *file) Lock(level vfs.LockLevel) error {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.level >= level {
		return nil
	}
	if d.off {
		return ErrPowerOff
	}
	if f.readOnly && level >= vfs.LOCK_RESERVED {
		return sqlite3.IOERR_LOCK
	}
	l := &f.node.locks
	switch level {
	case vfs.LOCK_SHARED:
		if l.pending != nil || l.exclusive != nil {
			return sqlite3.BUSY
		}
		l.shared++
	case vfs.LOCK_RESERVED:
		if l.reserved != nil {
			return sqlite3.BUSY
		}
		l.reserved = f
	default: // LOCK_EXCLUSIVE: SQLite asks for no other level
		if f.level == vfs.LOCK_RESERVED {
			// Keeps new readers out while the old ones finish.
			l.pending = f
			f.level = vfs.LOCK_PENDING
		}
		if l.shared > 1 {
			return sqlite3.BUSY
		}
		l.exclusive = f
	}
	f.level = level
	return nil
}

// Unlock implements [vfs.File]. It works without power, so that nobody waits for a dead handle.
func (f *file) Unlock(level vfs.LockLevel) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.unlock(level)
	return nil
}

func (f *file) unlock(level vfs.LockLevel) {
	if f.level <= level {
		return
	}
	l := &f.node.locks
	for _, held := range []**file{&l.reserved, &l.pending, &l.exclusive} {
		if *held == f {
			*held = nil
		}
	}
	if level == vfs.LOCK_NONE {
		l.shared--
	}
	f.level = level
}

// CheckReservedLock implements [vfs.File].
func (f *file) CheckReservedLock() (bool, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return f.node.locks.reserved != nil, nil
}

// LockState implements [vfs.FileLockState].
func (f *file) LockState() vfs.LockLevel {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return f.level
}
