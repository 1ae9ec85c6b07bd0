package server_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/oncekit/once/internal/server"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/mongotest"
	"github.com/oncekit/once/internal/testserver/postgres"
)

// row is a document of the collection payments; without it the zero value.
type row struct {
	Status                 string
	Updated, Cents, Events int64
}

// ledger is a database of the test's own, in which payments become rows.
type ledger interface {
	// url of the database, through another host and port if addr is one.
	url(addr string) string
	// addr is the host and port of the server, for a proxy before it.
	addr() string
	// create makes the collection, and the unique index of its key.
	create(ctx context.Context) error
	// crowd makes the collection without that index, and two rows of one payment in it.
	crowd(ctx context.Context, payment string) error
	// index makes one of them of it, and the index.
	index(ctx context.Context) error
	// spoil makes the count of events a text.
	spoil(ctx context.Context, payment string) error
	row(ctx context.Context, payment string) (row, error)
}

// eachLedger runs a subtest for each kind of database.
func eachLedger(t *testing.T, test func(t *testing.T, l ledger)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, newSQLite(t))
	})
	eachServer(t, test)
}

// eachServer runs a subtest for each kind of database that is reached over a network.
func eachServer(t *testing.T, test func(t *testing.T, l ledger)) {
	t.Helper()
	run := func(name string, open func(t *testing.T) ledger) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
	run("postgresql", func(t *testing.T) ledger {
		db := testserver.Postgres(t)
		return &postgresLedger{db: db, conn: sqlLedger{openSQL(t, "pgx", db.URL())}}
	})
	for _, s := range mongotest.Servers(t) {
		run(s.Name, func(t *testing.T) ledger {
			return &mongoLedger{server: s, db: s.Database(t)}
		})
	}
}

// ready is a ledger whose collection is there.
func ready(t *testing.T, l ledger) ledger {
	t.Helper()
	if err := l.create(t.Context()); err != nil {
		t.Fatalf("create collection: %v", err)
	}
	return l
}

