package oncesqlite

import (
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

const (
	// paceEvery is how many pages are written back until the disk gets a pause.
	paceEvery = 64
	// maxPause bounds a pause.
	maxPause = 20 * time.Millisecond
)

// paceFile is a database file. A connection that writes much of the WAL back can set a pace: the
// flush of all of it at once would hold up the flushes of the WAL, and with them every
// acknowledgement.
type paceFile struct {
	vfs.File
	// pause is asked after each part how long to wait; nil: there is no pace.
	pause   func(took time.Duration) time.Duration
	written int
}

// paced sets the pace of a connection, where its VFS is ours.
func paced(c *sqlite3.Conn, pause func(took time.Duration) time.Duration) error {
	f, err := c.FileControl("main", sqlite3.FCNTL_FILE_POINTER)
	if err != nil {
		return err
	}
	if f, ok := f.(*paceFile); ok {
		f.pause = pause
	}
	return nil
}

// WriteAt writes a page, and flushes and waits after each part.
func (f *paceFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	if err != nil || f.pause == nil {
		return n, err
	}
	if f.written++; f.written%paceEvery > 0 {
		return n, nil
	}
	begun := time.Now()
	if err := f.File.Sync(vfs.SYNC_NORMAL); err != nil {
		return 0, err
	}
	time.Sleep(min(f.pause(time.Since(begun)), maxPause))
	return n, nil
}

// SharedMemory is the wrapped file's.
func (f *paceFile) SharedMemory() vfs.SharedMemory {
	if f, ok := f.File.(vfs.FileSharedMemory); ok {
		return f.SharedMemory()
	}
	return nil
}

// Unwrap returns the file below.
func (f *paceFile) Unwrap() vfs.File { return f.File }
