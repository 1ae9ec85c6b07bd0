package oncepg_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/write"
)

// limit is how long a test waits for what has to come, on a machine that does much else.
const limit = time.Minute

// waiting counts the connections to the pool's database that wait for a lock.
func waiting(t *testing.T, p *pgxpool.Pool) int {
	return one[int](t, p, `SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'`)
}

type answer struct {
	write.Result
	err error
}

// G01, G02: who comes second waits for the first one's commit, and then sees its record.
func TestARivalThatIsHeldOpenIsWaitedForG01G02(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		end   func(pgx.Tx) error
		want  write.Outcome
		other bool // another row, so that only the record is in the way
	}{
		{"committed", func(tx pgx.Tx) error { return tx.Commit(context.Background()) },
			write.Duplicate, false},
		{"rolled back", func(tx pgx.Tx) error { return tx.Rollback(context.Background()) },
			write.Applied, false},
		{"another row", func(tx pgx.Tx) error { return tx.Commit(context.Background()) },
			write.Conflict, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, w := fresh(t)
			tx, err := p.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			first := add("e", 1, 5)
			if _, err := w.WithTx(tx).Write(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			second := first
			if c.other {
				second.Key = 2
			}
			answers := make(chan answer, 1)
			go func() {
				r, err := w.Write(t.Context(), second)
				answers <- answer{r, err}
			}()
			testserver.Until(t, limit, "the second one waits", func() bool {
				return waiting(t, p) == 1
			})
			if _, err := tx.Exec(t.Context(), "SELECT pg_sleep(1.5)"); err != nil {
				t.Fatal(err)
			}
			if err := c.end(tx); err != nil {
				t.Fatal(err)
			}
			if a := <-answers; a.err != nil || a.Outcome != c.want {
				t.Errorf("%+v, %v, want %s", a.Result, a.err, c.want)
			}
			if n := one[int](t, p, "SELECT sum(n)::int FROM counters"); n != 5 {
				t.Errorf("the sum is %d, want 5", n)
			}
		})
	}
}

func TestARivalThatHoldsARowForTooLongIsAnAnswer(t *testing.T) {
	t.Parallel()
	p, w := fresh(t)
	if _, err := w.Write(t.Context(), add("e1", 1, 1)); err != nil {
		t.Fatal(err)
	}
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM counters FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	conf := config()
	conf.Patience = 300 * time.Millisecond
	impatient, err := oncepg.NewWriter(p, conf)
	if err != nil {
		t.Fatal(err)
	}
	_, err = impatient.Write(t.Context(), add("e2", 1, 1))
	if !errors.Is(err, once.ErrUnavailable) {
		t.Errorf("%v, want once.ErrUnavailable", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(t.Context(), add("e2", 1, 1)); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, p, "SELECT n::int FROM counters"); n != 2 {
		t.Errorf("%d, want 2", n)
	}
}

// G04: a caller's SERIALIZABLE transaction gets an error to begin again on, and never a wrong
// answer; writers with transactions of their own get none.
func TestRivalsInSerializableTransactionsG04(t *testing.T) {
	t.Parallel()
	p, w := fresh(t)
	const rivals, each = 20, 5
	var running sync.WaitGroup
	for i := range rivals {
		running.Go(func() {
			for j := range each {
				e := add(fmt.Sprintf("e %d", (i*each+j)%(rivals*each/2)), 1, 1) // each event twice
				if err := insist(t.Context(), p, w, e, i%2 == 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	if n := one[int](t, p, "SELECT n::int FROM counters"); n != rivals*each/2 {
		t.Errorf("%d, want %d", n, rivals*each/2)
	}
}

// insist writes an event in a SERIALIZABLE transaction of its own, again and again, or without one.
func insist(
	ctx context.Context, p *pgxpool.Pool, w *oncepg.Writer, e write.Event, serializable bool,
) error {
	if !serializable {
		_, err := w.Write(ctx, e)
		return err
	}
	for {
		tx, err := p.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
		if err != nil {
			return err
		}
		_, err = w.WithTx(tx).Write(ctx, e)
		if err == nil {
			if err = tx.Commit(ctx); err == nil {
				return nil
			}
			var coded interface{ SQLState() string }
			if !errors.As(err, &coded) || coded.SQLState() != "40001" {
				return err
			}
			continue
		}
		if !errors.Is(err, write.ErrBusy) {
			return err
		}
		if _, alive := tx.Exec(ctx, "SELECT 1"); alive != nil {
			return fmt.Errorf("the transaction can't go on: %w", alive)
		}
		if err := tx.Rollback(ctx); err != nil {
			return err
		}
	}
}

// Transactions that wait for each other in a circle: PostgreSQL ends one, and its events are tried
// again.
func TestACircleOfBatchesIsResolved40P01(t *testing.T) {
	t.Parallel()
	p, w := fresh(t)
	const rivals, rounds, rows = 6, 5, 12
	var running sync.WaitGroup
	for i := range rivals {
		running.Go(func() {
			for round := range rounds {
				var events []write.Event
				for _, key := range rand.Perm(rows) {
					// Different forms keep a batch from locking in the order of keys.
					e := add(fmt.Sprint(i, " ", round, " ", key), key, 1)
					if rand.IntN(2) == 0 {
						e.Change = write.Upsert{Increment: write.Fields{"n": 1}}
						events = append(events, e)
					} else {
						events = append([]write.Event{e}, events...)
					}
				}
				rs, err := w.WriteAll(t.Context(), events)
				if err != nil {
					t.Error(err)
				}
				for _, r := range rs {
					if r.Err != nil || r.Outcome != write.Applied {
						t.Errorf("%+v", r)
					}
				}
			}
		})
	}
	running.Wait()
	if n := one[int](t, p, "SELECT sum(n)::int FROM counters"); n != rivals*rounds*rows {
		t.Errorf("%d, want %d", n, rivals*rounds*rows)
	}
}
