package oncepg_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/write"
)

// writerLoad adds each number to one of five counters, as one event, in one of four ways.
type writerLoad struct {
	w *oncepg.Writer
	p *pgxpool.Pool
	acknowledged
}

const loadCounters = 5

func (l *writerLoad) work(ctx context.Context, n int) error {
	r, err := l.send(ctx, n)
	if err != nil {
		return err
	}
	if r.Outcome != write.Applied && r.Outcome != write.Duplicate {
		return fmt.Errorf("event %d: %s", n, r.Outcome)
	}
	l.tell(n, "")
	// What was acknowledged stays: sent again, it is a duplicate, of whichever primary.
	if again, _, found := l.any(); found && n%3 == 0 {
		if r, err = l.send(ctx, again); err == nil && r.Outcome != write.Duplicate {
			return fmt.Errorf("event %d was acknowledged, and is %s again", again, r.Outcome)
		}
	}
	return err
}

func (l *writerLoad) send(ctx context.Context, n int) (r write.Result, err error) {
	e := add(fmt.Sprint(n), n%loadCounters, n)
	err = persist(ctx, func(ctx context.Context) (err error) {
		switch n % 4 {
		case 0:
			r, err = l.w.Write(ctx, e)
		case 2:
			err = oncepg.BeginTxFunc(ctx, l.p, pgx.TxOptions{}, func(tx pgx.Tx) (err error) {
				r, err = l.w.WithTx(tx).Write(ctx, e)
				return err
			})
			if err != nil { // whatever it was, the caller begins again
				err = fmt.Errorf("%w: %w", once.ErrUnavailable, err)
			}
		case 1:
			other := add(fmt.Sprint("text", n), fmt.Sprint(n%loadCounters), n)
			var rs []write.Result
			if rs, err = l.w.WriteAll(ctx, []write.Event{other, e}); err == nil {
				r, err = rs[1], errors.Join(rs[0].Err, rs[1].Err)
			}
		default:
			r, err = l.w.Apply(ctx, e.ID, n, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO counters AS c VALUES ($1, $2) "+
					"ON CONFLICT (id) DO UPDATE SET n = c.n + excluded.n", n%loadCounters, n)
				return err
			})
		}
		return err
	})
	return r, err
}

func (l *writerLoad) check(t *testing.T, p *pgxpool.Pool, n int) {
	texts, textSum := 0, 0
	for i := 1; i < n; i += 4 {
		texts, textSum = texts+1, textSum+i
	}
	for _, c := range []struct {
		sql  string
		want int
	}{
		{"SELECT count(*) FROM once_events", n + texts},
		{"SELECT sum(n)::int FROM counters", n * (n - 1) / 2},
		{"SELECT sum(n)::int FROM accounts", textSum},
	} {
		if got := one[int](t, p, c.sql); got != c.want {
			t.Errorf("%s: %d, want %d, after %d events", c.sql, got, c.want, n)
		}
	}
	if len(l.told) != n {
		t.Errorf("%d events were acknowledged, want %d", len(l.told), n)
	}
}

// recordLoad has two rivals claim each key. Leases outlast the test, so one of them works, once.
type recordLoad struct {
	r *oncepg.Records
	acknowledged
}

func (l *recordLoad) claim(n int) once.Claim {
	c := recordClaim(fmt.Sprint("key", n))
	c.Lease = time.Hour
	return c
}

func (l *recordLoad) work(ctx context.Context, n int) error {
	var (
		rivals sync.WaitGroup
		data   [2]string
		ran    [2]bool
		errs   [2]error
	)
	for i := range data {
		rivals.Go(func() { data[i], ran[i], errs[i] = l.compete(ctx, l.claim(n)) })
	}
	rivals.Wait()
	switch {
	case errors.Join(errs[:]...) != nil:
		return fmt.Errorf("key %d: %w", n, errors.Join(errs[:]...))
	case ran[0] == ran[1]:
		return fmt.Errorf("key %d: the rivals worked: %v", n, ran)
	case data[0] != data[1]:
		return fmt.Errorf("key %d: one was told %q, the other %q", n, data[0], data[1])
	}
	l.tell(n, data[0])
	if again, want, found := l.any(); found {
		got, worked, err := l.compete(ctx, l.claim(again))
		if err != nil || worked || got != want {
			return fmt.Errorf("key %d again: %q, worked %v, %v; it was %q", again, got, worked,
				err, want)
		}
	}
	return nil
}

// compete claims until there is an outcome: by its own work, or as it was told.
func (l *recordLoad) compete(ctx context.Context, c once.Claim) (
	data string, worked bool, err error,
) {
	for {
		var g once.Grant
		err := persist(ctx, func(ctx context.Context) (err error) {
			g, err = l.r.Claim(ctx, c)
			return err
		})
		var replay *once.ReplayError
		switch {
		case errors.As(err, &replay):
			return string(replay.Outcome.Data), false, nil
		case errors.Is(err, once.ErrInFlight):
			continue // the rival works
		case err != nil:
			return "", false, fmt.Errorf("claim: %w", err)
		}
		data = fmt.Sprintf("%x", c.Owner)
		err = persist(ctx, func(ctx context.Context) error {
			return l.r.Complete(ctx, g, once.Outcome{Data: []byte(data)})
		})
		return data, true, err
	}
}

func (l *recordLoad) check(t *testing.T, p *pgxpool.Pool, n int) {
	const completed = "SELECT count(*) FROM once.records WHERE state = 'completed' AND attempt = 1"
	if got := one[int](t, p, completed); got != n {
		t.Errorf("%d records are completed at the first attempt, want %d", got, n)
	}
	for i, want := range l.told {
		if got := replayOf(t, l.r, l.claim(i)); string(got.Data) != want {
			t.Errorf("key %d: %q, was told %q", i, got.Data, want)
		}
	}
}
