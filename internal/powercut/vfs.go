package powercut

import (
	"net/url"
	"path"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"
)

// diskVFS is the face of a disk to SQLite, kept apart from the face to tests.
type diskVFS struct{ d *Disk }

var _ vfs.VFS = diskVFS{}

// journals are the files whose first sync the library's own VFS follows by one of the directory.
const journals = vfs.OPEN_MAIN_JOURNAL | vfs.OPEN_SUPER_JOURNAL | vfs.OPEN_WAL

// FullPathname implements [vfs.VFS]: every path counts from the root of the disk.
func (diskVFS) FullPathname(name string) (string, error) { return path.Clean("/" + name), nil }

// Open implements [vfs.VFS].
func (v diskVFS) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if name == "" || flags&vfs.OPEN_DELETEONCLOSE != 0 {
		return new(vfsutil.SliceFile), flags | vfs.OPEN_MEMORY, nil
	}
	d := v.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.healthy(d.failReads); err != nil {
		return nil, flags, err
	}
	n := d.lookup(name)
	create, exclusive := flags&vfs.OPEN_CREATE != 0, flags&vfs.OPEN_EXCLUSIVE != 0
	switch {
	case n == nil && !create, n != nil && create && exclusive:
		return nil, flags, sqlite3.CANTOPEN
	case n == nil:
		// A full disk has no place for a new file either.
		if err := d.healthy(d.failWrites); err != nil {
			return nil, flags, err
		}
		n = d.create(name)
	}
	f := &file{
		disk: d, node: n, name: name, psow: true,
		readOnly: flags&vfs.OPEN_READONLY != 0,
		syncDir:  create && flags&journals != 0,
	}
	if d.shmDir != "" {
		shm := filepath.Join(d.shmDir, url.PathEscape(name)+"-shm")
		f.shm = vfs.NewSharedMemory(shm, flags)
	}
	return f, flags, nil
}

// Delete implements [vfs.VFS].
func (v diskVFS) Delete(name string, syncDir bool) error {
	d := v.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.healthy(d.noSpaceNeeded()); err != nil {
		return err
	}
	if d.lookup(name) == nil {
		return sqlite3.IOERR_DELETE_NOENT
	}
	err := d.begin()
	d.remove(name)
	if err != nil {
		return err
	}
	if syncDir {
		d.settleDir(name)
	}
	d.count(name).Deletes++
	return nil
}

// Access implements [vfs.VFS].
func (v diskVFS) Access(name string, _ vfs.AccessFlag) (bool, error) {
	d := v.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.healthy(d.failReads); err != nil {
		return false, err
	}
	return d.lookup(name) != nil, nil
}
