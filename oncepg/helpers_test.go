package oncepg_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/postgres"
	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/write"
	"github.com/oncekit/once/write/writetest"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// patience is how long the tests let a call go on: the machine may be doing much else.
const patience = 2 * time.Minute

// suiteTables are those of package writetest.
const suiteTables = `
CREATE TABLE accounts (
	id text PRIMARY KEY, n bigint, version bigint, amount numeric, name text, state text, tag text,
	at timestamptz, list jsonb
);
CREATE TABLE counters (id bigint PRIMARY KEY, n bigint);`

// pool connects to a database, whose address may be that of a proxy.
func pool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	return poolOf(t, url, 8)
}

func poolOf(t testing.TB, url string, connections int32) *pgxpool.Pool {
	t.Helper()
	conf, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	conf.MaxConns = connections
	p, err := pgxpool.NewWithConfig(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func exec(t testing.TB, p *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := p.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// one asks for one value.
func one[T any](t testing.TB, p *pgxpool.Pool, sql string, args ...any) (v T) {
	t.Helper()
	if err := p.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func config() oncepg.WriterConfig {
	return oncepg.WriterConfig{Targets: writetest.Targets(), Patience: patience}
}

// suite is a database whose cases have a schema each: a database takes longer to make.
type suite struct {
	db    testserver.PostgresDB
	admin *pgxpool.Pool
	n     atomic.Int64
}

func newSuite(t *testing.T) *suite {
	t.Helper()
	db := testserver.Postgres(t)
	return &suite{db: db, admin: pool(t, db.URL())}
}

// url makes a schema with the suite's tables, and is how to connect to it.
func (s *suite) url(t testing.TB) string {
	t.Helper()
	schema := fmt.Sprintf("case%d", s.n.Add(1))
	exec(t, s.admin, "CREATE SCHEMA "+schema)
	url := s.db.URL() + "&search_path=" + schema
	exec(t, pool(t, url), suiteTables)
	return url
}

// fresh is a schema with the suite's tables and a writer over it.
func (s *suite) fresh(t testing.TB) (*pgxpool.Pool, *oncepg.Writer) {
	t.Helper()
	p := pool(t, s.url(t))
	return p, open(t, p, config())
}

// fresh makes a database with the suite's tables and a writer over it.
func fresh(t testing.TB) (*pgxpool.Pool, *oncepg.Writer) {
	t.Helper()
	p := pool(t, testserver.Postgres(t).URL())
	exec(t, p, suiteTables)
	return p, open(t, p, config())
}

func open(t testing.TB, p *pgxpool.Pool, conf oncepg.WriterConfig) *oncepg.Writer {
	t.Helper()
	w, err := oncepg.NewWriter(p, conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// read is what writetest asks for.
func read(p *pgxpool.Pool) func(t *testing.T, in string, key any) (write.Fields, bool) {
	return func(t *testing.T, in string, key any) (write.Fields, bool) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var text string
		err := p.QueryRow(ctx, "SELECT to_jsonb(t)::text FROM "+pgx.Identifier{in}.Sanitize()+
			" t WHERE id = $1", key).Scan(&text)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, false
		}
		if err != nil {
			t.Errorf("read: %v", err)
			return nil, false
		}
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		doc := write.Fields{}
		if err := d.Decode(&doc); err != nil {
			t.Error(err)
		}
		delete(doc, "id")
		for name, v := range doc {
			switch v := v.(type) {
			case nil:
				delete(doc, name)
			case json.Number:
				doc[name], err = write.Number(v)
			case string:
				if name == "at" {
					doc[name], err = time.Parse(time.RFC3339Nano, v)
				}
			}
			if err != nil {
				t.Error(err)
			}
		}
		return doc, true
	}
}

// proxied connects through a proxy.
func proxied(t testing.TB, db testserver.PostgresDB, connections int32) (
	*testserver.Proxy, *pgxpool.Pool,
) {
	t.Helper()
	proxy := testserver.NewProxy(t, db.Server.Addr())
	return proxy, poolOf(t, postgres.URL(proxy.Addr(), db.Name), connections)
}

func add(id string, key any, n int) write.Event {
	in := "counters"
	if _, isText := key.(string); isText {
		in = "accounts"
	}
	return write.Event{
		ID: id, In: in, Key: key, Change: write.Increment{By: write.Fields{"n": n}},
	}
}
