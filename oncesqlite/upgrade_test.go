package oncesqlite

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/oncekit/once/internal/powercut"
	"github.com/oncekit/once/queue"
)

// change makes of a store that is closed one of an earlier schema.
func change(t *testing.T, dsn string, texts ...string) {
	t.Helper()
	c, err := sqlite3.Open(dsn)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(texts, "PRAGMA wal_checkpoint(TRUNCATE)") {
		if err := c.Exec(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// schema2At makes a store of the schema before records, with a callback and a plan.
func schema2At(t *testing.T, cfg Config, dsn string) {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, callback("before"))
	if err := s.SavePlan(t.Context(), []byte("plan")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	change(t, dsn, append(withoutPlaces, "DROP TABLE records",
		"DELETE FROM counters WHERE kind = 4", "DELETE FROM meta WHERE name = 'fence'",
		"PRAGMA user_version=2")...)
}

// withoutPlaces makes a store of this schema one of those before places.
var withoutPlaces = []string{"DROP TABLE places", "DELETE FROM meta WHERE name = 'placed'",
	"CREATE UNIQUE INDEX rows_identity ON rows(identity)"}

func TestAStoreOfTheSchemaBeforePlacesIsBroughtUpToThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.db")
	s := openAt(t, Config{Path: path})
	for i := range 3 * placeGeneration {
		mustAppend(t, s, callback(fmt.Sprint(i)))
	}
	mustComplete(t, s.Records(), mustClaim(t, s.Records(), claimOf("a")), "done")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	change(t, "file:"+path, append(withoutPlaces, "DROP INDEX records_place",
		"CREATE UNIQUE INDEX records_identity ON records(identity)", "PRAGMA user_version=3")...)
	s = openAt(t, Config{Path: path})
	for i := range 3 * placeGeneration {
		if r := mustAppend(t, s, callback(fmt.Sprint(i)))[0]; r.Outcome != queue.Duplicate {
			t.Fatalf("callback %d: %s", i, r.Outcome)
		}
	}
	wantReplay(t, s.Records(), "a", "done")
	mustClaim(t, s.Records(), claimOf("b"))
	checkFile(t, s)
	fresh := openAt(t, Config{Path: filepath.Join(t.TempDir(), "new.db")})
	if got, want := schemaOf(t, s), schemaOf(t, fresh); got != want {
		t.Errorf("tables of the old store:\n%s\nof a new one:\n%s", got, want)
	}
}

// A claim would otherwise read all records.
func TestARecordIsFoundByItsPlace(t *testing.T) {
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db")})
	plan := ""
	err := s.read(t.Context(), func(c *conn) error {
		return c.query("EXPLAIN QUERY PLAN "+recordByPlace, func(r *stmt) error {
			plan += r.text(3) + "\n"
			return nil
		})
	})
	if want := "SEARCH records USING INDEX records_place (<expr>=?)\n"; plan != want || err != nil {
		t.Errorf("plan %q, %v, want %q", plan, err, want)
	}
}

func TestAStoreOfTheSchemaBeforeRecordsIsBroughtUpToThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.db")
	schema2At(t, Config{Path: path}, "file:"+path)
	s := openAt(t, Config{Path: path})
	if s.Created() {
		t.Error("it is taken for a new one")
	}
	if got := mustLease(t, s, testLane, 10); len(got) != 1 || string(got[0].Body) != "before" {
		t.Errorf("leased %d rows", len(got))
	}
	r := s.Records()
	mustComplete(t, r, mustClaim(t, r, claimOf("a")), "done")
	if v := scan(t, s, "PRAGMA user_version")[0]; v != schemaVersion {
		t.Errorf("schema %d", v)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, Config{Path: path})
	wantReplay(t, s.Records(), "a", "done")
	checkFile(t, s)
	fresh := openAt(t, Config{Path: filepath.Join(t.TempDir(), "new.db")})
	if got, want := schemaOf(t, s), schemaOf(t, fresh); got != want {
		t.Errorf("tables of the old store:\n%s\nof a new one:\n%s", got, want)
	}
}

func schemaOf(t *testing.T, s *Store) (text string) {
	t.Helper()
	err := s.read(t.Context(), func(c *conn) error {
		return c.query("SELECT coalesce(sql, name) FROM sqlite_schema ORDER BY name",
			func(r *stmt) error {
				text += r.text(0) + "\n"
				return nil
			})
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The check of a changed configuration reads the store before the new version serves it.
func TestAReaderReadsTheSchemaBeforeRecordsAndLeavesIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.db")
	schema2At(t, Config{Path: path}, "file:"+path)
	before := read(t, path)
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := r.Plan(t.Context())
	if err != nil || string(plan) != "plan" {
		t.Errorf("plan %q, %v", plan, err)
	}
	counts, err := r.Counts(t.Context())
	if n := counts.Rows[queue.RowCount{Kind: queue.Callback, Source: "robots",
		State: queue.Pending}]; n != 1 || err != nil {
		t.Errorf("counts %+v, %v", counts, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(read(t, path), before) {
		t.Error("the file was changed")
	}
}

// The kept counters of records are no rows.
func TestCountersOfRecordsAreNotThoseOfRows(t *testing.T) {
	s, r, _ := recordsAt(t, Config{})
	mustClaim(t, r, claimOf("a"))
	counts, err := s.Counts(t.Context())
	if err != nil || len(counts.Rows)+len(counts.Tasks) != 0 {
		t.Errorf("counts %+v, %v", counts, err)
	}
}

func TestAPowerCutInTheUpgradeLeavesTheOneSchemaOrTheOther(t *testing.T) {
	upgraded, old := 0, 0
	for seed := range uint64(24) {
		d := powercut.NewDisk(seed)
		cfg := onDisk(t, d)
		schema2At(t, cfg, "file:/once.db?vfs="+cfg.VFS)
		d.CutAfter(int(1 + seed))
		s, err := Open(t.Context(), cfg)
		if err == nil {
			_ = s.Close() // the power may be off
		}
		left := d.Survive()
		vfs.Unregister(walVFSPrefix + cfg.VFS)
		cfg = onDisk(t, left)
		look := &Store{cfg: cfg}
		c, err := openReader(look.dsn(), initReader)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		version, err := c.int("PRAGMA user_version")
		tables, err2 := c.int("SELECT count(*) FROM sqlite_schema WHERE tbl_name = 'records'")
		if err != nil || err2 != nil || c.close() != nil {
			t.Fatalf("seed %d: %v, %v", seed, err, err2)
		}
		switch {
		case version == 2 && tables == 0:
			old++
		case version == schemaVersion && tables == 4: // and its indexes
			upgraded++
		default:
			t.Errorf("seed %d: schema %d with %d parts of records", seed, version, tables)
		}
		s = openAt(t, cfg)
		mustClaim(t, s.Records(), claimOf("a"))
		if got := mustLease(t, s, testLane, 10); len(got) != 1 {
			t.Errorf("seed %d: %d callbacks", seed, len(got))
		}
		checkFile(t, s)
	}
	if upgraded == 0 || old == 0 {
		t.Errorf("%d upgraded, %d not: the cuts prove nothing", upgraded, old)
	}
}
