package queuetest

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/oncekit/once"
	"github.com/oncekit/once/queue"
)

func commitCases() []Case {
	cases := []Case{
		{Name: "Commit/TogetherWithDone", Promise: "what Commit writes and the row's end commit " +
			"together", run: commitTogether},
		{Name: "Commit/ErrorUndoesIt", Promise: "an error of Commit undoes what it wrote and its " +
			"settlement, is told as a *CommitError, and leaves the neighbours alone",
			run: commitError},
		{Name: "Commit/PanicUndoesIt", Promise: "a panic in Commit is a *CommitError, and leaves " +
			"the neighbours alone", run: commitPanic},
		{Name: "Commit/ConstraintIsItsOwn", Promise: "a constraint that Commit breaks is its own " +
			"failure, not the store's", run: commitConstraint},
		{Name: "Commit/CantEndTheTransaction", Promise: "Commit can't end or nest the store's " +
			"transaction", run: commitEnds},
		{Name: "Commit/OverItsLimit", Promise: "a Commit over its limit is ended, also in the " +
			"middle of a write, and leaves the neighbours alone",
			opts: Options{CommitTimeout: 50 * time.Millisecond}, run: commitLimit},
		{Name: "Commit/ChangesFailAfterIt", Promise: "what Commit wrote is undone when the rest " +
			"of its settlement can't be applied", run: commitThenConflict},
		{Name: "Commit/LeaseIsKept", Promise: "after a failed Commit the owner can settle " +
			"otherwise", run: commitKeepsLease},
	}
	for i := range cases {
		cases[i].needs |= sqlTx
	}
	return cases
}

// writes returns a Commit that adds an id to a table.
func writes(id string) func(context.Context, queue.Tx) error {
	return func(ctx context.Context, tx queue.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO shop (id) VALUES ('"+id+"')")
		return err
	}
}

// table makes the table of the handlers.
func (k *kit) table() {
	k.Helper()
	k.commitOK(func(ctx context.Context, tx queue.Tx) error {
		_, err := tx.ExecContext(ctx, "CREATE TABLE shop (id TEXT PRIMARY KEY)")
		return err
	})
}

// commitOK settles a fresh row with a Commit that has to work.
func (k *kit) commitOK(fn func(context.Context, queue.Tx) error) {
	k.Helper()
	if err := k.apply(queue.Settlement{Commit: fn}); err != nil {
		k.Fatalf("commit: %v", err)
	}
}

// wantShop compares what the handlers wrote.
func (k *kit) wantShop(want ...string) {
	k.Helper()
	var got []string
	k.commitOK(func(ctx context.Context, tx queue.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT id FROM shop ORDER BY id")
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }() // a failure shows in Err
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			got = append(got, id)
		}
		return rows.Err()
	})
	if len(got) != len(want) {
		k.Errorf("the handlers wrote %v, want %v", got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			k.Errorf("the handlers wrote %v, want %v", got, want)
		}
	}
}

func (k *kit) wantCommitError(err error) {
	k.Helper()
	var failed *queue.CommitError
	if !errors.As(err, &failed) || errors.Is(err, once.ErrUnavailable) {
		k.Errorf("error %v, want a *CommitError", err)
	}
}

// around settles three rows of which the middle one has the Commit.
func (k *kit) around(fn func(context.Context, queue.Tx) error) (bad error) {
	k.Helper()
	k.append(arrival("before"), arrival("bad"), arrival("after"))
	rows := k.lease(3)
	errs := k.settle(
		queue.Settlement{Grant: rows[0].Grant(), State: queue.Done, Commit: writes("before")},
		queue.Settlement{Grant: rows[1].Grant(), State: queue.Done, Commit: fn,
			Effects: []queue.Arrival{effect("bad")}},
		queue.Settlement{Grant: rows[2].Grant(), State: queue.Done, Commit: writes("after")},
	)
	if errs[0] != nil || errs[2] != nil {
		k.Errorf("neighbours: %v, %v", errs[0], errs[2])
	}
	k.wantState("before", queue.Done)
	k.wantState("bad", queue.Running)
	k.wantState("after", queue.Done)
	if rows := k.all(queue.RowQuery{Kind: queue.Effect}); len(rows) != 0 {
		k.Errorf("effects: %v", names(rows))
	}
	k.wantShop("after", "before")
	k.wantCounts()
	return errs[1]
}

