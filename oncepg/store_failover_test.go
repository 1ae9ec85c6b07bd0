package oncepg_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/queue"
)

// openQueue opens a store that is closed when the test ends.
func openQueue(t testing.TB, p *pgxpool.Pool) *oncepg.Store {
	t.Helper()
	return openQueueWith(t, p, oncepg.StoreConfig{})
}

func openQueueWith(t testing.TB, p *pgxpool.Pool, cfg oncepg.StoreConfig) *oncepg.Store {
	t.Helper()
	cfg.Windows, cfg.NodeLost = 2, time.Hour
	s, err := oncepg.NewStore(p, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

const queueLane = "robots"

func queueArrival(n int) queue.Arrival {
	return queue.Arrival{
		Identity:    sha256.Sum256(fmt.Append(nil, "callback", n)),
		Fingerprint: once.FingerprintRaw([]byte("b")),
		Kind:        queue.Callback, Lane: queueLane, OrderKey: fmt.Sprint(n),
		State: queue.Pending, Source: "robots", Event: "done", Key: []string{fmt.Sprint(n)},
		Body: []byte("b"), Retention: time.Hour,
	}
}

// queueLease outlasts the tests.
var queueLease = queue.LeaseRequest{Lane: queueLane, Max: 3, For: time.Hour}

// queueLoad takes callbacks in, and works them.
type queueLoad struct {
	s              *oncepg.Store
	stored, worked acknowledged
}

func (l *queueLoad) work(ctx context.Context, n int) error {
	if _, err := l.send(ctx, n); err != nil {
		return err
	}
	l.stored.tell(n, "")
	if again, _, found := l.stored.any(); found && n%3 == 0 {
		switch outcome, err := l.send(ctx, again); {
		case err != nil:
			return err
		case outcome != queue.Duplicate:
			return fmt.Errorf("callback %d was acknowledged, and is %s again", again, outcome)
		}
	}
	leased, err := l.s.Lease(ctx, queueLease)
	if err != nil && !errors.Is(err, once.ErrUnavailable) {
		return fmt.Errorf("lease: %w", err)
	}
	for _, row := range leased.Rows {
		if err := l.settle(ctx, row); err != nil {
			return fmt.Errorf("settle: %w", err)
		}
	}
	return nil
}

func (l *queueLoad) send(ctx context.Context, n int) (outcome queue.Outcome, err error) {
	err = persist(ctx, func(ctx context.Context) error {
		receipts, err := l.s.Append(ctx, []queue.Arrival{queueArrival(n)})
		if err == nil {
			outcome = receipts[0].Outcome
		}
		return err
	})
	return outcome, err
}

// settle ends a row. If it is not known whether that is done, it may be that the lease was lost by
// it.
func (l *queueLoad) settle(ctx context.Context, row queue.Row) error {
	tries := 0
	err := persist(ctx, func(ctx context.Context) error {
		tries++
		return l.s.Settle(ctx, []queue.Settlement{{
			Grant: row.Grant(), State: queue.Done,
		}})[0]
	})
	switch {
	case errors.Is(err, once.ErrLeaseLost) && tries > 1:
		return nil
	case err == nil:
		l.worked.tell(int(row.Seq), "")
	}
	return err
}

func (l *queueLoad) check(t *testing.T, p *pgxpool.Pool, n int) {
	const rows = "SELECT count(*) FROM once.queue_rows WHERE "
	if got := one[int](t, p, rows+"true"); got != n || len(l.stored.told) != n {
		t.Errorf("%d callbacks are there and %d acknowledged, want %d", got, len(l.stored.told), n)
	}
	var done []int
	for seq := range l.worked.told {
		done = append(done, seq)
	}
	if got := one[int](t, p, rows+"phase = 'done' AND seq = ANY ($1)", done); got != len(done) {
		t.Errorf("%d are done of %d that were told", got, len(done))
	}
	if got := one[int](t, p, rows+"attempt > 1"); got != 0 {
		t.Errorf("%d were worked again although their leases have not ended", got)
	}
}

// What a batch has done is done once, also where it had to be asked whether the standby has it.
func TestABatchIsNotRepeatedWhenItsBarrierBreaks(t *testing.T) {
	t.Parallel()
	pair := testserver.PostgresWithStandby(t, "on")
	admin := pool(t, pair.Primary.URL("postgres")+"&synchronous_commit=local")
	for p, want := range map[*pgxpool.Pool]string{
		pool(t, pair.URL()): "oncepg.Watch", watchedPool(t, pair.URL()): "",
	} {
		var told testserver.Text
		log := slog.New(slog.NewTextHandler(&told, &slog.HandlerOptions{Level: slog.LevelWarn}))
		if err := openQueueWith(t, p, oncepg.StoreConfig{Logger: log}).Close(); err != nil {
			t.Error(err)
		}
		if s := told.String(); !strings.Contains(s, want) || (s == "") != (want == "") {
			t.Errorf("the log says %q, want %q", s, want)
		}
	}
	s := openQueue(t, watchedPool(t, pair.URL()))
	if _, err := s.Append(t.Context(), []queue.Arrival{queueArrival(1)}); err != nil {
		t.Fatal(err)
	}
	pair.Log.Hold()
	answers := make(chan queue.Leased, 1)
	go func() {
		leased, err := s.Lease(t.Context(), queueLease)
		if err != nil {
			t.Error(err)
		}
		answers <- leased
	}()
	testserver.Until(t, limit, "the lease is committed", func() bool {
		// A sign of life may wait, too.
		exec(t, admin, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "+
			"WHERE wait_event = 'SyncRep' AND query NOT LIKE 'SELECT CASE%'")
		return one[int](t, admin, "SELECT attempt FROM once.queue_rows") == 1
	})
	awaitWait(t, admin, true)
	stillWaits(t, answers)
	pair.Clients.Cut()
	pair.Log.Restore()
	leased := <-answers
	if len(leased.Rows) != 1 {
		t.Fatalf("%d rows are leased, want 1", len(leased.Rows))
	}
	err := s.Settle(t.Context(), []queue.Settlement{{
		Grant: leased.Rows[0].Grant(), State: queue.Done,
	}})[0]
	if err != nil {
		t.Errorf("settle: %v", err)
	}
}

// Wherever a connection breaks, at the beginning of a batch too, the batch is done once.
func TestAStoreGoesOnAfterConnectionsThatAreCut(t *testing.T) {
	t.Parallel()
	proxy, p := proxied(t, testserver.Postgres(t), 6)
	s := openQueue(t, p)
	for n := range 20 {
		if _, err := s.Append(t.Context(), []queue.Arrival{queueArrival(n)}); err != nil {
			t.Fatal(err)
		}
		proxy.CutAfter(int64(1 + 40*n))
		leased, err := s.Lease(t.Context(), queueLease)
		proxy.Restore()
		if err != nil || len(leased.Rows) != 1 {
			t.Fatalf("%d: %d rows are leased, want 1: %v", n, len(leased.Rows), err)
		}
	}
}
