package powercut

import (
	"crypto/rand"
	"errors"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// ErrPowerOff is what every operation gets from the moment at which the power failed. SQLite
// reports it as [sqlite3.IOERR] or [sqlite3.CANTOPEN], which wrap it only where no other operation
// came in between: ask [Disk.Off] whether the power failed.
var ErrPowerOff = errors.New("power is off")

// Disk is a simulated disk with its files, and the SQLite VFS on it. All methods are safe for
// concurrent use. Files are named as SQLite names them: "/once.db", "/once.db-wal".
type Disk struct {
	seed uint64

	mu     sync.Mutex
	names  map[string]*entry
	counts map[string]*Counts
	ops    int
	cutAt  int // value of ops at which the power fails; 0 is never
	off    bool
	offCh  chan struct{} // closed when off becomes true

	failReads, failWrites sqlite3.ErrorCode // 0 is healthy
	loseSync              string            // file whose next sync fails and loses what it covers
	beforeSync, onSync    func(file string, n int)

	vfsName string
	shmDir  string
}

// Counts tells what was done to one name, over all files that ever had it. Operations that were
// refused or in which the power failed are not counted.
type Counts struct {
	Writes    int
	Bytes     int64 // written
	Truncates int
	Syncs     int
	Deletes   int
}

// NewDisk returns an empty disk. The seed decides what [Disk.Survive] keeps, and nothing else.
func NewDisk(seed uint64) *Disk {
	return &Disk{
		seed:   seed,
		names:  make(map[string]*entry),
		counts: make(map[string]*Counts),
		offCh:  make(chan struct{}),
	}
}

// TB is what Register needs of a [testing.TB].
type TB interface {
	Cleanup(func())
	TempDir() string
}

// Register makes the disk known to SQLite and returns the name for "file:/once.db?vfs=NAME". It
// ends when the test does, after the cleanups that were registered later: close connections
// before. A second call returns the same name.
func (d *Disk) Register(t TB) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.vfsName == "" {
		d.vfsName = "powercut-" + rand.Text()
		d.shmDir = t.TempDir()
		vfs.Register(d.vfsName, diskVFS{d})
		t.Cleanup(d.Close)
	}
	return d.vfsName
}

// Close unregisters the disk and frees its files; connections to it must be closed before. The
// end of the test does the same, but a test with many disks can't wait for that. The power is off
// afterwards. Safe to call twice.
func (d *Disk) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.vfsName != "" {
		vfs.Unregister(d.vfsName)
		os.RemoveAll(d.shmDir) // best effort: the test's own cleanup does it again
	}
	d.powerOff()
	d.names = make(map[string]*entry)
}

// CutAfter lets the power fail in the nth operation from now, counted over all files: writes,
// truncations, syncs and deletions. That operation is in flight: it returns [ErrPowerOff] and may
// have reached the disk in part or in whole. n below 1 cuts at the next one; a later call
// replaces an earlier one.
func (d *Disk) CutAfter(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutAt = d.ops + max(n, 1)
}

// Cut lets the power fail now. Safe to call twice.
func (d *Disk) Cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.powerOff()
}

// Off returns a channel that is closed when the power has failed.
func (d *Disk) Off() <-chan struct{} { return d.offCh }

func (d *Disk) powerOff() {
	if !d.off {
		d.off = true
		close(d.offCh)
	}
}

// FailWrites makes every operation that changes the disk fail with the code until [Disk.Heal]:
// [sqlite3.IOERR], or [sqlite3.FULL], with which syncs, truncations and deletions still work, as
// on a full disk. Refused operations change nothing and are not counted.
func (d *Disk) FailWrites(code sqlite3.ErrorCode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failWrites = code
}

// FailReads makes every read, and every opening of a file, fail with the code until [Disk.Heal].
// With FailWrites it is a disk that is gone.
func (d *Disk) FailReads(code sqlite3.ErrorCode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failReads = code
}

// LoseSync makes the next sync of a file fail, and what it covers is lost for good: readers see it
// as before, but no later sync writes it. So Linux does it: after an error of the disk the pages
// count as clean.
func (d *Disk) LoseSync(file string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loseSync = file
}

// Heal ends what FailWrites and FailReads began.
func (d *Disk) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failWrites, d.failReads = 0, 0
}

// BeforeSync sets a function that is called when a sync of a file begins, before anything of it
// is durable, with the number of its syncs completed so far. It runs on the goroutine that syncs,
// without a lock: while it blocks, the sync waits and other operations go on, also a cut. Nil
// removes it.
func (d *Disk) BeforeSync(f func(file string, n int)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.beforeSync = f
}

// OnSync sets a function that is called after each sync of a file, when its writes are durable and
// before SQLite hears of it; n is the number of the sync, from 1. Otherwise as BeforeSync.
func (d *Disk) OnSync(f func(file string, n int)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onSync = f
}

// Ops returns how many writes, truncations, syncs and deletions were begun, over all files: the
// scale of [Disk.CutAfter].
func (d *Disk) Ops() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ops
}

// Counts returns what was done to a file so far; zero for one that never was.
func (d *Disk) Counts(file string) Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.counts[file]; c != nil {
		return *c
	}
	return Counts{}
}

// Files returns the names of the files there are, sorted.
func (d *Disk) Files() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	files := slices.Sorted(maps.Keys(d.names))
	return slices.DeleteFunc(files, func(name string) bool { return d.lookup(name) == nil })
}

// ReadFile returns a copy of what a reader sees of a file, also when the power is off; false when
// there is no such file.
func (d *Disk) ReadFile(file string) ([]byte, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.lookup(file)
	if n == nil {
		return nil, false
	}
	return slices.Clone(n.current), true
}

// healthy returns the error of an operation that may not even begin. d.mu is held.
func (d *Disk) healthy(fault sqlite3.ErrorCode) error {
	switch {
	case d.off:
		return ErrPowerOff
	case fault != 0:
		return fault
	}
	return nil
}

// noSpaceNeeded is the fault of an operation that a full disk doesn't hinder. d.mu is held.
func (d *Disk) noSpaceNeeded() sqlite3.ErrorCode {
	if d.failWrites == sqlite3.FULL {
		return 0
	}
	return d.failWrites
}

// begin counts an operation and returns ErrPowerOff if the power fails in it: the caller then
// leaves its change as one in flight. d.mu is held.
func (d *Disk) begin() error {
	d.ops++
	if d.cutAt > 0 && d.ops >= d.cutAt {
		d.powerOff()
		return ErrPowerOff
	}
	return nil
}

func (d *Disk) count(file string) *Counts {
	c := d.counts[file]
	if c == nil {
		c = new(Counts)
		d.counts[file] = c
	}
	return c
}
