package oncesqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

const childEnv = "ONCE_TEST_OPEN"

// TestOpenInAnotherProcess is what the other process of the test below runs.
func TestOpenInAnotherProcess(t *testing.T) {
	path := os.Getenv(childEnv)
	if path == "" {
		return
	}
	s, err := Open(t.Context(), Config{Path: path})
	if err == nil {
		t.Error("opened", s.Close())
		return
	}
	fmt.Println("refused:", err, "locked:", errors.Is(err, once.ErrLocked))
}

func TestASecondProcessIsRefusedAndToldTheFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.db")
	s := openAt(t, Config{Path: path})
	child := exec.Command(os.Args[0], "-test.run=^TestOpenInAnotherProcess$", "-test.v")
	child.Env = append(os.Environ(), childEnv+"="+path)
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("the other process: %v\n%s", err, out)
	}
	for _, want := range []string{"refused:", fmt.Sprint("process ", os.Getpid(), " on "),
		"locked: true", path + ".lock"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the other process says %q, want %q in it", out, want)
		}
	}
	mustAppend(t, s, callback("still works"))
}

func TestASecondOpenIsRefusedUntilTheFirstIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.db")
	s := openAt(t, Config{Path: path})
	_, err := Open(t.Context(), Config{Path: path})
	var locked *LockedError
	if !errors.As(err, &locked) || !strings.Contains(locked.Owner, fmt.Sprint(os.Getpid())) {
		t.Fatalf("second open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	openAt(t, Config{Path: path})
}

func TestCloseTwiceAndUseAfterwards(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Append(t.Context(), []queue.Arrival{callback("x")})
	if !errors.Is(err, once.ErrUnavailable) {
		t.Errorf("append after close: %v", err)
	}
	if _, err := s.Rows(t.Context(), queue.RowQuery{Limit: 1}); err == nil {
		t.Error("rows after close: no error")
	}
	errs := s.Settle(t.Context(), []queue.Settlement{{}})
	if !errors.Is(errs[0], once.ErrUnavailable) {
		t.Errorf("settle after close: %v", errs[0])
	}
}

func TestAClockThatRunsBackwardsIsHeld(t *testing.T) {
	clock := newClock()
	cfg := Config{Path: filepath.Join(t.TempDir(), "once.db"), Now: clock.now}
	s := openAt(t, cfg)
	mustAppend(t, s, callback("a"))
	at := rowOf(t, s, queue.Callback, identityOf("a")).ReceivedAt
	clock.advance(-24 * time.Hour)
	mustAppend(t, s, callback("b"))
	if got := rowOf(t, s, queue.Callback, identityOf("b")).ReceivedAt; got.Before(at) {
		t.Errorf("the later one came at %v, the earlier one at %v", got, at)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, cfg)
	mustAppend(t, s, callback("c"))
	if got := rowOf(t, s, queue.Callback, identityOf("c")).ReceivedAt; got.Before(at) {
		t.Errorf("after a restart %v, the earlier one at %v", got, at)
	}
	if rows := mustLease(t, s, testLane, 5); len(rows) != 3 {
		t.Errorf("%d rows are due", len(rows))
	}
}

// written makes a database file by SQL and returns its bytes.
func written(t *testing.T, path, sql string) []byte {
	t.Helper()
	c, err := sqlite3.Open("file:" + path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Exec(sql); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return read(t, path)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFilesThatAreNotOursAreRefusedAndLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		make func(path string) []byte
		want string
	}{
		"another program's": {func(path string) []byte {
			return written(t, path, "CREATE TABLE books (id)")
		}, "another program"},
		"another program's, marked": {func(path string) []byte {
			return written(t, path, "PRAGMA application_id=7; CREATE TABLE books (id)")
		}, "another program"},
		"marked and empty": {func(path string) []byte {
			return written(t, path, "PRAGMA application_id=7")
		}, "another program"},
		"no database": {func(path string) []byte {
			b := bytes.Repeat([]byte("robots: []\n"), 500)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			return b
		}, "the file is not a database: it holds something else, or its beginning is damaged; " +
			"name another file, or put a backup in its place"},
	} {
		path := filepath.Join(t.TempDir(), "other.db")
		before := c.make(path)
		s, err := Open(t.Context(), Config{Path: path})
		if err == nil {
			t.Errorf("%s: opened, closed with %v", name, s.Close())
			continue
		}
		if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Equal(read(t, path), before) {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func TestAnotherSchemaIsRefusedAndLeftAlone(t *testing.T) {
	for version, says := range map[string]string{
		"99": "newer version (schema 99", "1": "before the first release (schema 1",
	} {
		path := filepath.Join(t.TempDir(), "once.db")
		if err := openAt(t, Config{Path: path}).Close(); err != nil {
			t.Fatal(err)
		}
		before := written(t, path, "PRAGMA user_version="+version)
		_, err := Open(t.Context(), Config{Path: path})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("open: %v", err)
		}
		if !bytes.Equal(read(t, path), before) {
			t.Error("the file was changed")
		}
	}
}

func TestCreateFalse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.db")
	if _, err := Open(t.Context(), Config{Path: path, NoCreate: true}); err == nil {
		t.Fatal("a file that is not there: no error")
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Path: path, NoCreate: true}); err == nil {
		t.Error("an empty file: no error")
	}
	s := openAt(t, Config{Path: path})
	if !s.Created() {
		t.Error("a new store doesn't say so")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s := openAt(t, Config{Path: path, NoCreate: true}); s.Created() {
		t.Error("an old store says that it is new")
	}
}

func TestAPathWhereNoStoreCanBeIsToldWithWhatToDo(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"": "open store: no path is given",
		at("none/once.db"): "open store " + at("none/once.db") + ": the folder " + at("none") +
			" does not exist; create it, or name another path",
		at("none/deep/once.db"): "open store " + at("none/deep/once.db") + ": the folder " +
			at("none/deep") + " does not exist; create it, or name another path",
		at("file/once.db"): "open store " + at("file/once.db") + ": " + at("file") +
			" is a file and no folder; name another path",
		at("file/deep/once.db"): "open store " + at("file/deep/once.db") + ": " +
			at("file/deep") + " is below a file; name another path",
		dir: "open store " + dir + ": this is a folder; name a file in it, such as " +
			at("once.db"),
	} {
		for _, noCreate := range []bool{false, true} {
			s, err := Open(t.Context(), Config{Path: path, NoCreate: noCreate})
			if err == nil {
				t.Errorf("path %q: opened, closed with %v", path, s.Close())
			} else if err.Error() != want {
				t.Errorf("path %q:\n got %v\nwant %s", path, err, want)
			}
		}
		if path == "" {
			continue
		}
		_, err := OpenReader(path)
		if want := "read" + strings.TrimPrefix(want, "open"); err == nil || err.Error() != want {
			t.Errorf("reader of %q:\n got %v\nwant %s", path, err, want)
		}
	}
	if _, err := os.Stat(dir + ".lock"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a lock file was left beside the folder: %v", err)
	}
}

func TestPathsWithOddCharacters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b?c#d%20é")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "once;mode=ro.db")
	s := openAt(t, Config{Path: path})
	mustAppend(t, s, callback("x"))
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the file is elsewhere: %v", err)
	}
	to := filepath.Join(dir, "copy?x.db")
	if err := Backup(t.Context(), path, to, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(to); err != nil {
		t.Errorf("the copy is elsewhere: %v", err)
	}
}

func TestTheFilesBesideAStoreGetItsModeAtEveryStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.db")
	modes := func(when string) {
		t.Helper()
		for _, name := range []string{path, path + "-wal", path + "-shm"} {
			info, err := os.Stat(name)
			if err != nil || info.Mode().Perm() != privateMode {
				t.Errorf("%s: %s has %v, %v", when, filepath.Base(name), info.Mode(), err)
			}
		}
	}
	for _, when := range []string{"new", "again"} {
		s, err := Open(t.Context(), Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		mustAppend(t, s, callback(when))
		modes(when)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path + "-shm"); err == nil && info.Mode().Perm() != privateMode {
		t.Errorf("a reader's -shm has %v", info.Mode())
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
