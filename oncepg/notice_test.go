package oncepg_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/postgres"
	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/write"
)

// watchedPool is a pool that tells of cancelled waits.
func watchedPool(t testing.TB, url string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	conf, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	conf.MaxConns = 8
	for _, c := range change {
		c(conf)
	}
	oncepg.Watch(conf)
	p, err := pgxpool.NewWithConfig(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// waitingSQL finds who waits for the standby; a barrier is who sends a message into the log only.
const waitingSQL = `SELECT coalesce(min(pid), 0) FROM pg_stat_activity
WHERE wait_event = 'SyncRep' AND (query LIKE 'SELECT CASE%pg_logical_emit_message%') = $1`

// awaitWait returns who waits for the standby.
func awaitWait(t testing.TB, admin *pgxpool.Pool, barrier bool) (pid int) {
	t.Helper()
	testserver.Until(t, limit, "a commit waits for the standby", func() bool {
		pid = one[int](t, admin, waitingSQL, barrier)
		return pid != 0
	})
	return pid
}

func stillWaits[T any](t testing.TB, answers <-chan T) {
	t.Helper()
	select {
	case a := <-answers:
		t.Errorf("it was answered: %+v", a)
	default:
	}
}

// german is the warning as a server with other lc_messages tells it.
var german = &pgconn.Notice{
	Severity: "WARNUNG", SeverityUnlocalized: "WARNING", Code: "01000", File: "syncrep.c",
	Routine: "SyncRepWaitForLSN",
	Message: "storniere Warten auf synchrone Replikation wegen Benutzeraufforderung",
}

// barriers counts the commits that wait again.
type barriers struct {
	n  atomic.Int64
	at func(conn *pgx.Conn) // called before each; may be nil
}

func (b *barriers) TraceQueryStart(
	ctx context.Context, conn *pgx.Conn, d pgx.TraceQueryStartData,
) context.Context {
	if strings.HasPrefix(d.SQL, "SELECT CASE") && strings.Contains(d.SQL, "emit_message") {
		if b.n.Add(1); b.at != nil {
			b.at(conn)
		}
	}
	return ctx
}

func (*barriers) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestOnlyACancelledWaitIsFollowedByABarrier(t *testing.T) {
	t.Parallel()
	db := testserver.Postgres(t)
	exec(t, pool(t, db.URL()), suiteTables)
	var (
		count     barriers
		connected atomic.Int64
		noticed   atomic.Int64
		conf      *pgxpool.Config
	)
	w := open(t, watchedPool(t, db.URL(), func(c *pgxpool.Config) {
		conf = c
		c.ConnConfig.Tracer = &count
		c.ConnConfig.AfterConnect = func(context.Context, *pgconn.PgConn) error {
			connected.Add(1)
			return nil
		}
		c.ConnConfig.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) { noticed.Add(1) }
	}), config())
	for i, c := range []struct {
		do   func(ctx context.Context, tx pgx.Tx) error
		want int64
	}{
		{func(context.Context, pgx.Tx) error { return nil }, 0},
		{func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "DO $$ BEGIN RAISE WARNING "+
				"'canceling wait for synchronous replication due to user request'; END $$")
			return err
		}, 0},
		{func(_ context.Context, tx pgx.Tx) error {
			conf.ConnConfig.OnNotice(tx.Conn().PgConn(), german)
			return nil
		}, 1},
		{func(context.Context, pgx.Tx) error { return nil }, 0}, // it was of that commit alone
	} {
		before := count.n.Load()
		r, err := w.Apply(t.Context(), string(rune('a'+i)), 1, c.do)
		if err != nil || r.Outcome != write.Applied {
			t.Fatalf("%d: %+v, %v", i, r, err)
		}
		if n := count.n.Load() - before; n != c.want {
			t.Errorf("%d: %d barriers, want %d", i, n, c.want)
		}
	}
	if connected.Load() == 0 || noticed.Load() != 2 {
		t.Errorf("the user's own functions: %d connections, %d notices, want 2",
			connected.Load(), noticed.Load())
	}
}

