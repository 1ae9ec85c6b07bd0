package oncepg_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/testserver/postgres"
	"github.com/oncekit/once/oncepg"
)

// lossy is a store whose next write lands without its answer.
type lossy struct {
	*oncepg.Records
	t     *testing.T
	proxy *testserver.Proxy
	plain *pgxpool.Pool // past the proxy
	armed atomic.Bool
	// sent are the writes since it was armed.
	sent atomic.Int64
}

// TraceQueryStart drops the answer to the next statement that writes.
func (l *lossy) TraceQueryStart(
	ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData,
) context.Context {
	if strings.Contains(d.SQL, "INSERT INTO") || strings.Contains(d.SQL, "UPDATE ") {
		l.sent.Add(1)
		if l.armed.Swap(false) {
			l.proxy.Hold()
		}
	}
	return ctx
}

func (l *lossy) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func newLossy(t *testing.T) *lossy {
	t.Helper()
	db := testserver.Postgres(t)
	l := &lossy{t: t, plain: pool(t, db.URL())}
	l.proxy = testserver.NewProxy(t, db.Server.Addr())
	p := tracedPool(t, postgres.URL(l.proxy.Addr(), db.Name), 1, l)
	l.Records = openRecords(t, p, oncepg.RecordsConfig{})
	l.warm()
	return l
}

// warm lets the connection prepare all statements: an answer that is lost is then one of a write.
func (l *lossy) warm() {
	l.t.Helper()
	c := recordClaim("warm")
	g := claimRecord(l.t, l, c)
	wantError(l.t, "renew", l.Renew(l.t.Context(), g, time.Hour), nil)
	wantError(l.t, "release", l.Release(l.t.Context(), g), nil)
	completeRecord(l.t, l, claimRecord(l.t, l, recordClaim("warm")), "warm")
	freed := once.Resolution{Decision: once.ReleaseDone}
	wantError(l.t, "resolve", l.Resolve(l.t.Context(), c.Identity, freed), nil)
}

// version changes with each write of a record.
func (l *lossy) version(id once.Identity) string {
	l.t.Helper()
	return one[string](l.t, l.plain, "SELECT coalesce(max(xmin::text || ctid::text), '') "+
		"FROM once.records WHERE identity = $1", id[:])
}

// loses makes a step whose write lands and whose answer is lost, and wants it to be found.
func (l *lossy) loses(step string, id once.Identity, fn func() error) {
	l.t.Helper()
	before := l.version(id)
	l.sent.Store(0)
	l.armed.Store(true)
	done := make(chan error, 1)
	go func() { done <- fn() }()
	testserver.Until(l.t, patience, step+" has landed", func() bool {
		return l.version(id) != before
	})
	landed := l.version(id)
	l.proxy.Restore()
	l.proxy.Cut()
	select {
	case err := <-done:
		wantError(l.t, step, err, nil)
	case <-time.After(patience):
		l.t.Fatalf("%s has no answer", step)
	}
	if l.version(id) != landed && step != "renew" {
		l.t.Errorf("%s has written the record twice", step)
	}
	l.warm() // the new connection
}

func TestAWriteWhoseAnswerWasLostIsFoundByItsOwnerB07(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	ctx := t.Context()
	c := recordClaim("a")
	var g once.Grant
	l.loses("claim", c.Identity, func() (err error) {
		g, err = l.Claim(ctx, c)
		return err
	})
	if g.Attempt != 1 || g.Takeover {
		t.Errorf("the grant is %+v, want the first attempt", g)
	}
	l.loses("renew", c.Identity, func() error { return l.Renew(ctx, g, time.Hour) })
	l.loses("release", c.Identity, func() error { return l.Release(ctx, g) })
	l.loses("claim of what was released", c.Identity, func() (err error) {
		g, err = l.Claim(ctx, recordClaim("a"))
		return err
	})
	if g.Attempt != 2 {
		t.Errorf("the grant is %+v, want the second attempt", g)
	}
	l.loses("complete", c.Identity, func() error {
		return l.Complete(ctx, g, once.Outcome{Data: []byte("done")})
	})
	if got := replayOf(t, l, recordClaim("a")); string(got.Data) != "done" {
		t.Errorf("replayed %q, want done", got.Data)
	}
	freed := once.Resolution{Decision: once.ReleaseDone}
	l.loses("resolve", c.Identity, func() error { return l.Resolve(ctx, c.Identity, freed) })
	wantError(t, "another one's decision", l.Resolve(ctx, c.Identity, freed), once.ErrState)
}

