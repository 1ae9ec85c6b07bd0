package oncesqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3/driver"

	"github.com/oncekit/once"
	"github.com/oncekit/once/write"
	"github.com/oncekit/once/write/writetest"
)

// eventPatience is how long the tests let a call wait: the machine may be doing much else.
const eventPatience = 2 * time.Minute

const suiteTables = `
CREATE TABLE accounts (
	id TEXT PRIMARY KEY, n INTEGER, version INTEGER, amount NUMERIC, name TEXT, state TEXT,
	tag TEXT, at INTEGER, list TEXT
);
CREATE TABLE counters (id INTEGER PRIMARY KEY, n INTEGER);`

// The suite is about behaviour: nothing needs to survive the machine.
const quick = "&_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)"

func openUserFile(t testing.TB, path, options string) *sql.DB {
	t.Helper()
	db, err := driver.Open("file:" + path + "?" + strings.TrimPrefix(options, "&"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func execSQL(t testing.TB, db *sql.DB, text string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func oneOf[T any](t testing.TB, db *sql.DB, text string, args ...any) (v T) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), text, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func suiteConfig() WriterConfig {
	return WriterConfig{Targets: writetest.Targets(), Patience: eventPatience}
}

func openEventWriter(t testing.TB, db *sql.DB, conf WriterConfig) *Writer {
	t.Helper()
	w, err := NewWriter(db, conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// freshEvents makes a file with the suite's tables and a writer over it.
func freshEvents(t testing.TB, options string) (string, *sql.DB, *Writer) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "user.db")
	db := openUserFile(t, path, options)
	execSQL(t, db, suiteTables)
	return path, db, openEventWriter(t, db, suiteConfig())
}

// readRow is what writetest asks for.
func readDoc(db *sql.DB, timesAsText bool) func(*testing.T, string, any) (write.Fields, bool) {
	columns := []string{"n", "version", "amount", "name", "state", "tag", "at", "list"}
	return func(t *testing.T, in string, key any) (write.Fields, bool) {
		names := columns
		if in == "counters" {
			names = columns[:1]
		}
		values, into := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		err := db.QueryRowContext(context.Background(), "SELECT "+strings.Join(names, ", ")+
			" FROM "+in+" WHERE id = ?", key).Scan(into...)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, false
		}
		if err != nil {
			t.Errorf("read: %v", err)
			return nil, false
		}
		doc := write.Fields{}
		for i, name := range names {
			if v := fromSQLite(t, name, values[i], timesAsText); v != nil {
				doc[name] = v
			}
		}
		return doc, true
	}
}

func fromSQLite(t *testing.T, name string, v any, timesAsText bool) any {
	var err error
	switch s := v.(type) {
	case int64:
		if name == "at" {
			return time.UnixMicro(s).UTC()
		}
	case float64:
		v, err = write.Number(s)
	case string:
		if name == "list" {
			d := json.NewDecoder(strings.NewReader(s))
			d.UseNumber()
			err = d.Decode(&v)
		}
		if name == "at" && timesAsText {
			v, err = time.Parse(time.RFC3339Nano, s)
		}
	}
	if err != nil {
		t.Error(err)
	}
	return v
}

func TestEventWriter(t *testing.T) {
	t.Parallel()
	writetest.Run(t, func(t *testing.T) writetest.Harness {
		path, db, w := freshEvents(t, quick)
		second := openEventWriter(t, openUserFile(t, path, quick), suiteConfig())
		return writetest.Harness{Writer: w, Second: second, Read: readDoc(db, false)}
	})
}

// L01: also where BEGIN is deferred, readers block writers, and SQLite itself does not wait.
func TestEventWriterOverAnUnfriendlyFileL01(t *testing.T) {
	t.Parallel()
	const options = "&_txlock=deferred&_pragma=busy_timeout(0)&_pragma=synchronous(off)"
	writetest.Run(t, func(t *testing.T) writetest.Harness {
		path := filepath.Join(t.TempDir(), "user.db")
		db := openUserFile(t, path, options)
		execSQL(t, db, strings.Replace(suiteTables, "at INTEGER", "at TEXT", 1))
		conf := suiteConfig()
		conf.TimesAsText = true
		w := openEventWriter(t, db, conf)
		second := openEventWriter(t, openUserFile(t, path, options), conf)
		reader := openUserFile(t, path, "_pragma=busy_timeout(60000)")
		return writetest.Harness{Writer: w, Second: second, Read: readDoc(reader, true)}
	}, "K03", "B0", "Newer", "Batch/D", "Insert/M", "Random")
}

// A new connection begins with settings of its own, for which another process may have the file:
// also before the first transaction, when statements are prepared, and while a writer is opened.
func TestEventWriterWaitsForALockedFileAlsoWithANewConnectionL01(t *testing.T) {
	t.Parallel()
	const options = "&_pragma=busy_timeout(0)&_pragma=synchronous(off)"
	path := filepath.Join(t.TempDir(), "user.db")
	owner := openUserFile(t, path, "")
	execSQL(t, owner, suiteTables)
	lock := func(t *testing.T) (release func()) {
		conn, err := owner.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.ExecContext(t.Context(), "BEGIN EXCLUSIVE"); err != nil {
			t.Fatal(err)
		}
		return func() {
			_, err := conn.ExecContext(context.Background(), "ROLLBACK")
			if err = errors.Join(err, conn.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	db := openUserFile(t, path, options)
	db.SetMaxIdleConns(0)
	for _, c := range []struct {
		name string
		call func(ctx context.Context, w *Writer) error
	}{
		{"Open", func(ctx context.Context, w *Writer) error { return w.Open(ctx) }},
		{"Write", func(ctx context.Context, w *Writer) error {
			_, err := w.Write(ctx, write.Event{
				ID: "e", In: "counters", Key: 1, Change: write.Increment{By: write.Fields{"n": 1}},
			})
			return err
		}},
	} {
		conf := suiteConfig()
		w, err := NewWriter(db, conf)
		if err != nil {
			t.Fatal(err)
		}
		release := lock(t)
		time.AfterFunc(100*time.Millisecond, release)
		if err := c.call(t.Context(), w); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		conf.Patience = 50 * time.Millisecond
		if w, err = NewWriter(db, conf); err != nil {
			t.Fatal(err)
		}
		release = lock(t)
		if err := c.call(t.Context(), w); !errors.Is(err, write.ErrBusy) {
			t.Errorf("%s while it is locked: %v, want ErrBusy", c.name, err)
		}
		release()
	}
}

// One connection is enough.
func TestEventWriterOverOneConnection(t *testing.T) {
	t.Parallel()
	writetest.Run(t, func(t *testing.T) writetest.Harness {
		_, db, w := freshEvents(t, quick)
		db.SetMaxOpenConns(1)
		return writetest.Harness{Writer: w, Second: w, Read: readDoc(db, false)}
	}, "K03", "B01", "Batch", "Repeat", "Random")
}

// inTransaction writes each call in a transaction of its own, as a caller would, who goes on after
// an error and commits.
type inTransaction struct {
	w  *Writer
	db *sql.DB
}

func (c inTransaction) Write(ctx context.Context, e write.Event) (write.Result, error) {
	rs, err := c.WriteAll(ctx, []write.Event{e})
	if err != nil {
		return write.Result{}, err
	}
	return rs[0], rs[0].Err
}

func (c inTransaction) WriteAll(
	ctx context.Context, events []write.Event,
) ([]write.Result, error) {
	tx, err := c.db.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return nil, err
	}
	rs, err := c.w.WithTx(tx).WriteAll(ctx, events)
	return rs, errors.Join(err, tx.Commit())
}

func TestEventWriterInACallersTransaction(t *testing.T) {
	t.Parallel()
	writetest.Run(t, func(t *testing.T) writetest.Harness {
		_, db, w := freshEvents(t, quick+"&_txlock=immediate")
		c := inTransaction{w, db}
		return writetest.Harness{Writer: c, Second: c, Read: readDoc(db, false)}
	})
}

func increment(id string, key, n any) write.Event {
	in := "counters"
	if _, isText := key.(string); isText {
		in = "accounts"
	}
	return write.Event{
		ID: id, In: in, Key: key, Change: write.Increment{By: write.Fields{"n": n}},
	}
}

// A transaction that read before another wrote can't write: that is said, and not waited for.
func TestATransactionThatReadTooEarlyHasToBeginAgainL01(t *testing.T) {
	t.Parallel()
	_, db, w := freshEvents(t, quick+"&_txlock=deferred")
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := tx.QueryRow("SELECT count(*) FROM counters").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(t.Context(), increment("e1", 1, 1)); err != nil {
		t.Fatal(err)
	}
	_, err = w.WithTx(tx).Write(t.Context(), increment("e2", 1, 1))
	if !errors.Is(err, write.ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	r, err := w.Write(t.Context(), increment("e2", 1, 1))
	if err != nil || r.Numbers["n"] != int64(2) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestAFileThatIsLockedForTooLongIsBusy(t *testing.T) {
	t.Parallel()
	path, _, w := freshEvents(t, "&_pragma=busy_timeout(1)&_pragma=journal_mode(wal)")
	rival := openUserFile(t, path, "_txlock=immediate")
	tx, err := rival.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.conf.Patience = 100 * time.Millisecond
	_, err = w.Write(t.Context(), increment("e", 1, 1))
	if !errors.Is(err, write.ErrBusy) || !errors.Is(err, once.ErrUnavailable) {
		t.Errorf("%v, want ErrBusy", err)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if _, err := w.Write(ended, increment("e", 1, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	w.conf.Patience = eventPatience
	if r, err := w.Write(t.Context(), increment("e", 1, 1)); err != nil ||
		r.Outcome != write.Applied {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestARolledBackTransactionTakesItsEventsWithIt(t *testing.T) {
	t.Parallel()
	_, db, w := freshEvents(t, quick)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WithTx(tx).Write(t.Context(), increment("e", 1, 1)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	r, err := w.Write(t.Context(), increment("e", 1, 1))
	if err != nil || r.Outcome != write.Applied || r.Numbers["n"] != int64(1) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestAFunctionRunsOnceInEffect(t *testing.T) {
	t.Parallel()
	_, db, w := freshEvents(t, quick)
	refused := errors.New("refused")
	fail := true
	do := func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO counters (n) VALUES (1)"); err != nil {
			return err
		}
		if fail {
			return refused
		}
		return nil
	}
	if _, err := w.Apply(t.Context(), "e", 1, do); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	fail = false
	var running sync.WaitGroup
	outcomes := make(chan write.Outcome, 20)
	for range cap(outcomes) {
		running.Go(func() {
			r, err := w.Apply(t.Context(), "e", 1, do)
			if err != nil {
				t.Error(err)
			}
			outcomes <- r.Outcome
		})
	}
	running.Wait()
	close(outcomes)
	count := map[write.Outcome]int{}
	for o := range outcomes {
		count[o]++
	}
	if count[write.Applied] != 1 || count[write.Duplicate] != cap(outcomes)-1 {
		t.Errorf("%v", count)
	}
	if r, err := w.Apply(t.Context(), "e", 2, do); err != nil || r.Outcome != write.Conflict {
		t.Errorf("another content: %+v, %v", r, err)
	}
	for id, content := range map[string]any{"": 1, "f": make(chan int)} {
		if _, err := w.Apply(t.Context(), id, content, do); !errors.Is(err, write.ErrEvent) {
			t.Errorf("%q, %v: %v", id, content, err)
		}
	}
	if n := oneOf[int](t, db, "SELECT count(*) FROM counters"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

func TestAFunctionThatPanicsLeavesTheTurnFree(t *testing.T) {
	t.Parallel()
	_, _, w := freshEvents(t, quick)
	func() {
		defer func() { _ = recover() }()
		_, _ = w.Apply(t.Context(), "e", 1, func(context.Context, *sql.Tx) error { panic("no") })
	}()
	r, err := w.Apply(t.Context(), "e", 1, func(context.Context, *sql.Tx) error { return nil })
	if err != nil || r.Outcome != write.Applied {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestEventsAreSweptAfterTheirRetention(t *testing.T) {
	t.Parallel()
	_, db, w := freshEvents(t, quick)
	w.conf.Retention = 24 * time.Hour
	for _, id := range []string{"a", "b", "c", "young"} {
		if _, err := w.Write(t.Context(), increment(id, 1, 1)); err != nil {
			t.Fatal(err)
		}
	}
	execSQL(t, db, "UPDATE once_events SET at = at - 25 * 3600 * 1000000 WHERE id <> 'young'")
	for _, want := range []int{2, 1, 0} {
		if n, err := w.Sweep(t.Context(), 2); err != nil || n != want {
			t.Errorf("swept %d, %v, want %d", n, err, want)
		}
	}
	for id, want := range map[string]write.Outcome{
		"b": write.Applied, "young": write.Duplicate,
	} {
		if r, err := w.Write(t.Context(), increment(id, 1, 1)); err != nil || r.Outcome != want {
			t.Errorf("%s: %+v, %v", id, r, err)
		}
	}
	if n, err := w.Sweep(t.Context(), 0); n != 0 || err != nil {
		t.Error(n, err)
	}
}
