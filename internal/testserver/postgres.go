package testserver

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncekit/once/internal/testserver/postgres"
)

// createLimit is how long a database may take to be made, on a machine that does much else.
const createLimit = time.Minute

// shared is the server of a test program: it starts with the first test that wants one.
var shared struct {
	has atomic.Bool // Main runs the tests, and will end the server

	once   sync.Once
	server *postgres.Server
	err    error
	names  atomic.Int64
}

// PostgresDB is an empty database of its own in the PostgreSQL server of the test program, which
// flushes nothing.
type PostgresDB struct {
	// Server is shared by all tests of the program: leave it running.
	Server *postgres.Server
	Name   string
}

// URL is how to connect to it.
func (db PostgresDB) URL() string { return db.Server.URL(db.Name) }

// Postgres makes a database for a test. The server starts with the first one, and ends with
// [Main], which the package's TestMain has to call.
func Postgres(t testing.TB) PostgresDB {
	t.Helper()
	if !shared.has.Load() {
		t.Fatal("func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) } is missing")
	}
	shared.once.Do(func() { shared.server, shared.err = postgres.Start(postgres.Config{}) })
	if shared.err != nil {
		t.Fatalf("start PostgreSQL: %v", shared.err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), createLimit)
	defer cancel()
	db := PostgresDB{Server: shared.server, Name: fmt.Sprintf("t%d", shared.names.Add(1))}
	if err := shared.server.CreateDatabase(ctx, db.Name); err != nil {
		t.Fatalf("create database: %v", err)
	}
	return db
}

// PostgresServer starts a server that the test may stop, kill and start again. It ends with the
// test.
func PostgresServer(t testing.TB, conf postgres.Config) *postgres.Server {
	t.Helper()
	s, err := postgres.Start(conf)
	if err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("remove PostgreSQL: %v", err)
		}
	})
	return s
}

// Main runs the tests of a package that uses [Postgres], and ends the server. It returns what the
// program ends with.
func Main(m *testing.M) (code int) {
	shared.has.Store(true)
	defer func() {
		if shared.server == nil {
			return
		}
		if err := shared.server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "remove PostgreSQL:", err)
			code = 1
		}
	}()
	return m.Run()
}