// B06: over connections that are cut at any moment, each key is granted once and its outcome kept.
func TestEachKeyRunsOnceOverCutConnectionsB06(t *testing.T) {
	t.Parallel()
	db := testserver.Postgres(t)
	proxy, p := proxied(t, db, 8)
	r := openRecords(t, p, oncepg.RecordsConfig{})
	const keys, callers = 60, 8
	var ran [keys]atomic.Int64
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for k := range keys {
				if (k+i)%7 == 0 {
					proxy.CutAfter(int64(50 + 97*k%1900))
				}
				c := recordClaim(fmt.Sprint(k))
				c.Lease = time.Hour
				var g once.Grant
				err := answered(t, func() (err error) { // by the same owner, as a guard does it
					g, err = r.Claim(t.Context(), c)
					return err
				})
				var replay *once.ReplayError
				switch {
				case err == nil:
					ran[k].Add(1)
					data := once.Outcome{Data: fmt.Append(nil, k)}
					wantError(t, "complete", answered(t, func() error {
						return r.Complete(t.Context(), g, data)
					}), nil)
				case errors.As(err, &replay):
					if string(replay.Outcome.Data) != fmt.Sprint(k) {
						t.Errorf("replayed %q for %d", replay.Outcome.Data, k)
					}
				case !errors.Is(err, once.ErrInFlight):
					t.Errorf("claim %d: %v", k, err)
				}
			}
		})
	}
	all.Wait()
	for k := range keys {
		if n := ran[k].Load(); n != 1 {
			t.Errorf("key %d ran %d times", k, n)
		}
	}
}

// answered makes a step until it has an answer.
func answered(t *testing.T, step func() error) (err error) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if err = step(); !errors.Is(err, once.ErrUnavailable) {
			return err
		}
	}
	t.Errorf("the store has no answer: %v", err)
	return err
}

// E06, the store's part: what is down, or hangs, says so when its caller's time is over.
func TestADatabaseThatIsGoneOrHangsIsUnavailableE06(t *testing.T) {
	t.Parallel()
	db := testserver.Postgres(t)
	proxy := testserver.NewProxy(t, db.Server.Addr())
	url := postgres.URL(proxy.Addr(), db.Name)
	over := map[string]*oncepg.Records{
		"pool": openRecords(t, pool(t, url), oncepg.RecordsConfig{}),
	}
	plain, err := oncepg.NewRecordsSQL(plainSQL(t, url), oncepg.RecordsConfig{})
	if err != nil {
		t.Fatal(err)
	}
	over["database/sql"] = plain
	every := func(what string) {
		t.Helper()
		for name, r := range over {
			everyStep(t, what+": "+name, r)
		}
	}
	proxy.Hold()
	every("hangs")
	proxy.Refuse()
	every("is gone")
	proxy.Restore()
	for _, r := range over {
		testserver.Until(t, patience, "it answers again", func() bool {
			_, err := r.Claim(t.Context(), recordClaim("other"))
			return err == nil || errors.Is(err, once.ErrInFlight)
		})
	}
}

// everyStep wants all steps of a store to be unavailable, when their callers' time is over.
func everyStep(t *testing.T, what string, r *oncepg.Records) {
	t.Helper()
	c := recordClaim("every")
	g := once.Grant{Identity: c.Identity, Owner: c.Owner, Fence: 1}
	for name, step := range map[string]func(context.Context) error{
		"claim":    func(ctx context.Context) error { _, err := r.Claim(ctx, c); return err },
		"complete": func(ctx context.Context) error { return r.Complete(ctx, g, once.Outcome{}) },
		"release":  func(ctx context.Context) error { return r.Release(ctx, g) },
		"renew":    func(ctx context.Context) error { return r.Renew(ctx, g, time.Minute) },
		"resolve": func(ctx context.Context) error {
			return r.Resolve(ctx, g.Identity, once.Resolution{Decision: once.RunAgain})
		},
		"record": func(ctx context.Context) error {
			_, err := r.Record(ctx, g.Identity)
			return err
		},
		"records": func(ctx context.Context) error {
			_, err := r.Records(ctx, once.RecordFilter{})
			return err
		},
		"sweep": func(ctx context.Context) error { _, err := r.Sweep(ctx, 1); return err },
		"ping":  r.Ping,
		"open":  r.Open,
	} {
		done := make(chan error, 1)
		ctx := soon(t)
		go func() { done <- step(ctx) }()
		select {
		case err := <-done:
			wantError(t, what+": "+name, err, once.ErrUnavailable)
		case <-time.After(patience):
			t.Fatalf("%s: %s goes on", what, name)
		}
	}
}

