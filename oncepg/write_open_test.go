package oncepg_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/write"
)

func target(name string) oncepg.WriterConfig {
	return oncepg.WriterConfig{Targets: []write.Target{{Name: name}}, Patience: patience}
}

func openErr(t *testing.T, conf oncepg.WriterConfig, tables string) error {
	t.Helper()
	p := pool(t, testserver.Postgres(t).URL())
	exec(t, p, tables)
	w, err := oncepg.NewWriter(p, conf)
	if err != nil {
		t.Fatal(err)
	}
	return w.Open(t.Context())
}

func TestAMissingUniqueIndexIsFoundAndTheCommandCreatesItB02(t *testing.T) {
	t.Parallel()
	p := pool(t, testserver.Postgres(t).URL())
	exec(t, p, `CREATE SCHEMA "My Shop";
CREATE TABLE "My Shop"."Order's" ("No" text, n int);
INSERT INTO "My Shop"."Order's" SELECT 'dup ' || i % 12, i FROM generate_series(1, 30) i;
INSERT INTO "My Shop"."Order's" VALUES ('one', 1), (NULL, 2), (NULL, 3)`)
	conf := oncepg.WriterConfig{
		Targets:  []write.Target{{Name: "My Shop.Order's", Key: "No"}},
		Events:   "My Shop.events",
		Patience: patience,
	}
	w, err := oncepg.NewWriter(p, conf)
	if err != nil {
		t.Fatal(err)
	}
	err = w.Open(t.Context())
	var missing *write.IndexError
	if !errors.As(err, &missing) || !errors.Is(err, write.ErrIndex) {
		t.Fatal(err)
	}
	// 30 rows in 12 keys: those with the remainders 1 to 6 are there 3 times.
	if len(missing.Duplicates) != write.MaxDuplicates ||
		missing.Duplicates[0] != (write.DuplicateKey{Key: "dup 1", Count: 3}) {
		t.Errorf("duplicates %+v", missing.Duplicates)
	}
	exec(t, p, `DELETE FROM "My Shop"."Order's" WHERE n > 12`)
	if err := w.Open(t.Context()); !errors.As(err, &missing) || len(missing.Duplicates) != 0 {
		t.Fatal(err)
	}
	exec(t, p, missing.Command)
	if err := w.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := w.Write(t.Context(), write.Event{
		ID: "e", In: "My Shop.Order's", Key: "one",
		Change: write.Increment{By: write.Fields{"n": 4}},
	})
	if err != nil || r.Numbers["n"] != int64(5) {
		t.Fatalf("%v, %v", r, err)
	}
	if n := one[int](t, p, `SELECT count(*) FROM "My Shop".events`); n != 1 {
		t.Errorf("%d records", n)
	}
}

func TestAnIndexThatDoesNotHoldForEachInsertIsNotEnough(t *testing.T) {
	t.Parallel()
	for _, tables := range []string{
		"CREATE TABLE x (id text, n int)",
		"CREATE TABLE x (id text, n int); CREATE INDEX ON x (id)",
		"CREATE TABLE x (id text, n int); CREATE UNIQUE INDEX ON x (id, n)",
		"CREATE TABLE x (id text, n int); CREATE UNIQUE INDEX ON x (id) WHERE n > 0",
		"CREATE TABLE x (id text, n int); CREATE UNIQUE INDEX ON x (lower(id))",
		"CREATE TABLE x (id text UNIQUE DEFERRABLE, n int)",
	} {
		if err := openErr(t, target("x"), tables); !errors.Is(err, write.ErrIndex) {
			t.Errorf("%s: %v", tables, err)
		}
	}
	for _, tables := range []string{
		"CREATE TABLE x (id text UNIQUE, n int)",
		"CREATE TABLE x (id int PRIMARY KEY)",
		"CREATE TABLE x (id uuid, n int); CREATE UNIQUE INDEX ON x (id) INCLUDE (n)",
	} {
		if err := openErr(t, target("x"), tables); err != nil {
			t.Errorf("%s: %v", tables, err)
		}
	}
}

// H06: a key that takes different texts for one would make one document of two.
func TestAKeyThatBlursTextsIsRefusedH06(t *testing.T) {
	t.Parallel()
	for _, tables := range []string{
		"CREATE TABLE x (id char(10) PRIMARY KEY)",
		`CREATE COLLATION blur (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE x (id text COLLATE blur PRIMARY KEY)`,
		"CREATE TABLE x (id jsonb PRIMARY KEY)",
		"CREATE TABLE x (no text PRIMARY KEY)",
		"CREATE TABLE y (id text PRIMARY KEY)",
	} {
		if err := openErr(t, target("x"), tables); !errors.Is(err, write.ErrShape) {
			t.Errorf("%s: %v", tables, err)
		}
	}
}

func TestOpenCreatesItsTableOnlyIfItMay(t *testing.T) {
	t.Parallel()
	p := pool(t, testserver.Postgres(t).URL())
	exec(t, p, suiteTables)
	conf := config()
	conf.NoCreate = true
	w, err := oncepg.NewWriter(p, conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Open(t.Context()); err == nil || !strings.Contains(err.Error(), w.EventsSQL()) {
		t.Fatalf("without the table: %v", err)
	}
	exec(t, p, "CREATE TABLE once_events (id text)")
	if err := w.Open(t.Context()); err == nil {
		t.Fatal("a table of another shape is taken")
	}
	exec(t, p, "DROP TABLE once_events; "+w.EventsSQL())
	if err := w.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestManyMayOpenAtTheSameTime(t *testing.T) {
	t.Parallel()
	p := pool(t, testserver.Postgres(t).URL())
	exec(t, p, suiteTables)
	var running sync.WaitGroup
	for i := range 8 {
		conf := config()
		conf.Events = fmt.Sprintf("fresh%d.events", i%2)
		running.Go(func() {
			w, err := oncepg.NewWriter(p, conf)
			if err != nil {
				t.Error(err)
				return
			}
			if err := w.Open(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
}

func TestAWrongConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	p := pool(t, testserver.Postgres(t).URL())
	for _, conf := range []oncepg.WriterConfig{
		{},
		{Targets: []write.Target{{Name: "a"}, {Name: "a"}}},
		{Targets: []write.Target{{Name: "a"}}, Events: "s." + strings.Repeat("x", 49)},
	} {
		if _, err := oncepg.NewWriter(p, conf); err == nil {
			t.Errorf("%+v is taken", conf)
		}
	}
	if _, err := oncepg.NewWriter(nil, config()); err == nil {
		t.Error("no pool is taken")
	}
	if _, err := oncepg.NewWriterSQL(nil, config()); err == nil {
		t.Error("no database is taken")
	}
}