// In PostgreSQL's words the transaction has succeeded, but nobody knows whether a fail-over would
// forget it.
func TestACommitWhoseBarrierFailsIsUnknown(t *testing.T) {
	t.Parallel()
	var (
		count barriers
		conf  *pgxpool.Config
	)
	db := testserver.Postgres(t)
	admin := pool(t, db.URL())
	exec(t, admin, suiteTables)
	p := watchedPool(t, db.URL(), func(c *pgxpool.Config) {
		conf, c.ConnConfig.Tracer = c, &count
		count.at = func(conn *pgx.Conn) { _ = conn.PgConn().Conn().Close() }
	})
	work := func(_ context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "INSERT INTO counters SELECT 1 + count(*) FROM counters")
		if one[int](t, admin, "SELECT count(*) FROM counters") == 0 {
			conf.ConnConfig.OnNotice(tx.Conn().PgConn(), german)
		}
		return err
	}
	err := oncepg.BeginTxFunc(t.Context(), p, pgx.TxOptions{}, func(tx pgx.Tx) error {
		return work(t.Context(), tx)
	})
	if n := one[int](t, admin, "SELECT count(*) FROM counters"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
	wantError(t, "the caller's own", err, once.ErrUnavailable)
	exec(t, admin, "DELETE FROM counters")
	// A writer finds it by reading back, which waits for the standby, too.
	r, err := open(t, p, config()).Apply(t.Context(), "e", 1, work)
	if err != nil || r.Outcome != write.Applied || count.n.Load() != 2 {
		t.Errorf("%+v, %v, %d barriers", r, err, count.n.Load())
	}
	if n := one[int](t, admin, "SELECT count(*) FROM counters"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

// A cancelled wait makes an event visible that the standby has not. Who wrote it is not told
// before the standby has it.
func TestAnEventWhoseWaitWasCancelledIsToldWhenTheStandbyHasIt(t *testing.T) {
	t.Parallel()
	pair := testserver.PostgresWithStandby(t, "on")
	admin := pool(t, pair.Primary.URL("postgres")+"&synchronous_commit=local")
	exec(t, pool(t, pairURL(pair)), suiteTables)
	p := watchedPool(t, pairURL(pair))
	w := open(t, p, config())
	records := openRecords(t, p, oncepg.RecordsConfig{})
	conf, err := pgx.ParseConfig(pairURL(pair))
	if err != nil {
		t.Fatal(err)
	}
	oncepg.WatchConn(conf)
	db := stdlib.OpenDB(*conf)
	t.Cleanup(func() { _ = db.Close() })
	overSQL, err := oncepg.NewWriterSQL(db, config())
	if err != nil {
		t.Fatal(err)
	}
	exec(t, p, "ALTER DATABASE postgres SET search_path = public")
	bouncer := testserver.PgBouncer(t, pair.Primary)
	bounced := open(t, watchedPool(t, bouncer.URL("postgres")+"&default_query_exec_mode=exec"),
		config())
	for _, c := range []struct {
		name  string
		write func() (write.Result, error)
	}{
		{"one", func() (write.Result, error) {
			return w.Write(t.Context(), add("one", 1, 1))
		}},
		{"batch", func() (write.Result, error) {
			rs, err := w.WriteAll(t.Context(),
				[]write.Event{add("b1", 1, 1), add("b2", 1, 1), add("b3", "x", 1)})
			if err != nil {
				return write.Result{}, err
			}
			return rs[0], nil
		}},
		{"function", func() (write.Result, error) {
			return w.Apply(t.Context(), "f", 1, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO counters VALUES (7, 1)")
				return err
			})
		}},
		{"database/sql", func() (write.Result, error) {
			return overSQL.Write(t.Context(), add("sql", 1, 1))
		}},
		{"several by database/sql", func() (write.Result, error) {
			rs, err := overSQL.WriteAll(t.Context(),
				[]write.Event{add("s1", 1, 1), add("s2", "x", 1)})
			if err != nil {
				return write.Result{}, err
			}
			return rs[0], nil
		}},
		{"one through a PgBouncer", func() (write.Result, error) {
			return bounced.Write(t.Context(), add("pg", 1, 1))
		}},
		{"a record", func() (write.Result, error) {
			_, err := records.Claim(t.Context(), recordClaim("k"))
			return write.Result{Outcome: write.Applied}, err
		}},
		{"a transaction of the caller", func() (r write.Result, err error) {
			err = oncepg.BeginTxFunc(t.Context(), p, pgx.TxOptions{},
				func(tx pgx.Tx) error {
					r, err = w.WithTx(tx).Write(t.Context(), add("tx", 1, 1))
					return err
				})
			return r, err
		}},
	} {
		pair.Log.Hold()
		answers := make(chan answer, 1)
		go func() {
			r, err := c.write()
			answers <- answer{r, err}
		}()
		for _, barrier := range []bool{false, true} { // the barrier's own wait is cancelled, too
			pid := awaitWait(t, admin, barrier)
			exec(t, admin, "SELECT pg_cancel_backend($1)", pid)
		}
		awaitWait(t, admin, true)
		stillWaits(t, answers)
		pair.Log.Restore()
		if a := <-answers; a.err != nil || a.Outcome != write.Applied {
			t.Errorf("%s: %+v, %v", c.name, a.Result, a.err)
		}
	}
	pair.FailOver(t)
	if n := one[int](t, pool(t, pairURL(pair)), "SELECT count(*) FROM once_events"); n != 10 {
		t.Errorf("%d events are there after the fail-over, want 10", n)
	}
	if n := one[int](t, pool(t, pairURL(pair)), "SELECT count(*) FROM once.records"); n != 1 {
		t.Errorf("%d records, want 1", n)
	}
}

// Promise 1 for repeats: what only the primary has is told to nobody, also not as a duplicate.
func TestARepeatIsNotToldOfAnEventThatAFailOverForgets(t *testing.T) {
	t.Parallel()
	pair := testserver.PostgresWithStandby(t, "on")
	admin := pool(t, pair.Primary.URL("postgres")+"&synchronous_commit=local")
	exec(t, pool(t, pairURL(pair)), suiteTables)
	w := open(t, watchedPool(t, pairURL(pair)), config())
	// The tables' columns are known: what waits are the events.
	for _, e := range []write.Event{add("u", 8, 0), add("v", "z", 0)} {
		if _, err := w.Write(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	pair.Log.Hold()
	apply := func(ctx context.Context) (write.Result, error) {
		return w.Apply(ctx, "f", 1, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO counters VALUES (3, 5)")
			return err
		})
	}
	writes := []func(ctx context.Context) (write.Result, error){
		func(ctx context.Context) (write.Result, error) { return w.Write(ctx, add("e", 1, 5)) },
		func(ctx context.Context) (write.Result, error) {
			rs, err := w.WriteAll(ctx, []write.Event{add("b1", 2, 5), add("b2", "x", 5)})
			if err != nil {
				return write.Result{}, err
			}
			return rs[0], nil
		},
		apply,
	}
	// Whoever wrote them first has given up, and the cancelled wait made them visible.
	for i, first := range writes {
		ctx, cancel := context.WithCancel(t.Context())
		answers := make(chan error, 1)
		go func() {
			_, err := first(ctx)
			answers <- err
		}()
		awaitWait(t, admin, false)
		cancel()
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("the first: %v", err)
		}
		testserver.Until(t, limit, "it is visible", func() bool {
			return one[int](t, admin, "SELECT count(*) FROM counters WHERE id = $1", i+1) == 1
		})
	}
	answers := make(chan answer, len(writes))
	for _, again := range writes {
		go func() {
			r, err := again(t.Context())
			answers <- answer{r, err}
		}()
	}
	testserver.Until(t, limit, "the repeats wait for the standby", func() bool {
		return one[int](t, admin,
			"SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == len(writes)
	})
	stillWaits(t, answers)
	pair.FailOver(t)
	for range writes {
		// The new primary has never heard of it: this is the first time.
		if a := <-answers; a.err != nil || a.Outcome != write.Applied {
			t.Errorf("the repeat: %+v, %v", a.Result, a.err)
		}
	}
	got := one[[]int](t, pool(t, pairURL(pair)),
		"SELECT array_agg(n::int ORDER BY id) FROM counters WHERE id < 4")
	if len(got) != 3 || got[0] != 5 || got[1] != 5 || got[2] != 5 {
		t.Errorf("after the fail-over: %v, want 5 of each", got)
	}
}

// Whoever has standbys and a pool that does not tell of cancelled waits is told so.
func TestOpenSaysThatCancelledWaitsWouldNotBeNoticed(t *testing.T) {
	t.Parallel()
	server := testserver.PostgresServer(t, standbyAbsent)
	url := server.URL("postgres") + "&search_path=public"
	local := pool(t, url+"&synchronous_commit=local")
	exec(t, local, suiteTables)
	open(t, local, config())
	_ = openRecords(t, local, oncepg.RecordsConfig{})
	for _, c := range []struct {
		name string
		pool *pgxpool.Pool
		want string
	}{
		{"a pool as it is", pool(t, url), "oncepg.Watch"},
		{"a watched one", watchedPool(t, url), ""},
		{"one that is told nothing", watchedPool(t, url+"&client_min_messages=error"),
			"client_min_messages"},
		{"one that waits for nothing", local, ""},
	} {
		for what, open := range map[string]func(*slog.Logger) error{
			"writer": func(log *slog.Logger) error {
				conf := config()
				conf.Logger = log
				w, err := oncepg.NewWriter(c.pool, conf)
				return errors.Join(err, w.Open(t.Context()))
			},
			"writer over database/sql": func(log *slog.Logger) error {
				conf := config()
				conf.Logger = log
				w, err := oncepg.NewWriterSQL(sqlOver(t, c.pool), conf)
				return errors.Join(err, w.Open(t.Context()))
			},
			"records": func(log *slog.Logger) error {
				r, err := oncepg.NewRecords(c.pool, oncepg.RecordsConfig{Logger: log})
				return errors.Join(err, r.Open(t.Context()))
			},
		} {
			var told testserver.Text
			if err := open(slog.New(slog.NewTextHandler(&told, nil))); err != nil {
				t.Fatalf("%s, %s: %v", what, c.name, err)
			}
			if s := told.String(); !strings.Contains(s, c.want) || (s == "") != (c.want == "") {
				t.Errorf("%s, %s: the log says %q, want %q", what, c.name, s, c.want)
			}
		}
	}
}

// sqlOver is a pool as database/sql sees it.
func sqlOver(t testing.TB, p *pgxpool.Pool) *sql.DB {
	db := stdlib.OpenDBFromPool(p)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// standbyAbsent is a server whose commits wait for a standby that never comes, from its start on:
// one that is told so later obeys a little later than it says.
var standbyAbsent = postgres.Config{
	Lines: []string{"synchronous_commit = on", "synchronous_standby_names = 'absent'"},
}