func openSQL(t *testing.T, driver, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// sqlLedger is what SQLite and PostgreSQL have in common.
type sqlLedger struct{ db *sql.DB }

func (l sqlLedger) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := l.db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

const table = `CREATE TABLE payments (payment TEXT NOT NULL, status TEXT, updated BIGINT,
	cents BIGINT, events BIGINT)`

func (l sqlLedger) create(ctx context.Context) error {
	return l.exec(ctx, table, "CREATE UNIQUE INDEX payments_key ON payments (payment)")
}

func (l sqlLedger) crowd(ctx context.Context, payment string) error {
	insert := "INSERT INTO payments (payment) VALUES ('" + payment + "')"
	return l.exec(ctx, table, insert, insert)
}

func (l sqlLedger) index(ctx context.Context) error {
	return l.exec(ctx, "DELETE FROM payments",
		"CREATE UNIQUE INDEX payments_key ON payments (payment)")
}

func (l sqlLedger) row(ctx context.Context, payment string) (r row, err error) {
	err = l.db.QueryRowContext(ctx, `SELECT coalesce(status, ''), coalesce(updated, 0),
		coalesce(cents, 0), coalesce(events, 0) FROM payments WHERE payment = `+
		"'"+payment+"'").Scan(&r.Status, &r.Updated, &r.Cents, &r.Events)
	if errors.Is(err, sql.ErrNoRows) {
		return row{}, nil
	}
	return r, err
}

// sqliteLedger is a file.
type sqliteLedger struct {
	sqlLedger
	file string
}

func newSQLite(t *testing.T) *sqliteLedger {
	file := filepath.Join(t.TempDir(), "ledger.db")
	l := &sqliteLedger{sqlLedger{openSQL(t, "sqlite3",
		"file:"+file+"?_pragma=busy_timeout(60000)")}, file}
	if err := l.exec(t.Context(), "PRAGMA journal_mode = WAL"); err != nil { // it is there now
		t.Fatal(err)
	}
	return l
}

func (l *sqliteLedger) url(string) string { return "sqlite:" + l.file }

func (l *sqliteLedger) addr() string { return "" }

func (l *sqliteLedger) spoil(ctx context.Context, payment string) error {
	return l.exec(ctx, "INSERT INTO payments (payment, events) VALUES ('"+payment+"', 'many')")
}

// postgresLedger is a database of the server that all tests share.
type postgresLedger struct {
	db   testserver.PostgresDB
	conn sqlLedger
}

func (l *postgresLedger) url(addr string) string {
	if addr == "" {
		addr = l.addr()
	}
	return postgres.URL(addr, l.db.Name)
}

func (l *postgresLedger) addr() string { return l.db.Server.Addr() }

func (l *postgresLedger) create(ctx context.Context) error { return l.conn.create(ctx) }

func (l *postgresLedger) crowd(ctx context.Context, payment string) error {
	return l.conn.crowd(ctx, payment)
}

func (l *postgresLedger) index(ctx context.Context) error { return l.conn.index(ctx) }

// spoil changes the column, since it has a type.
func (l *postgresLedger) spoil(ctx context.Context, _ string) error {
	return l.conn.exec(ctx, "ALTER TABLE payments ALTER COLUMN events TYPE TEXT")
}

func (l *postgresLedger) row(ctx context.Context, payment string) (row, error) {
	return l.conn.row(ctx, payment)
}

// mongoLedger is a database of a server that speaks MongoDB's protocol.
type mongoLedger struct {
	server mongotest.Server
	db     *mongo.Database
}

func (l *mongoLedger) payments() *mongo.Collection { return l.db.Collection("payments") }

func (l *mongoLedger) url(addr string) string {
	uri := l.server.URI
	if addr != "" {
		uri = testserver.MongoURI(addr)
	}
	base, query, _ := strings.Cut(uri, "?")
	scheme, hosts, _ := strings.Cut(base, "://")
	hosts, _, _ = strings.Cut(hosts, "/")
	return scheme + "://" + hosts + "/" + l.db.Name() + "?" + query
}

func (l *mongoLedger) addr() string {
	_, rest, _ := strings.Cut(l.server.URI, "://")
	hosts, _, _ := strings.Cut(rest, "/")
	first, _, _ := strings.Cut(hosts[strings.LastIndex(hosts, "@")+1:], ",")
	return first
}

func (l *mongoLedger) create(ctx context.Context) error {
	_, err := l.payments().Indexes().CreateOne(ctx, mongo.IndexModel{
		Keys: bson.D{{Key: "payment", Value: 1}}, Options: options.Index().SetUnique(true)})
	return err
}

func (l *mongoLedger) crowd(ctx context.Context, payment string) error {
	_, err := l.payments().InsertMany(ctx, []any{
		bson.D{{Key: "payment", Value: payment}}, bson.D{{Key: "payment", Value: payment}}})
	return err
}

func (l *mongoLedger) index(ctx context.Context) error {
	if _, err := l.payments().DeleteMany(ctx, bson.D{}); err != nil {
		return err
	}
	return l.create(ctx)
}

func (l *mongoLedger) spoil(ctx context.Context, payment string) error {
	_, err := l.payments().InsertOne(ctx, bson.D{{Key: "payment", Value: payment},
		{Key: "events", Value: "many"}})
	return err
}

func (l *mongoLedger) row(ctx context.Context, payment string) (r row, err error) {
	err = l.payments().FindOne(ctx, bson.D{{Key: "payment", Value: payment}}).Decode(&r)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return row{}, nil
	}
	return r, err
}

// written is a configuration whose callbacks become rows of a ledger, through another host and port
// if addr is one; fields are further ones of `to`.
func written(l ledger, addr, fields string) string {
	return `
databases:
  ledger: {url: "` + l.url(addr) + `"}
sources:
  pay:
    key: ["body.id"]
    to:
      document:
        database: ledger
        in: payments
        key: {payment: "${body.data.payment}"}
        set: {status: "${body.data.status}", updated: "${body.created}"}
        set_on_insert: {cents: "${body.data.cents}"}
        inc: {events: 1}
        newer: updated
      retry: {base: 10ms, cap: 100ms}
` + fields
}

// paymentEvent is a message of that source.
func paymentEvent(id, payment, status string, created int64) string {
	return fmt.Sprintf(`{"id":%q,"created":%d,"data":{"payment":%q,"status":%q,"cents":1250}}`, id,
		created, payment, status)
}

// patient waits for databases at the start as long as the test does.
func patient(o *server.Options) { o.DatabaseWait = patience }

// has fails the test if a payment is not as it is to be.
func has(t *testing.T, l ledger, payment string, want row) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	got, err := l.row(ctx, payment)
	if err != nil || got != want {
		t.Errorf("%s is %+v, %v; want %+v", payment, got, err, want)
	}
}

// short is for what does not happen: how often it is looked at, not how long it takes.
const short = 10 * time.Millisecond
