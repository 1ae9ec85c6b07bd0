package oncesqlite

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/ncruces/go-sqlite3/vfs"
)

// One flush of everything that is written back would hold up the flushes of the WAL.
func TestTheWALIsWrittenBackInParts(t *testing.T) {
	const rows, bodyBytes = 3 * paceEvery, 8 << 10
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	for i := range rows {
		a := callback(fmt.Sprint("callback ", i))
		a.Body = make([]byte, bodyBytes)
		mustAppend(t, s, a)
	}
	c, err := openReader(s.writerDSN(), s.initCheckpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	f, err := paceOf(c.raw)
	if err != nil {
		t.Fatal(err)
	}
	if f.hurry == nil {
		t.Fatal("the connection that writes back keeps to no pace")
	}
	var pauses atomic.Int64
	f.hurry = func() bool { pauses.Add(1); return false }
	file := &countingFile{File: f.File}
	f.File = file
	if _, _, err := c.raw.WALCheckpoint("main", 0); err != nil {
		t.Fatal(err)
	}
	if n := pauses.Load(); file.writes < 2*paceEvery || n != int64(file.writes/paceEvery) {
		t.Errorf("%d pages were written back with %d pauses, want one each %d", file.writes, n,
			paceEvery)
	}
}

// countingFile counts the writes to a file.
type countingFile struct {
	vfs.File
	writes int
}

func (f *countingFile) WriteAt(b []byte, at int64) (int, error) {
	f.writes++
	return f.File.WriteAt(b, at)
}

func (f *countingFile) SharedMemory() vfs.SharedMemory {
	return f.File.(vfs.FileSharedMemory).SharedMemory()
}
