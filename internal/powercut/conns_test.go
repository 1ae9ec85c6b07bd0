package powercut_test

import (
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ncruces/go-sqlite3"
	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/oncekit/once/internal/powercut"
)

// pool opens the database as the store does: through database/sql.
func pool(t *testing.T, d *powercut.Disk, conns int, journal string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:/once.db?vfs="+d.Register(t)+
		"&_pragma=busy_timeout(20000)&_pragma=journal_mode("+journal+")"+
		"&_pragma=synchronous(FULL)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db
}

func mustExec(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.Exec(query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func count(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRow(`SELECT count(*) FROM receipt`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFullOrBrokenDiskRefusesCommitsAndRecoversByItself(t *testing.T) {
	d := powercut.NewDisk(1)
	writer, reader := pool(t, d, 1, "WAL"), pool(t, d, 2, "WAL")
	mustExec(t, writer, `CREATE TABLE receipt(id INTEGER PRIMARY KEY)`)
	insert := func(id int) error {
		_, err := writer.Exec(`INSERT INTO receipt VALUES (?)`, id)
		return err
	}
	mustExec(t, writer, `INSERT INTO receipt VALUES (1)`)

	d.FailWrites(sqlite3.FULL)
	for range 3 {
		if err := insert(2); !errors.Is(err, sqlite3.FULL) {
			t.Fatalf("commit on a full disk: %v", err)
		}
	}
	if n := count(t, reader); n != 1 {
		t.Fatalf("%d rows on a full disk, want 1", n)
	}
	d.Heal()
	if err := insert(2); err != nil {
		t.Fatalf("commit after the disk has room again: %v", err)
	}

	d.FailWrites(sqlite3.IOERR)
	d.FailReads(sqlite3.IOERR)
	for range 3 {
		if err := insert(3); !errors.Is(err, sqlite3.IOERR) {
			t.Fatalf("commit on a broken disk: %v", err)
		}
	}
	d.Heal()
	if err := insert(3); err != nil {
		t.Fatalf("commit after the disk came back: %v", err)
	}
	if n := count(t, reader); n != 3 {
		t.Fatalf("%d rows, want 3", n)
	}
	survived := d.Survive()
	if n := count(t, pool(t, survived, 1, "WAL")); n != 3 {
		t.Fatalf("%d rows after a power cut, want 3", n)
	}
}

func TestCommitReturnsOnlyAfterTheSyncOfItsWAL(t *testing.T) {
	const wal = "/once.db-wal"
	d := powercut.NewDisk(1)
	db := pool(t, d, 1, "WAL")
	mustExec(t, db, `CREATE TABLE receipt(id INTEGER PRIMARY KEY)`)

	var synced atomic.Int64
	d.OnSync(func(file string, n int) {
		if file == wal {
			synced.Store(int64(n))
		}
	})
	for id := range 5 {
		before := synced.Load()
		mustExec(t, db, `INSERT INTO receipt VALUES (?)`, id)
		if synced.Load() <= before {
			t.Fatalf("commit %d returned without a sync", id)
		}
	}

	// A commit whose sync is held back can't return, and one cut there is not acknowledged.
	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.BeforeSync(func(string, int) {
		once.Do(func() {
			close(held)
			<-release
		})
	})
	done := make(chan error, 1)
	go func() {
		_, err := db.Exec(`INSERT INTO receipt VALUES (100)`)
		done <- err
	}()
	<-held
	select {
	case err := <-done:
		t.Fatalf("the commit returned before its sync: %v", err)
	default:
	}
	d.Cut()
	close(release)
	if err := <-done; err == nil {
		t.Fatal("a commit was acknowledged although the power failed in its sync")
	}
}

func TestConnectionsShareTheDiskWithoutSeeingHalfACommit(t *testing.T) {
	for _, journal := range []string{"WAL", "DELETE"} {
		t.Run(journal, func(t *testing.T) {
			d := powercut.NewDisk(1)
			db := pool(t, d, 6, journal)
			mustExec(t, db, `CREATE TABLE a(n INTEGER); INSERT INTO a VALUES (0);
				CREATE TABLE b(n INTEGER); INSERT INTO b VALUES (0)`)
			const writers, commits = 2, 30
			var all, loads sync.WaitGroup
			stop := make(chan struct{})
			errs := make(chan error, 10)
			for range writers {
				loads.Add(1)
				go func() {
					defer loads.Done()
					if err := addBoth(db, commits); err != nil {
						errs <- err
					}
				}()
			}
			for range 3 {
				all.Add(1)
				go func() {
					defer all.Done()
					if err := watchBoth(db, stop); err != nil {
						errs <- err
					}
				}()
			}
			loads.Wait()
			close(stop)
			all.Wait()
			select {
			case err := <-errs:
				t.Fatal(err)
			default:
			}
			var n int
			if err := db.QueryRow(`SELECT n FROM a`).Scan(&n); err != nil || n != writers*commits {
				t.Fatalf("counter %d (%v), want %d: commits were lost", n, err, writers*commits)
			}
		})
	}
}

// addBoth counts up in both tables, each time in one transaction.
func addBoth(db *sql.DB, commits int) error {
	for range commits {
		tx, err := db.Begin() // immediate is the driver's default
		if err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		for _, query := range []string{`UPDATE a SET n = n + 1`, `UPDATE b SET n = n + 1`} {
			if _, err := tx.Exec(query); err != nil {
				return errors.Join(fmt.Errorf("%s: %w", query, err), tx.Rollback())
			}
		}
		if err := tx.Commit(); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
	return nil
}

// watchBoth reads until stopped; both counters must be equal and never fall.
func watchBoth(db *sql.DB, stop <-chan struct{}) error {
	last := 0
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		var a, b int
		if err := db.QueryRow(`SELECT a.n, b.n FROM a, b`).Scan(&a, &b); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if a != b || a < last {
			return fmt.Errorf("read %d and %d after %d", a, b, last)
		}
		last = a
	}
}
