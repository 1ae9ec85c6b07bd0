package oncesqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/ncruces/go-sqlite3"
)

// backupStep is how many pages are copied at once.
const backupStep = 512

// Backup copies the store at path, which a server may be using, to a new file. The copy is one
// consistent state: everything that was acknowledged before the call. progress, if not nil, is told
// the pages that are done and their number. An unfinished copy is removed.
func Backup(ctx context.Context, path, to string, progress func(done, total int)) (err error) {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("back up the store: %w", err)
	}
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("back up the store: %s exists already; name a new file", to)
	}
	s := &Store{cfg: Config{Path: path}}
	c, err := openReader(s.dsn(), initReader)
	if err != nil {
		return fmt.Errorf("back up the store: %w", err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	app, err := c.int("PRAGMA application_id")
	if err != nil {
		return fmt.Errorf("back up the store: %w", err)
	}
	if app != applicationID {
		return fmt.Errorf("back up the store: %s is not a store of once", path)
	}
	if err := makeFile(to, privateMode); err != nil {
		return fmt.Errorf("back up the store: %w", err)
	}
	if err := copyPages(ctx, c.raw, to, progress); err != nil {
		err = fmt.Errorf("back up the store: %w", withRoom(to, err))
		return errors.Join(err, removeIfThere(to))
	}
	return syncFile(to)
}

// privateMode is of files that hold what senders have sent. SQLite by itself lets everybody read.
const privateMode = 0o600

// makeFile makes an empty file. One that is there is left as it is.
func makeFile(path string, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return f.Close()
}

// makeFiles makes the file of a new store, and of any store the one that its processes share, which
// gets its mode. The WAL gets it when SQLite opens it.
func makeFiles(path string, fresh bool) error {
	if fresh {
		if err := makeFile(path, privateMode); err != nil {
			return err
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := makeFile(path+"-shm", info.Mode().Perm()); err != nil {
		return err
	}
	shm, err := os.Stat(path + "-shm")
	if err != nil || shm.Mode().Perm() == info.Mode().Perm() {
		return err
	}
	return os.Chmod(path+"-shm", info.Mode().Perm()) // a reader of an earlier state made it
}

// copyPages copies in one read transaction, so that the copy is one state although a server writes.
func copyPages(ctx context.Context, c *sqlite3.Conn, to string,
	progress func(int, int)) (err error) {
	if err := c.Exec("BEGIN; SELECT count(*) FROM sqlite_schema"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Exec("COMMIT")) }()
	b, err := c.BackupInit("main", (&Store{cfg: Config{Path: to}}).dsn())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	for done := false; !done; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if done, err = b.Step(backupStep); err != nil {
			return err
		}
		if progress != nil {
			progress(b.PageCount()-b.Remaining(), b.PageCount())
		}
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