// A database that fails over and can only be read runs nothing.
func TestADatabaseThatCanOnlyBeReadIsUnavailable(t *testing.T) {
	t.Parallel()
	db := testserver.Postgres(t)
	plain := openRecords(t, pool(t, db.URL()), oncepg.RecordsConfig{})
	completeRecord(t, plain, claimRecord(t, plain, recordClaim("done")), "done")
	r, err := oncepg.NewRecords(pool(t, db.URL()+"&default_transaction_read_only=on"),
		oncepg.RecordsConfig{})
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, "ping", r.Ping(t.Context()), once.ErrUnavailable)
	_, err = r.Claim(soon(t), recordClaim("new"))
	wantError(t, "claim", err, once.ErrUnavailable)
}

// untilCommitsWait returns when commits wait for a standby that is not there: a setting is read by
// one process after the other.
func untilCommitsWait(t *testing.T, admin, p *pgxpool.Pool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 1000 {
		committed := make(chan struct{})
		go func() {
			defer close(committed)
			_, _ = p.Exec(ctx, "SELECT pg_logical_emit_message(true, 'test', '')")
		}()
		isOver := false
		testserver.Until(t, patience, "a commit waits or is done", func() bool {
			select {
			case <-committed:
				isOver = true
				return true
			default:
				return one[int](t, admin, "SELECT count(*) FROM pg_stat_activity "+
					"WHERE wait_event = 'SyncRep'") > 0
			}
		})
		if !isOver {
			cancel()
			<-committed
			return
		}
	}
	t.Fatal("no commit waits for the standby")
}

// What a primary has that its synchronous standby may not have is not told: here the standby is
// named after the outcome was committed, and is never there.
func TestAReplayIsNotToldBeforeTheStandbyHasIt(t *testing.T) {
	t.Parallel()
	server := testserver.PostgresServer(t, postgres.Config{
		Lines: []string{"synchronous_commit = on"},
	})
	url := server.URL("postgres")
	admin := pool(t, url+"&synchronous_commit=local")
	r := openRecords(t, pool(t, url), oncepg.RecordsConfig{})
	g := claimRecord(t, r, recordClaim("paid"))
	completeRecord(t, r, g, "done")
	flying := recordClaim("flying")
	claimRecord(t, r, flying)
	exec(t, admin, "ALTER SYSTEM SET synchronous_standby_names = 'absent'")
	exec(t, admin, "SELECT pg_reload_conf()")
	untilCommitsWait(t, admin, pool(t, url))
	_, err := r.Claim(soon(t), recordClaim("paid"))
	wantError(t, "a replay", err, once.ErrUnavailable)
	wantError(t, "the same outcome again",
		r.Complete(soon(t), g, once.Outcome{Data: []byte("done")}), once.ErrUnavailable)
	_, err = r.Claim(soon(t), flying)
	wantError(t, "the same claim again", err, once.ErrUnavailable)
	// What acknowledges nothing needs no standby.
	_, err = r.Claim(t.Context(), recordClaim("flying"))
	wantError(t, "in flight", err, once.ErrInFlight)
	other := recordClaim("paid")
	other.Fingerprint = once.FingerprintRaw([]byte("other"))
	_, err = r.Claim(t.Context(), other)
	wantError(t, "mismatch", err, once.ErrMismatch)
	// Who says that the standby does not count is told at once.
	local := openRecords(t, admin, oncepg.RecordsConfig{})
	if got := replayOf(t, local, recordClaim("paid")); string(got.Data) != "done" {
		t.Errorf("replayed %q", got.Data)
	}
	exec(t, admin, "ALTER SYSTEM RESET synchronous_standby_names")
	exec(t, admin, "SELECT pg_reload_conf()")
	if got := replayOf(t, r, recordClaim("paid")); string(got.Data) != "done" {
		t.Errorf("replayed %q", got.Data)
	}
}
