package oncepg_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/linear"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/postgres"
	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/oncetest"
)

// recordOutcome is small, so that the cases of the limit are quick.
const recordOutcome = 256 << 10

// recordSchemas are the schemas of one database, a store each: a database takes longer to make, and
// so do all tables of a schema.
type recordSchemas struct {
	*suite
	make func(cfg oncepg.RecordsConfig) (*oncepg.Records, error)
}

// overPool makes stores over one pool, through which the schema is migrated that the others are
// made like.
func overPool(t *testing.T, options string) recordSchemas {
	t.Helper()
	s := newSuite(t)
	p := pool(t, s.db.URL()+options)
	openRecords(t, p, oncepg.RecordsConfig{})
	return recordSchemas{s, func(cfg oncepg.RecordsConfig) (*oncepg.Records, error) {
		return oncepg.NewRecords(p, cfg)
	}}
}

// overSQL makes stores over database/sql.
func overSQL(t *testing.T) recordSchemas {
	t.Helper()
	s := newSuite(t)
	db := plainSQL(t, s.db.URL())
	r, err := oncepg.NewRecordsSQL(db, oncepg.RecordsConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return recordSchemas{s, func(cfg oncepg.RecordsConfig) (*oncepg.Records, error) {
		return oncepg.NewRecordsSQL(db, cfg)
	}}
}

// plainSQL is database/sql with as few connections as a pool has: the tests share one server.
func plainSQL(t testing.TB, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	const connections = 8
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// fresh makes a schema that nobody has, with an empty table as the migrations make it.
func (s *recordSchemas) fresh(t testing.TB) oncepg.RecordsConfig {
	t.Helper()
	cfg := oncepg.RecordsConfig{
		Schema: fmt.Sprintf("Records %d", s.n.Add(1)), MaxOutcome: recordOutcome,
	}
	exec(t, s.admin, "CREATE SCHEMA "+quoted(cfg.Schema))
	exec(t, s.admin, "CREATE TABLE "+quoted(cfg.Schema)+
		".records (LIKE once.records INCLUDING ALL)")
	return cfg
}

func (s *recordSchemas) store(t testing.TB, cfg oncepg.RecordsConfig) *oncepg.Records {
	t.Helper()
	r, err := s.make(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func openRecords(
	t testing.TB, p *pgxpool.Pool, cfg oncepg.RecordsConfig,
) *oncepg.Records {
	t.Helper()
	r, err := oncepg.NewRecords(p, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// someRecords is a store in a database of its own.
func someRecords(t testing.TB) (*oncepg.Records, *pgxpool.Pool) {
	t.Helper()
	p := pool(t, testserver.Postgres(t).URL())
	return openRecords(t, p, oncepg.RecordsConfig{}), p
}

func (s *recordSchemas) harness(t *testing.T) oncetest.Harness {
	cfg := s.fresh(t)
	r := s.store(t, cfg)
	return oncetest.Harness{
		Store: r, MaxOutcome: recordOutcome,
		Advance: func(d time.Duration) { r.Advance(d) },
		Corrupt: func(id once.Identity) { damage(t, s.admin, cfg.Schema, id, "state = '?'") },
		Reopen: func() once.Store {
			before := r
			r = s.store(t, cfg)
			r.KeepClock(before)
			return r
		},
	}
}

// damage changes a record as no statement of once does.
func damage(t testing.TB, p *pgxpool.Pool, schema string, id once.Identity, set string) {
	t.Helper()
	table := quoted(schema) + ".records"
	for _, name := range []string{"state", "tokens", "counts", "outcome", "expiry", "finish"} {
		exec(t, p, "ALTER TABLE "+table+" DROP CONSTRAINT IF EXISTS records_"+name)
	}
	tag, err := p.Exec(t.Context(), "UPDATE "+table+" SET "+set+" WHERE identity = $1", id[:])
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("%s: %v, %v", set, tag, err)
	}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	s := overPool(t, "")
	oncetest.Run(t, s.harness)
}

// What database/sql does in its own way: values, errors, contexts, waits.
func TestRecordsOverDatabaseSQL(t *testing.T) {
	t.Parallel()
	s := overSQL(t)
	oncetest.Run(t, s.harness, "Claim", "Outcome", "Note", "Race", "Resolve", "Sweep", "Browse",
		"Context")
}

// Without a clock that tests move, everything is judged by the database's.
func TestRecordsByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	s := overPool(t, "")
	oncetest.Run(t, func(t *testing.T) oncetest.Harness {
		return oncetest.Harness{Store: s.store(t, s.fresh(t)), MaxOutcome: recordOutcome}
	}, "Claim", "Stale", "Unknown", "Retention", "Sweep", "Renew")
}

// Poolers need modes in which nothing stays prepared.
func TestRecordsInModesThatPoolersNeed(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"exec", "simple_protocol", "cache_describe"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := overPool(t, "&default_query_exec_mode="+mode)
			oncetest.Run(t, s.harness, "Outcome", "Note")
			p := pool(t, s.db.URL()+"&default_query_exec_mode="+mode)
			r := openRecords(t, p, oncepg.RecordsConfig{})
			g := claimRecord(t, r, recordClaim("in a transaction"))
			if err := pgx.BeginFunc(t.Context(), p, func(tx pgx.Tx) error {
				return r.WithTx(tx).Complete(t.Context(), g, done)
			}); err != nil {
				t.Error(err)
			}
			if got := replayOf(t, r, recordClaim("in a transaction")); string(got.Data) != "done" {
				t.Errorf("replayed %q", got.Data)
			}
		})
	}
}

// What was acknowledged outlives the server's process.
func TestRecordsOverARestartOfTheServer(t *testing.T) {
	t.Parallel()
	oncetest.Run(t, func(t *testing.T) oncetest.Harness {
		server := testserver.PostgresServer(t, postgres.Config{
			Lines: []string{"synchronous_commit = on"},
		})
		r := openRecords(t, pool(t, server.URL("postgres")), oncepg.RecordsConfig{})
		return oncetest.Harness{
			Store: r, Advance: func(d time.Duration) { r.Advance(d) },
			Reopen: func() once.Store {
				server.Kill()
				if err := server.Start(); err != nil {
					t.Fatal(err)
				}
				return r
			},
		}
	}, "Restart")
}

func TestAnswersOfRecordsCouldHaveComeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	r, _ := someRecords(t)
	linear.Check(t, r, linear.Options{})
}

// BenchmarkRecords measures a server on this machine, over loopback, with its flushes.
func BenchmarkRecords(b *testing.B) {
	server := testserver.PostgresServer(b, postgres.Config{Durable: true})
	oncetest.Bench(b, openRecords(b, poolOf(b, server.URL("postgres"), 16),
		oncepg.RecordsConfig{}))
}
