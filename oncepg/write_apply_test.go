package oncepg_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/write"
)

func insertOne(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "INSERT INTO counters (id, n) SELECT count(*), 1 FROM counters")
	return err
}

func TestAFunctionRunsOnceInEffect(t *testing.T) {
	t.Parallel()
	p, w := fresh(t)
	content := map[string]any{"amount": 100}
	for i, want := range []write.Outcome{write.Applied, write.Duplicate, write.Duplicate} {
		r, err := w.Apply(t.Context(), "e", content, insertOne)
		if err != nil || r.Outcome != want {
			t.Fatalf("%d: %+v, %v", i, r, err)
		}
		if i > 0 && (r.First == nil || r.First.Outcome != write.Applied || r.First.At.IsZero()) {
			t.Errorf("first %+v", r.First)
		}
	}
	r, err := w.Apply(t.Context(), "e", map[string]any{"amount": 200}, insertOne)
	if err != nil || r.Outcome != write.Conflict {
		t.Errorf("another content: %+v, %v", r, err)
	}
	r, err = w.Write(t.Context(), add("e", 1, 1))
	if err != nil || r.Outcome != write.Conflict || r.First.Key != nil {
		t.Errorf("a change under its id: %+v, %v", r, err)
	}
	if n := one[int](t, p, "SELECT count(*) FROM counters"); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

func TestAFunctionThatEndsInAnErrorHasNoEffect(t *testing.T) {
	t.Parallel()
	p, w := fresh(t)
	refused := errors.New("refused")
	_, err := w.Apply(t.Context(), "e", 1, func(ctx context.Context, tx pgx.Tx) error {
		if err := insertOne(ctx, tx); err != nil {
			return err
		}
		return refused
	})
	if !errors.Is(err, refused) {
		t.Fatal(err)
	}
	for _, table := range []string{"counters", "once_events"} {
		if n := one[int](t, p, "SELECT count(*) FROM "+table); n != 0 {
			t.Errorf("%s has %d rows", table, n)
		}
	}
	for id, content := range map[string]any{"": 1, "e": make(chan int)} {
		if _, err := w.Apply(t.Context(), id, content, insertOne); !errors.Is(err, write.ErrEvent) {
			t.Errorf("%q, %v: %v", id, content, err)
		}
	}
	if r, err := w.Apply(t.Context(), "e", 1, insertOne); err != nil || r.Outcome != write.Applied {
		t.Errorf("%+v, %v", r, err)
	}
}

// A time-out of something else that the function asks is its own.
func TestAFunctionsOwnTimeOutIsReturnedAtOnce(t *testing.T) {
	t.Parallel()
	_, w := fresh(t)
	for _, own := range []error{
		context.DeadlineExceeded, &net.DNSError{Err: "no answer", IsTimeout: true},
	} {
		tries := 0
		_, err := w.Apply(t.Context(), "e", 1, func(context.Context, pgx.Tx) error {
			tries++
			return own
		})
		if !errors.Is(err, own) || tries != 1 {
			t.Errorf("%v: %v after %d tries", own, err, tries)
		}
	}
}

// K03, G04: rivals with one event, and rivals that read and write the same row.
func TestFunctionsOfRivalsRunOnceInEffectK03(t *testing.T) {
	t.Parallel()
	p, w := fresh(t)
	exec(t, p, "INSERT INTO counters VALUES (1, 0)")
	var (
		running sync.WaitGroup
		applied atomic.Int64
	)
	for range 30 {
		running.Go(func() {
			r, err := w.Apply(t.Context(), "e", 1, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "UPDATE counters SET n = n + 1")
				return err
			})
			if err != nil {
				t.Error(err)
			}
			if r.Outcome == write.Applied {
				applied.Add(1)
			}
		})
	}
	running.Wait()
	if n := one[int](t, p, "SELECT n::int FROM counters"); n != 1 || applied.Load() != 1 {
		t.Errorf("n %d, applied %d times", n, applied.Load())
	}
}

// A function whose transaction was ended by PostgreSQL for the sake of a rival runs again.
func TestAFunctionThatLostToARivalRunsAgain40P01(t *testing.T) {
	t.Parallel()
	p, w := fresh(t)
	tries := 0
	r, err := w.Apply(t.Context(), "e", 1, func(ctx context.Context, tx pgx.Tx) error {
		if tries++; tries == 1 {
			_, err := tx.Exec(ctx, "DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$")
			return err
		}
		return insertOne(ctx, tx)
	})
	if err != nil || r.Outcome != write.Applied || tries != 2 {
		t.Errorf("%+v, %v, %d tries", r, err, tries)
	}
	if n := one[int](t, p, "SELECT count(*) FROM counters"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestAWriterWithoutAPoolHasNoApply(t *testing.T) {
	t.Parallel()
	p, _ := fresh(t)
	w, err := oncepg.NewWriterSQL(openSQL(t, p.Config().ConnString()), config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Apply(t.Context(), "e", 1, insertOne); err == nil {
		t.Error("no error")
	}
}

func TestSweepForgetsWhatIsOlderThanTheRetention(t *testing.T) {
	t.Parallel()
	p, _ := fresh(t)
	conf := config()
	conf.Retention = 24 * time.Hour
	w := open(t, p, conf)
	for _, id := range []string{"a", "b", "c", "young"} {
		if _, err := w.Write(t.Context(), add(id, 1, 1)); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, p, "UPDATE once_events SET at = at - interval '25 hours' WHERE id <> 'young'")
	exec(t, p, "UPDATE once_events SET at = at - interval '1 hour' WHERE id = 'b'")
	for _, want := range []int{2, 1, 0} {
		if n, err := w.Sweep(t.Context(), 2); err != nil || n != want {
			t.Errorf("swept %d, %v, want %d", n, err, want)
		}
	}
	for id, want := range map[string]write.Outcome{
		"b": write.Applied, "young": write.Duplicate,
	} {
		if r, err := w.Write(t.Context(), add(id, 1, 1)); err != nil || r.Outcome != want {
			t.Errorf("%s: %+v, %v", id, r, err)
		}
	}
	if n, err := w.Sweep(t.Context(), 0); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
