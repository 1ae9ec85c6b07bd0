package powercut

import (
	"io"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// sectorSize is what the library's own VFS tells SQLite. A torn write is finer: see sectorBytes.
const sectorSize = 4096

// A file is an open handle. SQLite uses a handle from one goroutine at a time; what handles share
// is guarded by the disk's lock.
type file struct {
	disk     *Disk
	node     *node
	name     string
	shm      vfs.SharedMemory
	level    vfs.LockLevel
	readOnly bool
	syncDir  bool // the next sync is one of the directory too
	psow     bool
	keepWAL  bool
}

var (
	_ vfs.FileLockState          = (*file)(nil)
	_ vfs.FilePersistWAL         = (*file)(nil)
	_ vfs.FilePowersafeOverwrite = (*file)(nil)
	_ vfs.FileSharedMemory       = (*file)(nil)
)

// Close implements [io.Closer]. It works without power, so that handles can be let go.
func (f *file) Close() error {
	f.disk.mu.Lock()
	f.unlock(vfs.LOCK_NONE)
	f.disk.mu.Unlock()
	if f.shm != nil {
		f.shm.Close() // fails when SQLite let it go already
	}
	return nil
}

// ReadAt implements [io.ReaderAt].
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.healthy(f.disk.failReads); err != nil {
		return 0, err
	}
	var n int
	if off < int64(len(f.node.current)) {
		n = copy(p, f.node.current[off:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements [io.WriterAt].
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.readOnly {
		return 0, sqlite3.READONLY
	}
	if err := d.healthy(d.failWrites); err != nil {
		return 0, err
	}
	err := d.begin()
	f.node.write(p, off)
	if err != nil {
		return 0, err
	}
	c := d.count(f.name)
	c.Writes++
	c.Bytes += int64(len(p))
	return len(p), nil
}

// Truncate implements [vfs.File].
func (f *file) Truncate(size int64) error {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.readOnly {
		return sqlite3.READONLY
	}
	if err := d.healthy(d.noSpaceNeeded()); err != nil {
		return err
	}
	err := d.begin()
	f.node.resize(size)
	if err != nil {
		return err
	}
	d.count(f.name).Truncates++
	return nil
}

// Sync implements [vfs.File].
func (f *file) Sync(vfs.SyncFlag) error {
	d := f.disk
	d.mu.Lock()
	if err := d.healthy(d.noSpaceNeeded()); err != nil {
		d.mu.Unlock()
		return err
	}
	mark := f.node.mark()
	before, done := d.beforeSync, d.count(f.name).Syncs
	d.mu.Unlock()
	if before != nil {
		before(f.name, done)
	}
	n, after, err := f.sync(mark)
	if err != nil {
		return err
	}
	if after != nil {
		after(f.name, n)
	}
	return nil
}

// sync makes durable what the mark covers. It returns the number of the sync and the function
// to be called without the lock.
func (f *file) sync(mark int) (int, func(string, int), error) {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.healthy(d.noSpaceNeeded()); err != nil {
		return 0, nil, err
	}
	if err := d.begin(); err != nil {
		return 0, nil, err
	}
	if d.loseSync == f.name {
		d.loseSync = ""
		f.node.lose(mark)
		return 0, nil, sqlite3.IOERR_FSYNC
	}
	f.node.sync(mark)
	d.settleName(f.name, f.node)
	if f.syncDir {
		d.settleDir(f.name)
		f.syncDir = false
	}
	c := d.count(f.name)
	c.Syncs++
	return c.Syncs, d.onSync, nil
}

// Size implements [vfs.File].
func (f *file) Size() (int64, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.healthy(f.disk.failReads); err != nil {
		return 0, err
	}
	return int64(len(f.node.current)), nil
}

// SectorSize implements [vfs.File].
func (*file) SectorSize() int { return sectorSize }

// DeviceCharacteristics implements [vfs.File] with the promises of the library's own VFS on Linux
// without batch-atomic writes, so that SQLite does here what it does in production.
func (f *file) DeviceCharacteristics() vfs.DeviceCharacteristic {
	if f.psow {
		return vfs.IOCAP_SUBPAGE_READ | vfs.IOCAP_POWERSAFE_OVERWRITE
	}
	return vfs.IOCAP_SUBPAGE_READ
}

// SharedMemory implements [vfs.FileSharedMemory]; nil for files that are no main database.
func (f *file) SharedMemory() vfs.SharedMemory { return f.shm }

// PersistWAL implements [vfs.FilePersistWAL].
func (f *file) PersistWAL() bool { return f.keepWAL }

// SetPersistWAL implements [vfs.FilePersistWAL].
func (f *file) SetPersistWAL(keep bool) { f.keepWAL = keep }

// PowersafeOverwrite implements [vfs.FilePowersafeOverwrite].
func (f *file) PowersafeOverwrite() bool { return f.psow }

// SetPowersafeOverwrite implements [vfs.FilePowersafeOverwrite].
func (f *file) SetPowersafeOverwrite(psow bool) { f.psow = psow }
