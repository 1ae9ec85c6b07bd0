package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once/internal/server"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/postgres"
	"github.com/oncekit/once/oncepg"
)

// inPostgres is where records are kept: a schema at an address.
func inPostgres(url string) string {
	return "  records: \"" + url + "&schema=the%20gate\"\n"
}

func TestGateway_RecordsInPostgreSQLOutliveTheProcess(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, numbered())
	file := gatewayTo(o.URL, byAccount+inPostgres(testserver.Postgres(t).URL()),
		"{match: POST /, key: required, on_unknown: hold}")
	s := serve(t, t.TempDir(), file)
	first := s.pay("/p", "k", "{}")
	wantStatus(t, first, 201, "")
	s.end()
	s = serve(t, t.TempDir(), file) // a store that is new
	wantReplayOf(t, s.pay("/p", "k", "{}"), first)
	wantStatus(t, s.pay("/p", "k", "[]"), 422, "mismatch")
	if r := s.recordOf("?scope=a1&key=k"); r.State != "completed" {
		t.Errorf("record %+v", r)
	}
	if o.ran.Load() != 1 {
		t.Errorf("the origin ran %d times, want once", o.ran.Load())
	}
}

// Two gateways over one database are one: neither repeats what the other one has done.
func TestGateway_TwoShareTheirRecordsInPostgreSQL(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, numbered())
	file := gatewayTo(o.URL, byAccount+inPostgres(testserver.Postgres(t).URL()),
		"{match: POST /, key: required, on_unknown: retry}")
	one, two := serve(t, t.TempDir(), file), serve(t, t.TempDir(), file)
	first := one.pay("/p", "k", "{}")
	wantStatus(t, first, 201, "")
	wantReplayOf(t, two.pay("/p", "k", "{}"), first)
	if o.ran.Load() != 1 {
		t.Errorf("the origin ran %d times, want once", o.ran.Load())
	}
}

func TestGateway_IsNotReadyAndRunsNothingWhileItsPostgreSQLIsAway(t *testing.T) {
	t.Parallel()
	db := testserver.PostgresServer(t, postgres.Config{
		Lines: []string{"synchronous_commit = on"}, // what was made outlives the server
	})
	o := newOrigin(t, numbered())
	s := serve(t, t.TempDir(), gatewayTo(o.URL, byAccount+inPostgres(db.URL("postgres")),
		"{match: POST /, key: required, on_unknown: retry}"))
	ready := func() int { return s.get("/readyz", nil).status }
	until := func(what string, status int) {
		t.Helper()
		testserver.Until(t, patience, what, func() bool { return ready() == status })
	}
	until("it is ready", 200)
	db.Kill()
	until("a PostgreSQL that is down is told", 503)
	if a := s.get("/readyz", nil); !strings.Contains(a.body, "records can't be reached: ") {
		t.Errorf("the reason is told as %s", a.body)
	}
	wantStatus(t, s.pay("/p", "k", "{}"), 503, "store-unavailable")
	if o.ran.Load() != 0 {
		t.Errorf("the origin ran %d times, want never", o.ran.Load())
	}
	if err := db.Start(); err != nil {
		t.Fatal(err)
	}
	until("it is ready again", 200)
	// The claim without an answer is looked for meanwhile, and given back.
	testserver.Until(t, patience, "it works again", func() bool {
		return s.pay("/p", "k", "{}").status == 201
	})
}

func TestGateway_APostgreSQLThatCannotBeUsedIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	const begin = "postgres://u:the-password@"
	for records, want := range map[string]string{
		begin + "h/shop?pool_max_conns=x":              "records can't be used: ",
		begin + "h:x/shop":                             "records can't be used: ",
		begin + "127.0.0.1:1/shop?connect_timeout=1":   "open records: ",
		begin + "h/shop?schema=pg_once":                "begin with pg_ are PostgreSQL's own",
		begin + "h/shop?sslmode=the-password":          "records can't be used: ",
		"postgres://127.0.0.1:1/shop?schema=" + long(): "no schema can be named",
	} {
		cfg, err := load(t.TempDir(), gatewayTo("http://127.0.0.1:1",
			byAccount+"  records: "+records+"\n", "{match: POST /}"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.Open(t.Context(), server.Options{Config: cfg}); err == nil ||
			strings.Contains(err.Error(), "the-password") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", records, err, want)
		}
	}
}

func long() string { return strings.Repeat("s", 64) }

// With create: false nothing is made: the schema is somebody else's affair.
func TestGateway_CreateFalseLeavesTheSchemaAlone(t *testing.T) {
	t.Parallel()
	dir, url := t.TempDir(), testserver.Postgres(t).URL()
	serve(t, dir, gatewayTo("http://127.0.0.1:1", byAccount, "{match: POST /}")).end()
	const changed = "migrate: {gateway: {records: changed}}\ncreate: false\n"
	cfg, err := load(dir, changed+gatewayTo("http://127.0.0.1:1", byAccount+inPostgres(url),
		"{match: POST /}"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = server.Open(t.Context(), server.Options{Config: cfg})
	if err == nil || !strings.Contains(err.Error(), "run `once migrate up`") {
		t.Errorf("open: %v", err)
	}
}

// A schema of a newer program stops an older one: it would not know what it does to the rows.
func TestGateway_ANewerSchemaIsToldAtTheStart(t *testing.T) {
	t.Parallel()
	url := testserver.Postgres(t).URL()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	cfg := oncepg.MigrateConfig{Schema: "the gate"}
	if err := oncepg.Migrate(t.Context(), pool, cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(context.Background(), `INSERT INTO "the gate".once_migrations
		(version, name) VALUES (9999, 'later')`); err != nil {
		t.Fatal(err)
	}
	file, err := load(t.TempDir(), gatewayTo("http://127.0.0.1:1", byAccount+inPostgres(url),
		"{match: POST /}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Open(t.Context(), server.Options{Config: file}); err == nil ||
		!strings.Contains(err.Error(), "it has version 9999, and this program knows") {
		t.Errorf("open: %v", err)
	}
}
