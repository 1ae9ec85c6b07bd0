package oncesqlite

import (
	"errors"
	"fmt"
	"testing"

	"github.com/oncekit/once/write"
)

// A STRING column is NUMERIC to SQLite, which takes "007", "7.0" and " 7" for the number 7.
func TestDifferentKeysAreNeverOneRow(t *testing.T) {
	t.Parallel()
	w, err := overTable(t, "CREATE TABLE x (id STRING PRIMARY KEY, s DATETIME, n INT)")
	if err != nil {
		t.Fatal(err)
	}
	inc := write.Increment{By: write.Fields{"n": 1}}
	for i, key := range []string{"007", "7", "7.0", " 7\t", "+7", "1e3", ".5"} {
		_, err := w.Write(t.Context(),
			write.Event{ID: fmt.Sprint(i), In: "x", Key: key, Change: inc})
		if !errors.Is(err, write.ErrShape) {
			t.Errorf("key %q: %v", key, err)
		}
	}
	for i, key := range []any{"0x7", "7a", "e1", ".", "2026-01-02", 7} {
		r, err := w.Write(t.Context(),
			write.Event{ID: fmt.Sprint("ok", i), In: "x", Key: key, Change: inc})
		if err != nil || r.Numbers["n"] != int64(1) {
			t.Errorf("key %v: %+v, %v", key, r, err)
		}
	}
	_, err = w.Write(t.Context(), on("e", write.Upsert{Set: write.Fields{"s": "20260102"}}))
	if !errors.Is(err, write.ErrShape) {
		t.Errorf("a text that would become a number: %v", err)
	}

	// 2^53 + 1 is no double.
	w, err = overTable(t, "CREATE TABLE x (id REAL PRIMARY KEY, n INT)")
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(t.Context(),
		write.Event{ID: "e", In: "x", Key: int64(9007199254740993), Change: inc})
	if !errors.Is(err, write.ErrShape) {
		t.Errorf("a key that would be rounded: %v", err)
	}
}

func TestAColumnsCollationDoesNotBlurKeys(t *testing.T) {
	t.Parallel()
	w, err := overTable(t, `CREATE TABLE x (id TEXT COLLATE NOCASE, n INT);
CREATE UNIQUE INDEX i ON x (id COLLATE BINARY); INSERT INTO x VALUES ('K', 0), ('k', 0)`)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(t.Context(), on("e", write.Upsert{Set: write.Fields{"n": 5}}))
	if err != nil {
		t.Fatal(err)
	}
	if n := oneOf[int](t, w.db, "SELECT sum(n) FROM x"); n != 5 {
		t.Errorf("the sum is %d, want 5: one row changed", n)
	}
}

// What constraints declare, and triggers do, makes no event applied that is not.
func TestAConflictClauseOfTheTableLosesNoChange(t *testing.T) {
	t.Parallel()
	set := write.Upsert{Set: write.Fields{"u": "taken"}}
	for _, tables := range []string{
		"CREATE TABLE x (id TEXT PRIMARY KEY, u TEXT UNIQUE ON CONFLICT IGNORE)",
		"CREATE TABLE x (id TEXT PRIMARY KEY, u TEXT UNIQUE ON CONFLICT REPLACE)",
		"CREATE TABLE x (id TEXT PRIMARY KEY, u TEXT UNIQUE ON CONFLICT ROLLBACK)",
		"CREATE TABLE x (id TEXT PRIMARY KEY, u TEXT); " +
			"CREATE TRIGGER i BEFORE INSERT ON x WHEN NEW.id <> 'other' " +
			"BEGIN SELECT RAISE(IGNORE); END; " +
			"CREATE TRIGGER u BEFORE UPDATE ON x BEGIN SELECT RAISE(IGNORE); END",
	} {
		for _, row := range []string{"", "; INSERT INTO x VALUES ('k', 'mine')"} {
			w, err := overTable(t, tables+"; INSERT INTO x VALUES ('other', 'taken')")
			if err != nil {
				t.Fatal(err)
			}
			if row != "" {
				execSQL(t, w.db, "DROP TRIGGER IF EXISTS i"+row)
			}
			if r, err := w.Write(t.Context(), on("e", set)); !errors.Is(err, write.ErrShape) {
				t.Errorf("%s%s: %+v, %v", tables, row, r, err)
			}
			if n := oneOf[int](t, w.db, "SELECT count(*) FROM once_events"); n != 0 {
				t.Errorf("%s%s: the event is remembered", tables, row)
			}
			if s := oneOf[string](t, w.db, "SELECT u FROM x WHERE id = 'other'"); s != "taken" {
				t.Errorf("%s%s: the other row has %q", tables, row, s)
			}
		}
	}
}

func TestATriggerThatRollsBackTakesTheWholeBatch(t *testing.T) {
	t.Parallel()
	w, err := overTable(t, `CREATE TABLE x (id TEXT PRIMARY KEY, n INT); CREATE TRIGGER r
BEFORE INSERT ON x WHEN NEW.id = 'k' BEGIN SELECT RAISE(ROLLBACK, 'no'); END`)
	if err != nil {
		t.Fatal(err)
	}
	set := write.Upsert{Set: write.Fields{"n": 1}}
	rs, err := w.WriteAll(t.Context(), []write.Event{
		{ID: "a", In: "x", Key: "before", Change: set}, on("e", set),
		{ID: "b", In: "x", Key: "after", Change: set},
	})
	if err == nil {
		t.Errorf("%+v", rs)
	}
	n := oneOf[int](t, w.db, "SELECT (SELECT count(*) FROM x) + (SELECT count(*) FROM once_events)")
	if n != 0 {
		t.Errorf("%d rows stay", n)
	}
}
