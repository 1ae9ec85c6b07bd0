package oncepg_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/oncepg"
)

// oddSchema needs quotes of every kind.
const oddSchema = `My "shop's" ünits; --%s`

// catalog describes all that is in a schema, by name, but for what the migrations say of
// themselves.
func catalog(t testing.TB, p *pgxpool.Pool, schema string) string {
	t.Helper()
	rows, err := p.Query(t.Context(), `
SELECT 'column', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull::text,
	coalesce(pg_get_expr(d.adbin, d.adrelid), ''), a.attnum::text,
	coalesce(array_to_string(c.reloptions, ','), '')
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p', 'S', 'v')
UNION ALL
SELECT 'index', tablename, indexname, replace(indexdef, $2, ''), '', '', '', ''
FROM pg_indexes WHERE schemaname = $3
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid), '', '', '', ''
FROM pg_constraint WHERE connamespace = $1::regnamespace AND conrelid <> 0
UNION ALL
SELECT 'function', proname, prosrc, '', '', '', '', '' FROM pg_proc
WHERE pronamespace = $1::regnamespace
ORDER BY 1, 2, 3, 7`, quoted(schema), quoted(schema)+".", schema)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for rows.Next() {
		v, err := rows.Values()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, v...)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(b.String(), quoted(schema)+".", "")
	return strings.ReplaceAll(text, schema+".", "")
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

func migrated(t testing.TB, p *pgxpool.Pool, cfg oncepg.MigrateConfig) {
	t.Helper()
	if err := oncepg.Migrate(t.Context(), p, cfg); err != nil {
		t.Fatal(err)
	}
}

// files are the names of the migrations, in their order.
func files(t testing.TB) []string {
	t.Helper()
	names, err := fs.Glob(oncepg.Migrations(), "*.sql")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	return names
}

// first are the first n migrations, and what is added to them.
func first(t testing.TB, n int, more ...string) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	for _, name := range files(t)[:n] {
		text, err := fs.ReadFile(oncepg.Migrations(), name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = &fstest.MapFile{Data: text}
	}
	for i, text := range more {
		v := n + i + 1
		out[fmt.Sprintf("%04d_more.sql", v)] = &fstest.MapFile{Data: fmt.Appendf(nil,
			"%s\nINSERT INTO once_migrations (version, name) VALUES (%d, 'more');\n", text, v)}
	}
	return out
}

func wantSchemaError(t testing.TB, err error, state oncepg.SchemaState) *oncepg.SchemaError {
	t.Helper()
	var schema *oncepg.SchemaError
	if !errors.As(err, &schema) || schema.State != state || !errors.Is(err, once.ErrState) {
		t.Fatalf("%v, want a schema that is %s", err, state)
	}
	return schema
}

func TestMigrateMakesASchemaWhoseNameNeedsQuotes(t *testing.T) {
	t.Parallel()
	p := pool(t, testserver.Postgres(t).URL())
	odd := oncepg.MigrateConfig{Schema: oddSchema}
	migrated(t, p, odd)
	migrated(t, p, odd) // and changes nothing
	migrated(t, p, oncepg.MigrateConfig{})
	want := catalog(t, p, "once")
	if !strings.Contains(want, "records_expires") {
		t.Fatalf("the catalog is %s", want)
	}
	if got := catalog(t, p, oddSchema); got != want {
		t.Errorf("in %s there is\n%s\nwant\n%s", oddSchema, got, want)
	}
	if n := one[int](t, p, "SELECT count(*) FROM pg_class WHERE relname = 'records' AND "+
		"relnamespace = 'public'::regnamespace"); n != 0 {
		t.Error("something was made in the schema public")
	}
}

func TestTenNodesThatMigrateAtOnceMigrateOnce(t *testing.T) {
	t.Parallel()
	db := testserver.Postgres(t)
	p := pool(t, db.URL())
	// Slow, so that all of them come meanwhile, and it can happen only once.
	extra := first(t, len(files(t)), "CREATE TABLE single (n int); SELECT pg_sleep(0.3);",
		"ALTER TABLE single RENAME TO renamed;")
	var all sync.WaitGroup
	for i := range 10 {
		own := poolOf(t, db.URL(), 1)
		all.Go(func() {
			cfg := oncepg.MigrateConfig{}.WithFiles(extra)
			if err := oncepg.Migrate(t.Context(), own, cfg); err != nil {
				t.Errorf("node %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if n := one[int](t, p, "SELECT count(*) FROM once.once_migrations WHERE checksum <> ''"); n !=
		len(extra) {
		t.Errorf("%d migrations are written down, want %d", n, len(extra))
	}
	if n := one[int](t, p, "SELECT count(*) FROM once.renamed"); n != 0 {
		t.Error(n)
	}
}

// Limits of a role are meant for requests: a node waits for another one's migration however long it
// takes.
func TestLimitsOfTheRoleDoNotEndAMigration(t *testing.T) {
	t.Parallel()
	db := testserver.Postgres(t)
	admin := pool(t, db.URL())
	tx, err := admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(),
		"SELECT pg_advisory_xact_lock(hashtextextended('once migrate once', 0))"); err != nil {
		t.Fatal(err)
	}
	limited := pool(t, db.URL()+"&statement_timeout=100000&lock_timeout=200")
	slow := first(t, len(files(t)), `DO $$ BEGIN
		IF current_setting('statement_timeout') <> '0' OR
			current_setting('lock_timeout') <> '10s' THEN
			RAISE EXCEPTION 'the limits are those of the role';
		END IF;
	END $$;`)
	done := make(chan error, 1)
	go func() {
		done <- oncepg.Migrate(t.Context(), limited, oncepg.MigrateConfig{}.WithFiles(slow))
	}()
	testserver.Until(t, limit, "it waits", func() bool { return waiting(t, admin) == 1 })
	if _, err := tx.Exec(t.Context(), "SELECT pg_sleep(0.5)"); err != nil {
		t.Fatal(err)
	}
	if n := waiting(t, admin); n != 1 {
		t.Errorf("%d wait, want the one that waited before", n)
	}
	wantError(t, "the other one's end", tx.Commit(t.Context()), nil)
	wantError(t, "migrate", <-done, nil)
}

// What was done by a migration whose connection ends in the middle is undone, and the next one who
// comes does it.
func TestAMigrationThatIsCutInTheMiddleIsDoneWhole(t *testing.T) {
	t.Parallel()
	db := testserver.Postgres(t)
	plain := pool(t, db.URL())
	proxy, far := proxied(t, db, 1)
	migrated(t, plain, oncepg.MigrateConfig{})
	n := len(files(t))
	cfg := oncepg.MigrateConfig{}.WithFiles(first(t, n,
		"CREATE TABLE half (n int);\nSELECT pg_sleep(300);\nCREATE TABLE whole (n int);"))
	done := make(chan error, 1)
	go func() { done <- oncepg.Migrate(t.Context(), far, cfg) }()
	sleeping := "SELECT pid FROM pg_stat_activity WHERE query LIKE '%pg_sleep(300)%' AND " +
		"pid <> pg_backend_pid() AND wait_event = 'PgSleep' AND datname = current_database()"
	var pid int
	testserver.Until(t, patience, "the migration is in its middle", func() bool {
		return plain.QueryRow(t.Context(), sleeping).Scan(&pid) == nil
	})
	proxy.Cut()
	if err := <-done; !errors.Is(err, once.ErrUnavailable) {
		t.Errorf("migrate: %v, want an ErrUnavailable", err)
	}
	// The server finds out at the end of the statement that nobody is there.
	exec(t, plain, "SELECT pg_terminate_backend($1)", pid)
	testserver.Until(t, patience, "the server has undone it", func() bool {
		return one[int](t, plain, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid) == 0
	})
	if one[bool](t, plain, "SELECT to_regclass('once.half') IS NOT NULL") {
		t.Fatal("half of it is there")
	}
	whole := first(t, n, "CREATE TABLE half (n int);\nCREATE TABLE whole (n int);")
	migrated(t, far, oncepg.MigrateConfig{}.WithFiles(whole))
	if !one[bool](t, plain, "SELECT to_regclass('once.whole') IS NOT NULL") {
		t.Error("it is not there")
	}
}

func TestAMigrationWhoseTextChangedIsRefused(t *testing.T) {
	t.Parallel()
	p := pool(t, testserver.Postgres(t).URL())
	migrated(t, p, oncepg.MigrateConfig{})
	other := first(t, len(files(t)))
	name := files(t)[0]
	other[name] = &fstest.MapFile{Data: append([]byte("-- changed\n"), other[name].Data...)}
	cfg := oncepg.MigrateConfig{}.WithFiles(other)
	err := wantSchemaError(t, oncepg.Migrate(t.Context(), p, cfg), oncepg.SchemaChanged)
	if !strings.Contains(err.Error(), "0001_records") {
		t.Errorf("it does not name the migration: %v", err)
	}
	list, _ := oncepg.Status(t.Context(), p, cfg)
	if len(list) == 0 || !list[0].Changed || len(list) > 1 && list[1].Changed {
		t.Errorf("the status is %+v", list)
	}
	// The ends of lines are git's affair.
	windows := first(t, len(files(t)))
	for _, f := range windows {
		f.Data = []byte(strings.ReplaceAll(string(f.Data), "\n", "\r\n"))
	}
	migrated(t, p, oncepg.MigrateConfig{}.WithFiles(windows))
}

func TestANewerSchemaStopsAnOlderProgram(t *testing.T) {
	t.Parallel()
	p := pool(t, testserver.Postgres(t).URL())
	n := len(files(t))
	migrated(t, p, oncepg.MigrateConfig{}.WithFiles(first(t, n, "CREATE TABLE new (n int);")))
	err := wantSchemaError(t, oncepg.Migrate(t.Context(), p, oncepg.MigrateConfig{}),
		oncepg.SchemaNewer)
	if err.Found != n+1 || err.Known != n {
		t.Errorf("found %d, known %d", err.Found, err.Known)
	}
	wantSchemaError(t, oncepg.CheckSchema(t.Context(), p, oncepg.MigrateConfig{}),
		oncepg.SchemaNewer)
	list, statusErr := oncepg.Status(t.Context(), p, oncepg.MigrateConfig{})
	wantSchemaError(t, statusErr, oncepg.SchemaNewer)
	if len(list) != n+1 || list[n].Known || !list[n].Applied || !list[0].Known {
		t.Errorf("the status is %+v", list)
	}
}

func TestASchemaThatIsBehindIsMigratedFromEveryVersion(t *testing.T) {
	t.Parallel()
	p := pool(t, testserver.Postgres(t).URL())
	migrated(t, p, oncepg.MigrateConfig{})
	want := catalog(t, p, "once")
	wantSchemaError(t, oncepg.CheckSchema(t.Context(), p, oncepg.MigrateConfig{Schema: "none"}),
		oncepg.SchemaBehind)
	for n := 1; n < len(files(t)); n++ {
		cfg := oncepg.MigrateConfig{Schema: fmt.Sprintf("from%d", n)}
		migrated(t, p, cfg.WithFiles(first(t, n)))
		wantSchemaError(t, oncepg.CheckSchema(t.Context(), p, cfg), oncepg.SchemaBehind)
		migrated(t, p, cfg)
		if got := catalog(t, p, cfg.Schema); got != want {
			t.Errorf("from version %d:\n%s\nwant\n%s", n, got, want)
		}
	}
}

// psql runs a text as people do.
func psql(t testing.TB, url, text string) {
	t.Helper()
	path, err := program("psql")
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.CommandContext(t.Context(), path, "--no-psqlrc", "--quiet",
		"--set=ON_ERROR_STOP=1", url)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("psql: %v\n%s", err, out)
	}
}

func program(name string) (string, error) {
	if path, err := osexec.LookPath(name); err == nil {
		return path, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name) // the pattern is right
	if len(found) == 0 {
		return "", errors.New("psql is missing: apt-get install postgresql")
	}
	return found[len(found)-1], nil
}

func TestFilesThatAreAppliedByHandMakeTheSameSchema(t *testing.T) {
	t.Parallel()
	db := testserver.Postgres(t)
	p := pool(t, db.URL())
	migrated(t, p, oncepg.MigrateConfig{})
	want := catalog(t, p, "once")
	text := "CREATE SCHEMA hand;\nSET search_path TO hand;\n"
	for _, name := range files(t) {
		sql, err := fs.ReadFile(oncepg.Migrations(), name)
		if err != nil {
			t.Fatal(err)
		}
		text += "BEGIN;\n" + string(sql) + "COMMIT;\n"
	}
	psql(t, db.URL(), text)
	hand := oncepg.MigrateConfig{Schema: "hand"}
	if got := catalog(t, p, "hand"); got != want {
		t.Errorf("by hand:\n%s\nwant\n%s", got, want)
	}
	if err := oncepg.CheckSchema(t.Context(), p, hand); err != nil {
		t.Error(err)
	}
	migrated(t, p, hand)
	if list, err := oncepg.Status(t.Context(), p, hand); err != nil || list[0].Checksum == "" {
		t.Errorf("after Migrate the status is %+v, %v", list, err)
	}
}

func TestWhatPrintPrintsMakesTheSameSchema(t *testing.T) {
	t.Parallel()
	db := testserver.Postgres(t)
	p := pool(t, db.URL())
	migrated(t, p, oncepg.MigrateConfig{})
	cfg := oncepg.MigrateConfig{Schema: oddSchema}
	var b strings.Builder
	if err := oncepg.Print(&b, cfg, 1); err != nil {
		t.Fatal(err)
	}
	psql(t, db.URL(), b.String())
	if got, want := catalog(t, p, oddSchema), catalog(t, p, "once"); got != want {
		t.Errorf("printed:\n%s\nwant\n%s", got, want)
	}
	list, err := oncepg.Status(t.Context(), p, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if !m.Applied || m.Changed || m.Checksum == "" || m.AppliedAt.IsZero() {
			t.Errorf("the status of %s is %+v", m.Name, m)
		}
	}
}

func TestARoleThatMayNotCreateIsToldWhatToDo(t *testing.T) {
	t.Parallel()
	db := testserver.Postgres(t)
	admin := pool(t, db.URL())
	role := "poor_" + db.Name
	exec(t, admin, "CREATE ROLE "+quoted(role)+" LOGIN")
	t.Cleanup(func() {
		ctx := context.Background()
		_, _ = admin.Exec(ctx, "DROP OWNED BY "+quoted(role))
		_, _ = admin.Exec(ctx, "DROP ROLE "+quoted(role))
	})
	poor := pool(t, strings.Replace(db.URL(), "://once@", "://"+role+"@", 1))
	if got := one[string](t, poor, "SELECT current_user::text"); got != role {
		t.Fatalf("the role is %s", got)
	}
	cfg := oncepg.MigrateConfig{}
	err := wantSchemaError(t, oncepg.Migrate(t.Context(), poor, cfg), oncepg.SchemaForbidden)
	if !strings.Contains(err.Error(), "once migrate print") {
		t.Errorf("it does not say what to do: %v", err)
	}
	migrated(t, admin, cfg)
	wantSchemaError(t, oncepg.Migrate(t.Context(), poor, cfg), oncepg.SchemaForbidden)
	exec(t, admin, "GRANT USAGE ON SCHEMA once TO "+quoted(role))
	exec(t, admin, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA once TO "+
		quoted(role))
	migrated(t, poor, cfg) // nothing is to be done
	exec(t, admin, "UPDATE once.once_migrations SET checksum = NULL")
	exec(t, admin, "REVOKE UPDATE ON once.once_migrations FROM "+quoted(role))
	migrated(t, poor, cfg) // it was applied by hand
}

func TestASchemaWithAnothersTablesIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	p := pool(t, testserver.Postgres(t).URL())
	exec(t, p, "CREATE TABLE public.records (title text)")
	cfg := oncepg.MigrateConfig{Schema: "public"}
	wantSchemaError(t, oncepg.Migrate(t.Context(), p, cfg), oncepg.SchemaChanged)
	if one[bool](t, p, "SELECT to_regclass('public.once_migrations') IS NOT NULL") {
		t.Error("something was left behind")
	}
}

func TestMigrateSQLDoesTheSame(t *testing.T) {
	t.Parallel()
	url := testserver.Postgres(t).URL()
	db := plainSQL(t, url)
	cfg := oncepg.MigrateConfig{Schema: "by sql"}
	for range 2 {
		if err := oncepg.MigrateSQL(t.Context(), db, cfg); err != nil {
			t.Fatal(err)
		}
	}
	p := pool(t, url)
	migrated(t, p, oncepg.MigrateConfig{})
	if got, want := catalog(t, p, cfg.Schema), catalog(t, p, "once"); got != want {
		t.Errorf("by database/sql:\n%s\nwant\n%s", got, want)
	}
	list, err := oncepg.StatusSQL(t.Context(), db, cfg)
	if err != nil || len(list) != len(files(t)) {
		t.Errorf("the status is %+v, %v", list, err)
	}
}

func TestMigrateRefusesNamesThatNoSchemaHas(t *testing.T) {
	t.Parallel()
	p := pool(t, testserver.Postgres(t).URL())
	for _, name := range []string{"pg_once", strings.Repeat("s", 64), "a\x00b"} {
		if err := oncepg.Migrate(t.Context(), p, oncepg.MigrateConfig{Schema: name}); err == nil {
			t.Errorf("%q: no error", name)
		}
	}
}
