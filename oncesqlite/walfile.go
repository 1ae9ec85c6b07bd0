package oncesqlite

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// SQLite writes the WAL frame by frame, two system calls each. The connection that writes hands
// them to the file in one piece when it syncs: before the sync nobody else may look at them, since
// the WAL index does not name them yet. The sync of a commit itself is left to the goroutine that
// flushes. See docs/adr/0006-sqlite-writes.md.

// walVFSPrefix is put before the name of the VFS that is wrapped.
const walVFSPrefix = "once-wal-"

// walVFS registers a VFS that gathers the writes to WAL files over the one named base, and returns
// its name. Equal bases share one.
func walVFS(base string) string {
	name := walVFSPrefix + base
	if under := vfs.Find(base); under != nil && vfs.Find(name) == nil {
		vfs.Register(name, gatherVFS{under})
	}
	return name
}

// gatherVFS is a VFS whose WAL files gather writes, and whose database files can be written at a
// pace. Everything else is the wrapped one's.
type gatherVFS struct{ vfs.VFS }

// OpenFilename opens a file.
func (g gatherVFS) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (
	f vfs.File, out vfs.OpenFlag, err error) {
	if under, ok := g.VFS.(vfs.VFSFilename); ok {
		f, out, err = under.OpenFilename(name, flags)
	} else {
		f, out, err = g.Open(name.String(), flags)
	}
	switch {
	case err != nil:
	case flags&vfs.OPEN_WAL != 0:
		f = &gatherFile{File: f}
	case flags&vfs.OPEN_MAIN_DB != 0:
		f = &paceFile{File: f}
	}
	return f, out, err
}

// maxGather bounds what is kept back, in bytes: the frames of a large transaction.
const maxGather = 1 << 20

// gatherFile keeps writes that follow each other back until they are synced, read, or many.
type gatherFile struct {
	vfs.File
	at   int64
	kept []byte
	// later leaves the syncs that SQLite asks for to syncLater. The header of the WAL is synced at
	// once all the same: frames of the round before must never be taken for new ones.
	later  bool
	header bool // was written since the last sync

	syncing sync.Mutex
	// broken is the error of a sync that failed. The system tells it once for each open file, so
	// every later sync returns it, whoever asks: what the failed one covered may be lost.
	broken error
	mu     sync.Mutex
	// unsynced is what was written and is in no sync that succeeded.
	unsynced span
}

// span is a part of a file; the zero value is none of it.
type span struct{ from, to int64 }

// with returns the shortest span that holds both.
func (s span) with(o span) span {
	switch {
	case s.from == s.to:
		return o
	case o.from == o.to:
		return s
	}
	return span{min(s.from, o.from), max(s.to, o.to)}
}

// walHeader is the length of the header of a WAL.
const walHeader = 32

// walOf returns the WAL of a connection in which a transaction has begun; nil if nobody gathers its
// writes.
func walOf(c *sqlite3.Conn) (*gatherFile, error) {
	f, err := c.FileControl("main", sqlite3.FCNTL_JOURNAL_POINTER)
	if err != nil {
		return nil, fmt.Errorf("find the WAL: %w", err)
	}
	wal, _ := f.(*gatherFile)
	return wal, nil
}

// handOn hands what is kept back to the file.
func (f *gatherFile) handOn() error {
	if len(f.kept) == 0 {
		return nil
	}
	_, err := f.write(f.kept, f.at)
	f.kept = f.kept[:0]
	return err
}

// write hands bytes to the file.
func (f *gatherFile) write(b []byte, at int64) (int, error) {
	f.mu.Lock()
	f.unsynced = f.unsynced.with(span{at, at + int64(len(b))})
	f.mu.Unlock()
	return f.File.WriteAt(b, at)
}

// WriteAt keeps the write back, or hands on what it doesn't follow.
func (f *gatherFile) WriteAt(b []byte, at int64) (int, error) {
	if at != f.at+int64(len(f.kept)) || len(f.kept)+len(b) > maxGather {
		if err := f.handOn(); err != nil {
			return 0, err
		}
		f.at = at
	}
	f.kept = append(f.kept, b...)
	f.header = f.header || at < walHeader
	return len(b), nil
}

// ReadAt reads what was written, kept back or not.
func (f *gatherFile) ReadAt(b []byte, at int64) (int, error) {
	if err := f.handOn(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, at)
}

// Truncate cuts the file after what was written.
func (f *gatherFile) Truncate(size int64) error {
	if err := f.handOn(); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

// Sync makes everything durable that was written, or leaves that to syncLater.
func (f *gatherFile) Sync(flags vfs.SyncFlag) error {
	if err := f.handOn(); err != nil {
		return err
	}
	if f.later && !f.header {
		return nil
	}
	f.header = false
	return f.sync(flags)
}

// syncLater makes durable what Sync left. It may be called beside the other methods.
func (f *gatherFile) syncLater() error { return f.sync(vfs.SYNC_NORMAL) }

func (f *gatherFile) sync(flags vfs.SyncFlag) error {
	f.syncing.Lock()
	defer f.syncing.Unlock()
	if f.broken != nil {
		return f.broken
	}
	covered := f.takeUnsynced()
	if f.broken = f.File.Sync(flags); f.broken != nil {
		f.mu.Lock()
		f.unsynced = f.unsynced.with(covered)
		f.mu.Unlock()
	}
	return f.broken
}

// takeUnsynced returns what is in no sync that succeeded, and forgets it.
func (f *gatherFile) takeUnsynced() span {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.unsynced
	f.unsynced = span{}
	return s
}

// writeAgain writes a part of the file a second time, and syncs it. After a sync that failed the
// system takes what it covered for written: another sync alone would succeed and write nothing.
func (f *gatherFile) writeAgain(s span) error {
	b := make([]byte, maxGather)
	for at := s.from; at < s.to; {
		n, err := f.File.ReadAt(b[:min(int64(len(b)), s.to-at)], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 0 { // it was cut meanwhile
			break
		}
		if _, err := f.write(b[:n], at); err != nil {
			return err
		}
		at += int64(n)
	}
	return f.syncLater()
}

// Size is the size after what was written.
func (f *gatherFile) Size() (int64, error) {
	if err := f.handOn(); err != nil {
		return 0, err
	}
	return f.File.Size()
}

// Close hands on what is kept back: SQLite does not sync what nobody relies on.
func (f *gatherFile) Close() error {
	err := f.handOn()
	if cerr := f.File.Close(); err == nil {
		err = cerr
	}
	return err
}

// Unwrap returns the file below.
func (f *gatherFile) Unwrap() vfs.File { return f.File }
