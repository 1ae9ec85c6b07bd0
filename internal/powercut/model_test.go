package powercut

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

const rw = vfs.OPEN_READWRITE | vfs.OPEN_CREATE

func open(t *testing.T, d *Disk, name string) vfs.File {
	t.Helper()
	f, _, err := diskVFS{d}.Open(name, rw|vfs.OPEN_MAIN_DB)
	if err != nil {
		t.Fatalf("open %s: %v", name, err)
	}
	return f
}

func write(t *testing.T, f vfs.File, off int64, text string) {
	t.Helper()
	if _, err := f.WriteAt([]byte(text), off); err != nil {
		t.Fatalf("write: %v", err)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// survivors returns every distinct content of a file over many seeds, sorted; "-" is no file.
func survivors(d *Disk, name string) []string {
	seen := make(map[string]bool)
	for seed := range uint64(400) {
		image, there := d.SurviveWith(seed).ReadFile(name)
		if !there {
			image = []byte("-")
		}
		seen[string(image)] = true
	}
	var all []string
	for image := range seen {
		all = append(all, image)
	}
	slices.Sort(all)
	return all
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("survivors %q, want %q", got, want)
	}
}

func TestReaderSeesUnsyncedWrites(t *testing.T) {
	d := NewDisk(1)
	f := open(t, d, "/a")
	write(t, f, 2, "xy")
	p := make([]byte, 6)
	n, _ := open(t, d, "/a").ReadAt(p, 0)
	if n != 4 || string(p[:n]) != "\x00\x00xy" {
		t.Fatalf("read %q", p[:n])
	}
	if size, _ := f.Size(); size != 4 {
		t.Fatalf("size %d, want 4", size)
	}
}

func TestSyncedContentAlwaysSurvives(t *testing.T) {
	d := NewDisk(1)
	f := open(t, d, "/a")
	write(t, f, 0, "abcd")
	ok(t, f.Truncate(3))
	ok(t, f.Sync(vfs.SYNC_FULL))
	want(t, survivors(d, "/a"), "abc")
}

func TestUnsyncedWritesMaySurviveInAnySubset(t *testing.T) {
	d := NewDisk(1)
	f := open(t, d, "/a")
	write(t, f, 0, "....")
	ok(t, f.Sync(vfs.SYNC_FULL))
	write(t, f, 0, "1")
	write(t, f, 1, "2")
	write(t, f, 3, "3")
	want(t, survivors(d, "/a"),
		"....", "1...", ".2..", "...3", "12..", "1..3", ".2.3", "12.3")
}

func TestOverlappingUnsyncedWritesMayBeReordered(t *testing.T) {
	d := NewDisk(1)
	f := open(t, d, "/a")
	write(t, f, 0, "..")
	ok(t, f.Sync(vfs.SYNC_FULL))
	write(t, f, 0, "11")
	write(t, f, 1, "2")
	want(t, survivors(d, "/a"), "..", "11", "12", ".2")
}

func TestDroppedGrowthMayLeaveZeros(t *testing.T) {
	d := NewDisk(1)
	f := open(t, d, "/a")
	write(t, f, 0, "a")
	ok(t, f.Sync(vfs.SYNC_FULL))
	write(t, f, 1, "b")
	want(t, survivors(d, "/a"), "a", "ab", "a\x00")
}

func TestUnsyncedTruncationMayBeLost(t *testing.T) {
	d := NewDisk(1)
	f := open(t, d, "/a")
	write(t, f, 0, "abc")
	ok(t, f.Sync(vfs.SYNC_FULL))
	ok(t, f.Truncate(1))
	want(t, survivors(d, "/a"), "abc", "a")
}

func TestTruncatedBytesReadAsZerosAfterGrowth(t *testing.T) {
	d := NewDisk(1)
	f := open(t, d, "/a")
	write(t, f, 0, "abc")
	ok(t, f.Truncate(1))
	write(t, f, 2, "z")
	ok(t, f.Sync(vfs.SYNC_FULL))
	want(t, survivors(d, "/a"), "a\x00z")
}

func TestTornWriteTearsAtSectorsOnly(t *testing.T) {
	d := NewDisk(1)
	f := open(t, d, "/a")
	write(t, f, 0, strings.Repeat(".", 3*512))
	ok(t, f.Sync(vfs.SYNC_FULL))
	// From the middle of the first sector to the middle of the third: three parts.
	write(t, f, 256, strings.Repeat("x", 2*512))
	got := survivors(d, "/a")
	if len(got) != 8 {
		t.Fatalf("%d images, want each subset of three parts", len(got))
	}
	for _, image := range got {
		for _, part := range []string{image[256:512], image[512:1024], image[1024:1280]} {
			if strings.Trim(part, ".") != "" && strings.Trim(part, "x") != "" {
				t.Fatalf("a sector was torn: %q", part)
			}
		}
		if strings.Contains(image[:256]+image[1280:], "x") {
			t.Fatal("bytes beside the write were damaged")
		}
	}
}

func TestCreationIsDurableWithTheFilesOwnSync(t *testing.T) {
	d := NewDisk(1)
	a, _ := open(t, d, "/a"), open(t, d, "/b")
	ok(t, a.Sync(vfs.SYNC_FULL))
	want(t, survivors(d, "/a"), "")
	want(t, survivors(d, "/b"), "", "-")
}

func TestDeletionMayBeLostUntilTheDirectoryIsSynced(t *testing.T) {
	setup := func(syncDir bool) *Disk {
		d := NewDisk(1)
		f := open(t, d, "/a")
		write(t, f, 0, "old")
		ok(t, f.Sync(vfs.SYNC_FULL))
		ok(t, diskVFS{d}.Delete("/a", syncDir))
		return d
	}
	want(t, survivors(setup(false), "/a"), "old", "-")
	want(t, survivors(setup(true), "/a"), "-")

	d := setup(false)
	f := open(t, d, "/a")
	if size, _ := f.Size(); size != 0 {
		t.Fatal("the new file is not empty")
	}
	want(t, survivors(d, "/a"), "old", "-", "")

	d = setup(false)
	f = open(t, d, "/a")
	ok(t, f.Sync(vfs.SYNC_FULL))
	want(t, survivors(d, "/a"), "")
	if err := (diskVFS{d}).Delete("/c", true); !errors.Is(err, ErrPowerOff) {
		t.Fatalf("delete without power: %v", err)
	}
}

func TestFirstSyncOfAJournalSettlesItsDirectory(t *testing.T) {
	d := NewDisk(1)
	open(t, d, "/a")
	open(t, d, "/other/a")
	f, _, err := diskVFS{d}.Open("/a-wal", rw|vfs.OPEN_WAL)
	ok(t, err)
	ok(t, f.Sync(vfs.SYNC_FULL))
	open(t, d, "/b")
	ok(t, f.Sync(vfs.SYNC_FULL))
	want(t, survivors(d, "/a"), "")
	want(t, survivors(d, "/other/a"), "", "-")
	want(t, survivors(d, "/b"), "", "-")
}

func TestPowerFailsInTheChosenOperation(t *testing.T) {
	d := NewDisk(1)
	f := open(t, d, "/a")
	write(t, f, 0, "a")
	ok(t, f.Sync(vfs.SYNC_FULL))
	d.CutAfter(2)
	write(t, f, 1, "b")
	select {
	case <-d.Off():
		t.Fatal("the power failed too early")
	default:
	}
	if err := f.Sync(vfs.SYNC_FULL); !errors.Is(err, ErrPowerOff) {
		t.Fatalf("sync in which the power failed: %v", err)
	}
	<-d.Off()
	_, readErr := f.ReadAt(make([]byte, 1), 0)
	_, writeErr := f.WriteAt([]byte("c"), 0)
	_, sizeErr := f.Size()
	_, _, openErr := diskVFS{d}.Open("/a", rw)
	_, accessErr := diskVFS{d}.Access("/a", vfs.ACCESS_EXISTS)
	for _, err := range []error{readErr, writeErr, sizeErr, openErr, accessErr, f.Truncate(0),
		f.Sync(vfs.SYNC_FULL), f.Lock(vfs.LOCK_SHARED), diskVFS{d}.Delete("/a", true)} {
		if !errors.Is(err, ErrPowerOff) {
			t.Fatalf("operation without power: %v", err)
		}
	}
	if d.Ops() != 4 {
		t.Fatalf("%d operations, want 4: refused ones don't count", d.Ops())
	}
	if c := d.Counts("/a"); c != (Counts{Writes: 2, Bytes: 2, Syncs: 1}) {
		t.Fatalf("counts %+v", c)
	}
	want(t, survivors(d, "/a"), "a", "ab", "a\x00")
}

func TestSyncCoversOnlyWhatWasWrittenBeforeItBegan(t *testing.T) {
	d := NewDisk(1)
	f, other := open(t, d, "/a"), open(t, d, "/a")
	write(t, f, 0, "..")
	ok(t, f.Sync(vfs.SYNC_FULL))
	write(t, f, 0, "1")
	var order []string
	d.BeforeSync(func(file string, n int) {
		order = append(order, "before", file)
		if n != 1 {
			t.Errorf("%d syncs before the second", n)
		}
		write(t, other, 1, "2")
	})
	d.OnSync(func(file string, n int) {
		order = append(order, "after", file)
		if n != 2 || d.Counts(file).Syncs != 2 {
			t.Errorf("sync %d, want 2", n)
		}
	})
	ok(t, f.Sync(vfs.SYNC_FULL))
	if !slices.Equal(order, []string{"before", "/a", "after", "/a"}) {
		t.Fatalf("order %q", order)
	}
	want(t, survivors(d, "/a"), "1.", "12")
}

func TestFaultsRefuseAndHeal(t *testing.T) {
	d := NewDisk(1)
	f := open(t, d, "/a")
	write(t, f, 0, "a")
	d.FailWrites(sqlite3.FULL)
	if _, err := f.WriteAt([]byte("b"), 1); err != sqlite3.FULL {
		t.Fatalf("write to a full disk: %v", err)
	}
	if _, _, err := (diskVFS{d}).Open("/b", rw); err != sqlite3.FULL {
		t.Fatalf("create on a full disk: %v", err)
	}
	ok(t, f.Sync(vfs.SYNC_FULL))
	d.FailWrites(sqlite3.IOERR)
	d.FailReads(sqlite3.IOERR)
	_, readErr := f.ReadAt(make([]byte, 1), 0)
	for _, err := range []error{readErr, f.Sync(vfs.SYNC_FULL), f.Truncate(0),
		diskVFS{d}.Delete("/a", false)} {
		if err != sqlite3.IOERR {
			t.Fatalf("operation on a broken disk: %v", err)
		}
	}
	d.Heal()
	write(t, f, 1, "c")
	if image, _ := d.ReadFile("/a"); !bytes.Equal(image, []byte("ac")) {
		t.Fatalf("content %q, want ac", image)
	}
}

func TestEqualSeedsLeaveEqualDisks(t *testing.T) {
	load := func() *Disk {
		d := NewDisk(7)
		for _, name := range []string{"/a", "/b", "/c"} {
			f := open(t, d, name)
			for i := range int64(20) {
				write(t, f, i*300, strings.Repeat(string(rune('a'+i)), 700))
			}
		}
		return d
	}
	one, two := load().Survive(), load().Survive()
	if !slices.Equal(one.Files(), two.Files()) {
		t.Fatalf("files %q and %q", one.Files(), two.Files())
	}
	for _, name := range one.Files() {
		a, _ := one.ReadFile(name)
		b, _ := two.ReadFile(name)
		if !bytes.Equal(a, b) {
			t.Fatalf("%s differs", name)
		}
	}
}

func TestSurvivorsShareNothing(t *testing.T) {
	d := NewDisk(1)
	f := open(t, d, "/a")
	write(t, f, 0, "abc")
	ok(t, f.Sync(vfs.SYNC_FULL))
	one, two := d.Survive(), d.Survive()
	write(t, open(t, one, "/a"), 0, "x")
	if image, _ := two.ReadFile("/a"); string(image) != "abc" {
		t.Fatalf("content %q, want abc", image)
	}
	if image, _ := d.ReadFile("/a"); string(image) != "abc" {
		t.Fatalf("content %q, want abc", image)
	}
}

func TestFileLocksExcludeAsSQLiteExpects(t *testing.T) {
	d := NewDisk(1)
	a, b, c := open(t, d, "/a"), open(t, d, "/a"), open(t, d, "/a")
	busy := func(err error) {
		t.Helper()
		if err != sqlite3.BUSY {
			t.Fatalf("lock: %v, want busy", err)
		}
	}
	ok(t, a.Lock(vfs.LOCK_SHARED))
	ok(t, b.Lock(vfs.LOCK_SHARED))
	ok(t, a.Lock(vfs.LOCK_RESERVED))
	busy(b.Lock(vfs.LOCK_RESERVED))
	if reserved, _ := c.CheckReservedLock(); !reserved {
		t.Fatal("the reserved lock is not seen")
	}
	busy(a.Lock(vfs.LOCK_EXCLUSIVE)) // b reads
	busy(c.Lock(vfs.LOCK_SHARED))    // a is waiting
	ok(t, b.Unlock(vfs.LOCK_NONE))
	ok(t, a.Lock(vfs.LOCK_EXCLUSIVE))
	busy(c.Lock(vfs.LOCK_SHARED))
	ok(t, a.Unlock(vfs.LOCK_SHARED))
	ok(t, c.Lock(vfs.LOCK_SHARED))
	ok(t, a.Close())
	// A hot journal is rolled back from shared to exclusive.
	ok(t, c.Lock(vfs.LOCK_EXCLUSIVE))
	busy(b.Lock(vfs.LOCK_SHARED))
	d.Cut()
	ok(t, c.Close())
}
