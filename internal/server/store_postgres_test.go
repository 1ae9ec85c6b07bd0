package server_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/server"
	"github.com/oncekit/once/internal/testserver"
)

// storeInPostgres is an edit of robots.yaml that keeps its store in a schema of a new database.
func storeInPostgres(t *testing.T) []string {
	t.Helper()
	return []string{"store: sqlite:once.db           #",
		"store: " + strconv.Quote(testserver.Postgres(t).URL()+"&schema=robots") + " #"}
}

// The built-in robots do over PostgreSQL what they do over SQLite.
func TestRobotsOverPostgreSQLEndInFinishedAndSendEachEffectOnce(t *testing.T) {
	t.Parallel()
	robotsEnd(t, storeInPostgres(t))
}

// Two nodes on one schema share its tasks, whichever of them a callback comes to.
func TestTwoNodesOverPostgreSQLWorkOneFlowTogether(t *testing.T) {
	t.Parallel()
	twoNodesShare(t, storeInPostgres(t))
}

// A URL that no driver can read is told before anything is served, without its password.
func TestAWrongURLOfAStoreInPostgreSQLIsToldWithoutItsPassword(t *testing.T) {
	t.Parallel()
	const yaml = "store: 'postgres://me:hunter2secret@127.0.0.1:1/once?connect_timeout=soon'\n" +
		"sources: {s: {key: body.id, to: {http: 'http://127.0.0.1:1'}}}\n"
	cfg, err := load(t.TempDir(), yaml)
	if err != nil {
		t.Fatal(err)
	}
	list := server.Unfit(cfg)
	if len(list) != 1 || !strings.Contains(list[0].Msg, "postgres://127.0.0.1:1/once") {
		t.Fatalf("unfit: %+v", list)
	}
	told := (&config.Error{Problems: list}).Error()
	for _, text := range []string{told, cfg.Store.Name()} {
		if strings.Contains(text, "hunter2secret") {
			t.Errorf("it shows the password: %s", text)
		}
	}
}

// A database that is away ends the start with an error that names its host, and no password.
func TestAStoreInPostgreSQLThatIsAwayIsNamedAtTheStart(t *testing.T) {
	t.Parallel()
	const yaml = "store: 'postgres://me:hunter2secret@127.0.0.1:1/once?connect_timeout=5'\n" +
		"sources: {s: {key: body.id, to: {http: 'http://127.0.0.1:1'}}}\n"
	cfg, err := load(t.TempDir(), yaml)
	if err != nil {
		t.Fatal(err)
	}
	_, err = server.Open(t.Context(), server.Options{Config: cfg})
	if err == nil {
		t.Fatal("it started")
	}
	if text := err.Error(); !strings.Contains(text, "127.0.0.1:1/once") ||
		strings.Contains(text, "hunter2secret") {
		t.Errorf("told %s", text)
	}
}
