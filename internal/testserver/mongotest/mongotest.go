// Package mongotest gives tests databases of servers that speak MongoDB's protocol: of FerretDB
// (testserver.SharedMongo), and, where the environment names one in ONCE_TEST_MONGODB_URI, of a
// real MongoDB as well. What has transactions is checked there, and against a proxy that plays a
// replica set ([Replica]).
package mongotest

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/oncekit/once/internal/testserver"
)

// Variable is the environment variable that names a real MongoDB. Its user may make and drop
// databases whose names begin with "once_test_".
const Variable = "ONCE_TEST_MONGODB_URI"

// closeLimit is for taking away what a test made.
const closeLimit = 30 * time.Second

// Server is a server that tests run against.
type Server struct {
	// Name is "ferretdb", "emulated" or "mongodb".
	Name string
	// URI connects to it.
	URI string
}

// Each runs a subtest for each server. They may run side by side: each database is a new one.
func Each(t *testing.T, test func(t *testing.T, s Server)) {
	t.Helper()
	for _, s := range Servers(t) {
		t.Run(s.Name, func(t *testing.T) { test(t, s) })
	}
}

// Servers are the servers that tests run against; the first is FerretDB.
func Servers(t testing.TB) []Server {
	t.Helper()
	all := []Server{Ferret(t)}
	if uri := os.Getenv(Variable); uri != "" {
		all = append(all, Server{Name: "mongodb", URI: uri})
	}
	return all
}

// Ferret is FerretDB, shared by the tests of this process.
func Ferret(t testing.TB) Server {
	t.Helper()
	return Server{Name: "ferretdb", URI: testserver.SharedMongo(t).URI()}
}

// Replica is FerretDB behind a proxy that plays a replica set with transactions, shared by the
// tests of this process (testserver.MongoServer.ReplicaURI).
func Replica(t testing.TB) Server {
	t.Helper()
	return Server{Name: "emulated", URI: testserver.SharedMongo(t).ReplicaURI()}
}

// Real is the server of the environment, if it names one.
func Real() (Server, bool) {
	uri := os.Getenv(Variable)
	return Server{Name: "mongodb", URI: uri}, uri != ""
}

// Database is a new database, over a client of its own. Both are gone with the test.
func (s Server) Database(t testing.TB, more ...*options.ClientOptions) *mongo.Database {
	t.Helper()
	db := Connect(t, s.URI, more...).Database(DatabaseName())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		client, err := mongo.Connect(options.Client().ApplyURI(s.URI))
		if err != nil {
			return
		}
		defer client.Disconnect(ctx)
		_ = client.Database(db.Name()).Drop(ctx) // a server that was killed has none
	})
	return db
}

// DatabaseName is a name that no other test has.
func DatabaseName() string { return "once_test_" + strings.ToLower(rand.Text()[:16]) }

// Connect makes a client that asks for majority writes, journaled, and majority reads, and ends
// with the test. More options are laid over these.
func Connect(t testing.TB, uri string, more ...*options.ClientOptions) *mongo.Client {
	t.Helper()
	journal := true
	base := options.Client().ApplyURI(uri).
		SetWriteConcern(&writeconcern.WriteConcern{W: "majority", Journal: &journal}).
		SetReadConcern(readconcern.Majority())
	client, err := mongo.Connect(append([]*options.ClientOptions{base}, more...)...)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		_ = client.Disconnect(ctx)
	})
	return client
}