func commitTogether(k *kit) {
	k.table()
	k.append(arrival("x"))
	k.end(k.take("x"), queue.Settlement{State: queue.Done, Effects: []queue.Arrival{effect("e")},
		Commit: func(ctx context.Context, tx queue.Tx) error {
			if err := writes("x")(ctx, tx); err != nil {
				return err
			}
			var n int
			if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM shop").Scan(&n); err != nil {
				return err
			}
			if n != 1 {
				return errors.New("it doesn't see its own write")
			}
			return nil
		}})
	k.reopen(false)
	k.wantState("x", queue.Done)
	k.wantShop("x")
}

func commitError(k *kit) {
	k.table()
	cause := errors.New("out of stock")
	err := k.around(func(ctx context.Context, tx queue.Tx) error {
		return errors.Join(writes("bad")(ctx, tx), cause)
	})
	k.wantCommitError(err)
	k.wantErr("the handler's own error", err, cause)
}

func commitPanic(k *kit) {
	k.table()
	k.wantCommitError(k.around(func(ctx context.Context, tx queue.Tx) error {
		if err := writes("bad")(ctx, tx); err != nil {
			return err
		}
		panic("handler")
	}))
}

func commitConstraint(k *kit) {
	k.table()
	k.wantCommitError(k.around(writes("before")))
}

func commitEnds(k *kit) {
	k.table()
	for _, text := range []string{"COMMIT", "ROLLBACK", "rollback transaction", "BEGIN",
		" /* a */ -- b\n COMMIT", "COMMIT\tTRANSACTION", "END", "SAVEPOINT mine", "RELEASE op",
		"ROLLBACK TO op", "INSERT INTO shop VALUES ('z'); COMMIT", "\ufeffCOMMIT", "COMMIT--"} {
		for name, run := range map[string]func(context.Context, queue.Tx) error{
			"exec": func(ctx context.Context, tx queue.Tx) error {
				_, err := tx.ExecContext(ctx, text)
				return err
			},
			"query": func(ctx context.Context, tx queue.Tx) error {
				rows, err := tx.QueryContext(ctx, text)
				if err != nil {
					return err
				}
				return errors.Join(rows.Close(), rows.Err())
			},
			"row": func(ctx context.Context, tx queue.Tx) error {
				var s string
				err := tx.QueryRowContext(ctx, text).Scan(&s)
				if errors.Is(err, sql.ErrNoRows) {
					return nil // it ran
				}
				return err
			},
		} {
			err := k.apply(queue.Settlement{Commit: func(ctx context.Context, tx queue.Tx) error {
				return errors.Join(writes("bad")(ctx, tx), run(ctx, tx))
			}})
			if err == nil {
				k.Errorf("%s %q: no error", name, text)
				continue
			}
			k.wantCommitError(err)
		}
	}
	k.wantShop()
}

// endless is a number of rows that no limit waits for.
const endless = "WITH RECURSIVE n(i) AS " +
	"(SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000000) "

func commitLimit(k *kit) {
	k.table()
	begun := time.Now()
	err := k.around(func(_ context.Context, tx queue.Tx) error { // the worst of contexts
		_, err := tx.ExecContext(context.Background(),
			"INSERT INTO shop (id) "+endless+"SELECT 'n' || i FROM n")
		return err
	})
	k.wantCommitError(err)
	err = k.apply(queue.Settlement{Commit: func(ctx context.Context, tx queue.Tx) error {
		var n int64
		return tx.QueryRowContext(ctx, endless+"SELECT count(*) FROM n").Scan(&n)
	}})
	k.wantCommitError(err)
	err = k.apply(queue.Settlement{Commit: func(ctx context.Context, _ queue.Tx) error {
		<-ctx.Done()
		return nil // it doesn't even say so
	}})
	k.wantCommitError(err)
	if took := time.Since(begun); took > 20*time.Second {
		k.Errorf("it took %v", took)
	}
	k.wantShop("after", "before")
}

func commitThenConflict(k *kit) {
	k.table()
	err := k.apply(queue.Settlement{Commit: writes("x"),
		Tasks: []queue.TaskChange{change("T", "a", "b", 3)}})
	k.wantErr("conflict", err, once.ErrConflict)
	k.wantShop()
}

func commitKeepsLease(k *kit) {
	k.table()
	k.append(arrival("x"))
	row := k.take("x")
	k.wantCommitError(k.settle(queue.Settlement{Grant: row.Grant(), State: queue.Done,
		Commit: func(context.Context, queue.Tx) error { return errors.New("no") }})[0])
	k.end(row, queue.Settlement{State: queue.Pending, RetryIn: time.Second})
	k.h.Advance(time.Second)
	k.end(k.take("x"), queue.Settlement{State: queue.Done, Commit: writes("x")})
	k.wantShop("x")
}
