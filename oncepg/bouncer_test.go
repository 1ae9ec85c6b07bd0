package oncepg_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/write"
)

// bounced is a database, and how to connect to it through a PgBouncer. PgBouncer takes no
// search_path from a client.
func bounced(t testing.TB, lines ...string) (admin *pgxpool.Pool, url string) {
	t.Helper()
	db := testserver.Postgres(t)
	admin = pool(t, db.URL()+"&search_path=public")
	exec(t, admin, "ALTER DATABASE "+db.Name+" SET search_path = public")
	exec(t, admin, suiteTables)
	return admin, testserver.PgBouncer(t, db.Server, lines...).URL(db.Name)
}

// G06: nothing relies on a session. Each transaction may get another connection.
func TestEventsRecordsAndCallbacksGoThroughAPgBouncerG06(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			admin, url := bounced(t)
			p := watchedPool(t, url+"&default_query_exec_mode="+mode)
			underLoad(t, admin, nil,
				&writerLoad{w: open(t, p, config()), p: p},
				&recordLoad{r: openRecords(t, p, oncepg.RecordsConfig{})},
				&queueLoad{s: openQueue(t, p)})
		})
	}
}

func TestOverDatabaseSQLEventsGoThroughAPgBouncerG06(t *testing.T) {
	t.Parallel()
	_, url := bounced(t)
	db := openSQL(t, url+"&default_query_exec_mode=exec")
	w, err := oncepg.NewWriterSQL(db, config())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []write.Outcome{write.Applied, write.Duplicate} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		rs, err := w.WithSQLTx(tx).WriteAll(t.Context(),
			[]write.Event{add("a", 1, 1), add("b", "x", 1)})
		if err != nil || rs[0].Outcome != want || rs[1].Outcome != want {
			t.Errorf("%+v, %v, want %s", rs, err, want)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
}

// With pgx as it is by default the statements of one client are in the way of another's.
func TestAPoolerThatKeepsNoStatementsIsToldByName(t *testing.T) {
	t.Parallel()
	admin, url := bounced(t, "default_pool_size = 1")
	first := open(t, pool(t, url), config()) // it has prepared its statements
	if _, err := first.Write(t.Context(), add("a", 1, 1)); err != nil {
		t.Fatal(err)
	}
	said := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "default_query_exec_mode=exec") {
			t.Errorf("%s: %v", what, err)
		}
	}
	p := pool(t, url)
	second, err := oncepg.NewWriter(p, config())
	if err != nil {
		t.Fatal(err)
	}
	said("open writer", second.Open(t.Context()))
	_ = openRecords(t, admin, oncepg.RecordsConfig{})
	r, err := oncepg.NewRecords(p, oncepg.RecordsConfig{})
	if err != nil {
		t.Fatal(err)
	}
	said("open records", r.Open(t.Context()))
	over, err := oncepg.NewWriterSQL(openSQL(t, url), config())
	if err != nil {
		t.Fatal(err)
	}
	said("open writer over database/sql", over.Open(t.Context()))
	_, err = first.Apply(t.Context(), "f", 1, insertOne)
	if err == nil { // its own statements are there still
		_, err = second.Apply(t.Context(), "f", 1, insertOne)
		said("function", err)
	}
}
