package testserver_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/postgres"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestEachTestHasADatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	a, b := testserver.Postgres(t), testserver.Postgres(t)
	if _, err := connect(t, a.URL()).Exec(t.Context(), "CREATE TABLE x (n int)"); err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, b.URL()).Exec(t.Context(), "CREATE TABLE x (n int)"); err != nil {
		t.Fatal(err)
	}
}

func TestAKilledPostgresStartsAgainWithWhatWasCommitted(t *testing.T) {
	t.Parallel()
	s := testserver.PostgresServer(t, postgres.Config{Durable: true})
	if _, err := connect(t, s.URL("postgres")).Exec(t.Context(),
		"CREATE TABLE x AS SELECT 7 AS n"); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	var n int
	err := connect(t, s.URL("postgres")).QueryRow(t.Context(), "SELECT n FROM x").Scan(&n)
	if err != nil || n != 7 {
		t.Fatalf("%d, %v", n, err)
	}
}
