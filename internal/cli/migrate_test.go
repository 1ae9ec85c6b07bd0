package cli_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oncekit/once/internal/testserver"
)

// inDatabase runs a statement.
func inDatabase(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// wantRun runs the program and wants a status, and texts in what it writes.
func wantRun(t *testing.T, status int, args []string, texts ...string) string {
	t.Helper()
	got, out, errs := run(args...)
	if got != status {
		t.Errorf("%v: status %d, want %d\n%s%s", args, got, status, out, errs)
	}
	for _, text := range texts {
		if !strings.Contains(out+errs, text) {
			t.Errorf("%v: it lacks %q:\n%s%s", args, text, out, errs)
		}
	}
	if strings.Contains(out+errs, "S3CRET") {
		t.Errorf("%v: the password is shown", args)
	}
	return out
}

func TestMigrateBringsASchemaUpAndSaysSo(t *testing.T) {
	t.Parallel()
	db := testserver.Postgres(t)
	url := strings.Replace(db.URL(), "://once@", "://once:S3CRET@", 1) + "&schema=the%20gate"
	place := "schema the gate in postgres://" + db.Server.Addr() + "/" + db.Name
	up, status := []string{"migrate", "up", "--store", url},
		[]string{"migrate", "status", "--store", url}
	wantRun(t, 4, status, place+"  version 0 of ", "0001", "missing", "run `once migrate up`")
	wantRun(t, 0, up, place+": it has version ", "  applied 0001 records\n")
	wantRun(t, 0, up, place+": nothing to do, it has version ")
	wantRun(t, 0, status, place+"  version ", "0001     records", "applied")
	inDatabase(t, db.URL(), `INSERT INTO "the gate".once_migrations (version, name)
		VALUES (9999, 'later')`)
	wantRun(t, 4, up, "it has version 9999", "run the newer program")
	wantRun(t, 4, status, "of a newer program")
	inDatabase(t, db.URL(), `DELETE FROM "the gate".once_migrations WHERE version = 9999;
		UPDATE "the gate".once_migrations SET checksum = 'other' WHERE version = 1`)
	wantRun(t, 4, up, "0001_records was applied with another text")
	wantRun(t, 4, status, "changed")
}

func TestMigrateTakesWhatAFileHasInPostgreSQL(t *testing.T) {
	t.Parallel()
	db := testserver.Postgres(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "once.yaml")
	write := func(records string) {
		t.Helper()
		text := "gateway:\n  upstream: http://127.0.0.1:1\n  scope: none\n" +
			"  routes: [{match: POST /}]\n" + records
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("  records: \"" + db.URL() + "\"\n")
	wantRun(t, 0, []string{"migrate", "up", "--config", file}, "schema once in ", "0001 records")
	write("store: \"" + db.URL() + "&schema=other\"\n")
	wantRun(t, 0, []string{"migrate", "up", "--config", file}, "schema other in ", "0001 records")
	write("")
	wantRun(t, 2, []string{"migrate", "up", "--config", file}, "nothing of "+file)
}

func TestMigrateSaysWhatIsWrongWithItsArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		args   []string
		want   string
	}{
		{2, []string{"up"}, "--store postgres://HOST/DATABASE, or --config FILE"},
		{2, []string{"up", "--store", "sqlite:once.db"}, "once.db is not in PostgreSQL"},
		{2, []string{"up", "--store", "mongodb://u:S3CRET@h/d"}, "mongodb://h/d is not in"},
		{2, []string{"status", "--store", "postgres://u:S3CRET@h:x/d"}, "can't be used"},
		{5, []string{"status", "--store", "postgres://u:S3CRET@127.0.0.1:1/d"},
			"store is unavailable"},
		{5, []string{"up", "--store", "postgres://u:S3CRET@127.0.0.1:1/d"},
			"schema once in postgres://127.0.0.1:1/d: "},
		{2, []string{"print", "--from", "0"}, "versions begin with 1"},
		{1, []string{"up", "--store", "postgres://u@127.0.0.1:1/d?schema=pg_x"},
			"PostgreSQL's own"},
		{2, []string{"upwards"}, "is no command"},
	} {
		wantRun(t, c.status, append([]string{"migrate"}, c.args...), c.want)
	}
}

func TestMigratePrintAsksNobody(t *testing.T) {
	t.Parallel()
	all := wantRun(t, 0, []string{"migrate", "print"}, `CREATE SCHEMA IF NOT EXISTS "once";`,
		"CREATE TABLE records", "UPDATE once_migrations SET checksum = '")
	out := wantRun(t, 0, []string{"migrate", "print", "--store",
		"postgres://u:S3CRET@nobody.invalid/d?schema=a%22b"}, `SET LOCAL search_path = "a""b";`)
	if len(out) < len(all)/2 {
		t.Errorf("it is short: %s", out)
	}
	if out := wantRun(t, 0, []string{"migrate", "print", "--from", "99"}); out != "" {
		t.Errorf("from 99: %s", out)
	}
}

// Ten programs that start at once migrate once.
func TestTenProgramsMigrateAtOnce(t *testing.T) {
	t.Parallel()
	db := testserver.Postgres(t)
	path := program(t, "./cmd/once")
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			out, err := exec.CommandContext(t.Context(), path, "migrate", "up", "--store",
				db.URL()).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "it has version ") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	all.Wait()
	wantRun(t, 0, []string{"migrate", "status", "--store", db.URL()}, "applied")
}
