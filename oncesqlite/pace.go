package oncesqlite

import (
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"
)

const (
	// paceEvery is how many pages are written back until the disk gets a pause.
	paceEvery = 128
	// pacePause is how long the pause is: longer than the disk takes for that many pages.
	pacePause = 5 * time.Millisecond
)

// paceFile is a database file. A connection that writes much of the WAL back can keep to a pace: it
// hands what it wrote to the disk part by part. All of it at once, at the sync in the end, would
// hold up the flushes of the WAL, and with them every acknowledgement.
type paceFile struct {
	vfs.File
	// hurry is asked after each part whether there is time for a pause; nil: there is no pace.
	hurry    func() bool
	written  int
	from, to int64 // what was written since the last pause
}

// paceOf returns the database file of a connection over our VFS.
func paceOf(c *sqlite3.Conn) (*paceFile, error) {
	f, err := c.FileControl("main", sqlite3.FCNTL_FILE_POINTER)
	if err != nil {
		return nil, fmt.Errorf("find the database file: %w", err)
	}
	file, ok := f.(vfs.File)
	if ok {
		if p, ok := vfsutil.UnwrapFile[*paceFile](file); ok { // the library wraps it once more
			return p, nil
		}
	}
	return nil, fmt.Errorf("find the database file: it is a %T", f)
}

// WriteAt writes a page, and pauses after each part.
func (f *paceFile) WriteAt(b []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(b, at)
	if err != nil || f.hurry == nil {
		return n, err
	}
	if f.written%paceEvery == 0 {
		f.from, f.to = at, at
	}
	f.from, f.to = min(f.from, at), max(f.to, at+int64(len(b)))
	if f.written++; f.written%paceEvery == 0 && !f.hurry() {
		startWriting(f.File, f.from, f.to)
		time.Sleep(pacePause)
	}
	return n, nil
}

// DeviceCharacteristics are the wrapped file's, but for writes that are atomic together: SQLite
// would ask for methods that are not here.
func (f *paceFile) DeviceCharacteristics() vfs.DeviceCharacteristic {
	return f.File.DeviceCharacteristics() &^ vfs.IOCAP_BATCH_ATOMIC
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
