package oncesqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

const (
	// writeEnv is how long the writers write in a long run; the case asks for 90 s.
	writeEnv = "ONCE_WRITE_FOR"
	// defaultWrite is as long as a quick run has time for.
	defaultWrite = 2 * time.Second
)

func writeFor(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(writeEnv)
	if text == "" {
		return defaultWrite
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("%s=%q is no duration", writeEnv, text)
	}
	return d
}

func TestL01_ManyWritersNeverMeetALockedDatabase(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db"), segmentRows: 64,
		checkpointPages: 50})
	const writers, readers = 50, 10
	end, ended := context.WithTimeout(t.Context(), writeFor(t))
	defer ended()
	var wg sync.WaitGroup
	var written atomic.Int64
	for w := range writers {
		wg.Go(func() {
			for i := 0; end.Err() == nil; i++ {
				_, err := s.Append(t.Context(), []queue.Arrival{callback(fmt.Sprint(w, "/", i))})
				if err != nil {
					t.Errorf("append: %v", err)
				}
				written.Add(1)
			}
		})
	}
	for range readers {
		wg.Go(func() {
			for end.Err() == nil {
				if _, err := s.Rows(t.Context(), queue.RowQuery{Kind: queue.Callback, Limit: 3,
					Source: "robots"}); err != nil {
					t.Errorf("rows: %v", err)
				}
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for end.Err() == nil {
				for _, row := range leaseAny(t, s, 10) {
					err := s.Settle(t.Context(), []queue.Settlement{{Grant: row.Grant(),
						State: queue.Done}})[0]
					if err != nil {
						t.Errorf("settle: %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := scan(t, s, "SELECT count(*) FROM rows")[0]; n != written.Load() || n < writers {
		t.Errorf("%d rows, want the %d that were written", n, written.Load())
	}
	checkFile(t, s)
}

func leaseAny(t *testing.T, s *Store, max int) []queue.Row {
	got, err := s.Lease(t.Context(), queue.LeaseRequest{Lane: testLane, Max: max, For: 1e12})
	if err != nil {
		t.Errorf("lease: %v", err)
	}
	return got.Rows
}

func TestAReaderDoesNotHoldUpTheWriter(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	mustAppend(t, s, callback("before"))
	err := s.read(t.Context(), func(c *conn) error {
		count := func() int64 {
			n, err := c.int("SELECT count(*) FROM rows")
			if err != nil {
				t.Error(err)
			}
			return n
		}
		if n := count(); n != 1 {
			t.Errorf("%d rows", n)
		}
		mustAppend(t, s, callback("meanwhile")) // it would wait for ever
		if n := count(); n != 1 {
			t.Errorf("the reader's view moved to %d rows", n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCloseAnswersEveryCall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.db")
	s := openAt(t, Config{Path: path})
	var wg sync.WaitGroup
	var acknowledged sync.Map
	var begun atomic.Int64
	for w := range 20 {
		wg.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprint(w, "/", i)
				_, err := s.Append(context.Background(), []queue.Arrival{callback(name)})
				if err != nil {
					if !errors.Is(err, once.ErrUnavailable) {
						t.Errorf("append: %v", err)
					}
					return
				}
				acknowledged.Store(name, true)
				begun.Add(1)
			}
		})
	}
	until(t, "some appends", func() bool { return begun.Load() > 50 })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait() // a call without an answer hangs here
	s = openAt(t, Config{Path: path})
	acknowledged.Range(func(name, _ any) bool {
		rowOf(t, s, queue.Callback, identityOf(name.(string)))
		return true
	})
	checkFile(t, s)
}

func TestARestartWith20000RowsPendingKeepsAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.db")
	s := openAt(t, Config{Path: path})
	const n, part = 20_000, 1000
	for i := 0; i < n; i += part {
		var as []queue.Arrival
		for j := range part {
			as = append(as, callback(fmt.Sprint(i+j)))
		}
		mustAppend(t, s, as...)
	}
	killed := filepath.Join(t.TempDir(), "killed.db")
	copyStore(t, path, killed)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{path, killed} {
		s := openAt(t, Config{Path: from})
		if got := scan(t, s, "SELECT count(*) FROM rows WHERE phase = 0")[0]; got != n {
			t.Errorf("%d rows are due, want %d", got, n)
		}
		if rows := mustLease(t, s, testLane, 10); len(rows) != 10 || string(rows[0].Body) != "0" {
			t.Errorf("leased %d rows", len(rows))
		}
		if from == killed {
			checkFile(t, s)
		}
	}
}

func TestABackupWhileWritingIsCompleteAndSound(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "once.db")
	s := openAt(t, Config{Path: path})
	var done atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			_, err := s.Append(t.Context(), []queue.Arrival{callback(fmt.Sprint(i))})
			if err != nil {
				t.Errorf("append: %v", err)
				return
			}
			done.Store(int64(i + 1))
		}
	})
	var sure []int64
	for i := range 3 {
		until(t, "some rows", func() bool { return done.Load() > int64(20*(i+1)) })
		sure = append(sure, done.Load())
		var last, total int
		err := Backup(t.Context(), path, filepath.Join(dir, fmt.Sprint("copy", i)),
			func(d, n int) { last, total = d, n })
		if err != nil {
			t.Fatal(err)
		}
		if last != total || total == 0 {
			t.Errorf("progress ended at %d of %d pages", last, total)
		}
	}
	close(stop)
	wg.Wait()
	for i, n := range sure {
		c := openAt(t, Config{Path: filepath.Join(dir, fmt.Sprint("copy", i)), NoCreate: true})
		for j := range n {
			rowOf(t, c, queue.Callback, identityOf(fmt.Sprint(j)))
		}
		checkFile(t, c)
	}
}

func TestABackupRefusesWhatItWouldSpoil(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "once.db")
	openAt(t, Config{Path: path})
	there := filepath.Join(dir, "there")
	written(t, there, "CREATE TABLE books (id)")
	to := filepath.Join(dir, "copy")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range map[string]error{
		"an existing file":  Backup(t.Context(), path, there, nil),
		"no store":          Backup(t.Context(), there, to, nil),
		"nothing":           Backup(t.Context(), filepath.Join(dir, "none"), to, nil),
		"an ended context":  Backup(ended, path, to, nil),
		"a missing folder ": Backup(t.Context(), path, filepath.Join(dir, "no", "copy"), nil),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an unfinished copy is left: %v", err)
	}
}
