package oncesqlite

import (
	"syscall"

	"github.com/ncruces/go-sqlite3/vfs"
	"golang.org/x/sys/unix"
)

// startWriting lets the kernel write a part of a file to the disk, and does not wait for it. It
// makes nothing durable: the sync in the end does, and has less to do.
func startWriting(f vfs.File, from, to int64) {
	file, ok := f.(syscall.Conn)
	if !ok {
		return // no file of the system
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // best effort
		_ = unix.SyncFileRange(int(fd), from, to-from, unix.SYNC_FILE_RANGE_WRITE)
	})
}
