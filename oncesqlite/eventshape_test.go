package oncesqlite

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/child"
	"github.com/oncekit/once/write"
)

// overTable opens a writer over one table, x.
func overTable(t *testing.T, tables string) (*Writer, error) {
	t.Helper()
	db := openUserFile(t, filepath.Join(t.TempDir(), "user.db"), quick)
	execSQL(t, db, tables)
	w, err := NewWriter(db, WriterConfig{
		Targets: []write.Target{{Name: "x"}}, Patience: eventPatience,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w, w.Open(t.Context())
}

func TestAnEventTableNeedsAUniqueIndexB02(t *testing.T) {
	t.Parallel()
	for _, tables := range []string{
		"CREATE TABLE x (id TEXT, n INT)",
		"CREATE TABLE x (id TEXT, n INT); CREATE INDEX i ON x (id)",
		"CREATE TABLE x (id TEXT, n INT, PRIMARY KEY (id, n))",
		"CREATE TABLE x (id TEXT, n INT); CREATE UNIQUE INDEX i ON x (id) WHERE n > 0",
		"CREATE TABLE x (id TEXT, n INT); CREATE UNIQUE INDEX i ON x (lower(id))",
	} {
		if _, err := overTable(t, tables); !errors.Is(err, write.ErrIndex) {
			t.Errorf("%s: %v", tables, err)
		}
	}
	for _, tables := range []string{
		"CREATE TABLE x (id TEXT COLLATE NOCASE PRIMARY KEY)",
		"CREATE TABLE x (id TEXT COLLATE RTRIM UNIQUE)",
		"CREATE TABLE x (no TEXT PRIMARY KEY)",
		"CREATE TABLE y (id TEXT PRIMARY KEY)",
	} {
		if _, err := overTable(t, tables); !errors.Is(err, write.ErrShape) {
			t.Errorf("%s: %v", tables, err)
		}
	}
	for _, tables := range []string{
		"CREATE TABLE x (id INTEGER PRIMARY KEY)",
		"CREATE TABLE x (id INT PRIMARY KEY)",
		"CREATE TABLE x (id, n); CREATE UNIQUE INDEX i ON x (id)",
		"CREATE TABLE x (id TEXT PRIMARY KEY) WITHOUT ROWID",
		"CREATE TABLE x (id TEXT COLLATE NOCASE PRIMARY KEY);" +
			"CREATE UNIQUE INDEX i ON x (id COLLATE BINARY)",
	} {
		if _, err := overTable(t, tables); err != nil {
			t.Errorf("%s: %v", tables, err)
		}
	}
}

func TestAMissingIndexNamesDuplicatesAndItsCommandB02(t *testing.T) {
	t.Parallel()
	w, err := overTable(t, `CREATE TABLE x (id TEXT, n INT);
WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 30)
INSERT INTO x SELECT 'dup ' || (n % 12), n FROM i;
INSERT INTO x VALUES ('one', 1), (NULL, 2), (NULL, 3)`)
	var missing *write.IndexError
	if !errors.As(err, &missing) {
		t.Fatal(err)
	}
	// 30 rows in 12 keys: those with the remainders 1 to 6 are there 3 times.
	if len(missing.Duplicates) != write.MaxDuplicates ||
		missing.Duplicates[0] != (write.DuplicateKey{Key: "dup 1", Count: 3}) {
		t.Errorf("duplicates %+v", missing.Duplicates)
	}
	execSQL(t, w.db, "DELETE FROM x WHERE n > 12")
	if err := w.Open(t.Context()); !errors.As(err, &missing) || len(missing.Duplicates) != 0 {
		t.Fatal(err)
	}
	execSQL(t, w.db, missing.Command)
	if err := w.Open(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOpenCreatesTheTableOfEventsOnlyIfItMay(t *testing.T) {
	t.Parallel()
	db := openUserFile(t, filepath.Join(t.TempDir(), "user.db"), quick)
	execSQL(t, db, suiteTables)
	conf := suiteConfig()
	conf.NoCreate = true
	w, err := NewWriter(db, conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Open(t.Context()); err == nil || !strings.Contains(err.Error(), w.EventsSQL()) {
		t.Errorf("without the table: %v", err)
	}
	execSQL(t, db, "CREATE TABLE once_events (id TEXT)")
	if err := w.Open(t.Context()); err == nil {
		t.Error("a table of another shape is taken")
	}
	execSQL(t, db, "DROP TABLE once_events; "+w.EventsSQL())
	if err := w.Open(t.Context()); err != nil {
		t.Error(err)
	}
}

func on(id string, c write.Change) write.Event {
	return write.Event{ID: id, In: "x", Key: "k", Change: c}
}

func TestAValueThatSQLiteWouldChangeIsRefused(t *testing.T) {
	t.Parallel()
	w, err := overTable(t, `CREATE TABLE x (
	id TEXT PRIMARY KEY, i INTEGER, r REAL, t TEXT, b BLOB, j JSON, u TEXT UNIQUE,
	c INTEGER CHECK (c >= 0), nn TEXT NOT NULL DEFAULT 'x'
); INSERT INTO x (id, i, t, j, c) VALUES ('k', 9223372036854775807, 'text', '{}', 10);
INSERT INTO x (id, u) VALUES ('l', 'taken')`)
	if err != nil {
		t.Fatal(err)
	}
	set := func(name string, v any) write.Change { return write.Upsert{Set: write.Fields{name: v}} }
	for i, c := range []struct {
		change write.Change
		field  string
	}{
		{set("missing", 1), "missing"},
		{set("i", "12"), "i"},
		{set("r", "1.5"), "r"},
		{set("t", 12), "t"},
		{set("t", true), "t"},
		{set("r", json.Number("0.12345678901234567890")), "r"},
		{set("i", json.Number("9223372036854775808000000001")), "i"},
		{set("j", []any{[]byte("x")}), "j"},
		{write.Increment{By: write.Fields{"i": 1}}, "i"}, // beyond 64 bits
		{write.Increment{By: write.Fields{"t": 1}}, "t"},
		{write.Append{To: "j", Values: []any{1}}, "j"},
		{write.Append{To: "t", Values: []any{1}}, "t"},
		{write.Upsert{Set: write.Fields{"b": 5}, Increment: write.Fields{"t": 1}}, "t"},
		{set("nn", nil), ""},
		{set("u", "taken"), ""},
		{write.Increment{By: write.Fields{"c": -11}}, ""},
	} {
		e := on(fmt.Sprint(i), c.change)
		_, err := w.Write(t.Context(), e)
		var shape *write.ShapeError
		if !errors.As(err, &shape) || shape.In != "x" || shape.Field != c.field {
			t.Errorf("%v: %v, want one about %q", c.change, err, c.field)
		}
	}
	if n := oneOf[int](t, w.db, "SELECT count(*) FROM once_events"); n != 0 {
		t.Errorf("%d events are remembered", n)
	}
	for i, c := range []write.Change{
		set("b", []byte{0, 255}), set("b", "text"), set("b", 5), set("r", json.Number("0.10")),
		set("j", map[string]any{"n": json.Number("1e400")}), set("i", 1<<62+1), set("u", nil),
		write.Increment{By: write.Fields{"c": -10, "r": 0.5}},
	} {
		if _, err := w.Write(t.Context(), on(fmt.Sprint(i), c)); err != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
	const want = `4611686018427387905 0.6 5 {"n":1e400} 0`
	got := oneOf[string](t, w.db,
		"SELECT i || ' ' || r || ' ' || b || ' ' || j || ' ' || c FROM x WHERE id = 'k'")
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestARefusalNamesTheConstraint(t *testing.T) {
	t.Parallel()
	w, err := overTable(t, `CREATE TABLE x (id TEXT PRIMARY KEY, n INT CHECK (n >= 0),
	nn TEXT NOT NULL DEFAULT 'x', u TEXT UNIQUE)`)
	if err != nil {
		t.Fatal(err)
	}
	execSQL(t, w.db, "INSERT INTO x (id, u) VALUES ('other', 'secret')")
	for want, set := range map[string]write.Fields{
		"x: refused by the database: CHECK constraint failed: n >= 0":  {"n": -7},
		"x: refused by the database: NOT NULL constraint failed: x.nn": {"nn": nil},
		"x: refused by the database: UNIQUE constraint failed: x.u":    {"u": "secret"},
	} {
		_, err := w.Write(t.Context(), on("e", write.Upsert{Set: set}))
		if !errors.Is(err, write.ErrShape) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestAnEventTableThatChangesIsReadAgain(t *testing.T) {
	t.Parallel()
	w, err := overTable(t, "CREATE TABLE x (id TEXT PRIMARY KEY, n INT, old INT)")
	if err != nil {
		t.Fatal(err)
	}
	both := write.Upsert{Set: write.Fields{"n": 1, "old": 1}}
	if _, err := w.Write(t.Context(), on("e1", both)); err != nil {
		t.Fatal(err)
	}
	execSQL(t, w.db, "ALTER TABLE x DROP old; ALTER TABLE x ADD fresh TEXT")
	for range 2 {
		_, err := w.Write(t.Context(), on("e2", both))
		if !errors.Is(err, write.ErrShape) {
			t.Errorf("a column that is gone: %v", err)
		}
	}
	if r, err := w.Write(t.Context(), on("e1", both)); err != nil ||
		r.Outcome != write.Duplicate {
		t.Errorf("an event from before: %+v, %v", r, err)
	}
	r, err := w.Write(t.Context(), on("e3", write.Upsert{Set: write.Fields{"fresh": "x"}}))
	if err != nil || r.Outcome != write.Applied {
		t.Errorf("a new column: %+v, %v", r, err)
	}
}

// What is only checked at the commit undoes the event as well.
func TestADeferredConstraintUndoesItsEventOnly(t *testing.T) {
	t.Parallel()
	w, err := overTable(t, `CREATE TABLE y (id INTEGER PRIMARY KEY);
CREATE TABLE x (id TEXT PRIMARY KEY, n INT, y INT REFERENCES y DEFERRABLE INITIALLY DEFERRED)`)
	if err != nil {
		t.Fatal(err)
	}
	w.db.SetMaxOpenConns(1)
	execSQL(t, w.db, "PRAGMA foreign_keys = on")
	bad := on("e1", write.Upsert{Set: write.Fields{"y": 1}})
	if _, err := w.Write(t.Context(), bad); !errors.Is(err, write.ErrShape) {
		t.Errorf("%v", err)
	}
	inc := write.Increment{By: write.Fields{"n": 1}}
	rs, err := w.WriteAll(t.Context(), []write.Event{on("e2", inc), bad, on("e3", inc)})
	if err != nil || rs[0].Outcome != write.Applied || !errors.Is(rs[1].Err, write.ErrShape) ||
		rs[2].Numbers["n"] != int64(2) {
		t.Errorf("%+v, %v", rs, err)
	}
	if n := oneOf[int](t, w.db, "SELECT count(*) FROM once_events"); n != 2 {
		t.Errorf("%d events are remembered, want 2", n)
	}
}

// Names are quoted wherever they stand.
func TestNamesOfTablesAndColumnsAreNeverRead(t *testing.T) {
	t.Parallel()
	const wild = `we"ird 'n\; DROP`
	quoted := quoteName(wild)
	db := openUserFile(t, filepath.Join(t.TempDir(), "user.db"), quick)
	execSQL(t, db, "CREATE TABLE "+quoted+" (id TEXT PRIMARY KEY, "+quoted+" INT)")
	w := openEventWriter(t, db, WriterConfig{
		Targets: []write.Target{{Name: wild}}, Events: "my " + wild, Patience: eventPatience,
	})
	for i := range 2 {
		r, err := w.Write(t.Context(), write.Event{
			ID: fmt.Sprint(i), In: wild, Key: wild,
			Change: write.Increment{By: write.Fields{wild: 2}},
		})
		if err != nil || r.Numbers[wild] != int64(2*i+2) {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

func TestAWrongWriterConfigIsRefused(t *testing.T) {
	t.Parallel()
	db := openUserFile(t, filepath.Join(t.TempDir(), "user.db"), quick)
	if _, err := NewWriter(db, WriterConfig{}); err == nil {
		t.Error("no targets are taken")
	}
	if _, err := NewWriter(nil, suiteConfig()); err == nil {
		t.Error("no database is taken")
	}
}

// killedFile names the file for the process that will be killed.
const killedFile = "ONCE_TEST_EVENTS_FILE"

// killedEvents is how many events there are.
const killedEvents = 300

// TestKilledWriter is no test by itself: the next one runs it in a process of its own. It writes
// events until it is killed, and names each that is acknowledged.
func TestKilledWriter(t *testing.T) {
	path := os.Getenv(killedFile)
	if path == "" {
		return
	}
	db := openUserFile(t, path, "_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)")
	w := openEventWriter(t, db, suiteConfig())
	for i := range killedEvents {
		r, err := w.Write(t.Context(), increment(fmt.Sprint(i), 1, i))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("event", i, r.Outcome)
	}
}

// B06: whenever the process is killed, what was acknowledged is there, and nothing twice.
func TestTheSumIsExactThoughTheProcessIsKilledB06(t *testing.T) {
	t.Parallel()
	path, db, w := freshEvents(t, "_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)")
	acknowledged := map[string]bool{}
	for round := range 4 {
		read, wrote, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWriter$")
		cmd.Env = append(os.Environ(), killedFile+"="+path)
		cmd.Stdout = wrote
		proc, err := child.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		_ = wrote.Close()
		lines := bufio.NewScanner(read)
		for n := 0; lines.Scan(); {
			var id, outcome string
			if _, err := fmt.Sscanf(lines.Text(), "event %s %s", &id, &outcome); err != nil {
				continue
			}
			if acknowledged[id] && outcome != string(write.Duplicate) {
				t.Errorf("round %d: event %s was acknowledged, and is %s now", round, id, outcome)
			}
			acknowledged[id] = true
			if n++; n == 50*(round+1) {
				proc.Kill() // what it wrote since is still to be read
			}
		}
		proc.Kill()
		_ = read.Close()
	}
	if len(acknowledged) < 200 {
		t.Fatalf("only %d events were acknowledged", len(acknowledged))
	}
	for i := range killedEvents {
		if _, err := w.Write(t.Context(), increment(fmt.Sprint(i), 1, i)); err != nil {
			t.Fatal(err)
		}
	}
	const want = killedEvents * (killedEvents - 1) / 2
	if n := oneOf[int](t, db, "SELECT n FROM counters"); n != want {
		t.Errorf("the sum is %d, want %d", n, want)
	}
}
