package oncepg_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/oncepg"
)

// shop is a store of records beside a table of its user's.
func shop(t *testing.T) (*oncepg.Records, *pgxpool.Pool) {
	t.Helper()
	r, p := someRecords(t)
	exec(t, p, "CREATE TABLE bookings (n int)")
	return r, p
}

func booked(t *testing.T, p *pgxpool.Pool) int {
	t.Helper()
	return one[int](t, p, "SELECT count(*) FROM bookings")
}

var done = once.Outcome{Data: []byte("done")}

func TestAnOutcomeCommitsWithTheWorkItself(t *testing.T) {
	t.Parallel()
	r, p := shop(t)
	c := recordClaim("order")
	g := claimRecord(t, r, c)
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "INSERT INTO bookings VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	wantError(t, "complete", r.WithTx(tx).Complete(t.Context(), g, done), nil)
	wantError(t, "complete again", r.WithTx(tx).Complete(t.Context(), g, done), nil)
	_, err = r.Claim(t.Context(), recordClaim("order"))
	wantError(t, "a repeat before the commit", err, once.ErrInFlight)
	wantError(t, "commit", tx.Commit(t.Context()), nil)
	got, n := replayOf(t, r, recordClaim("order")), booked(t, p)
	if string(got.Data) != "done" || n != 1 {
		t.Errorf("replayed %q with %d bookings", got.Data, n)
	}
	// What ends the renewals afterwards changes nothing, and nor does an end that knows nothing.
	wantError(t, "complete afterwards", r.Complete(t.Context(), g, done), nil)
	wantError(t, "lose afterwards",
		r.Complete(t.Context(), g, once.Outcome{Kind: once.Unknown}), nil)
	if got := replayOf(t, r, recordClaim("order")); string(got.Data) != "done" {
		t.Errorf("replayed %q in the end", got.Data)
	}
}

func TestAnOutcomeIsUndoneWithTheWorkItself(t *testing.T) {
	t.Parallel()
	r, p := shop(t)
	c := recordClaim("order")
	g := claimRecord(t, r, c)
	fail := errors.New("no seat is left")
	err := pgx.BeginFunc(t.Context(), p, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "INSERT INTO bookings VALUES (1)"); err != nil {
			return err
		}
		if err := r.WithTx(tx).Complete(t.Context(), g, done); err != nil {
			return err
		}
		return fail
	})
	wantError(t, "the work", err, fail)
	wantError(t, "lose", r.Complete(t.Context(), g, once.Outcome{Kind: once.Unknown}), nil)
	next := claimRecord(t, r, recordClaim("order"))
	if !next.Takeover || booked(t, p) != 0 {
		t.Errorf("granted %+v, %d bookings", next, booked(t, p))
	}
}

// Of two attempts that overlap since the first one lost its lease, one books.
func TestAnAttemptThatLostItsLeaseBooksNothing(t *testing.T) {
	t.Parallel()
	r, p := shop(t)
	first := claimRecord(t, r, recordClaim("order"))
	r.Advance(2 * time.Minute)
	second := claimRecord(t, r, recordClaim("order"))
	book := func(g once.Grant) error {
		return pgx.BeginFunc(t.Context(), p, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "INSERT INTO bookings VALUES (1)"); err != nil {
				return err
			}
			return r.WithTx(tx).Complete(t.Context(), g, done)
		})
	}
	wantError(t, "the second one", book(second), nil)
	wantError(t, "the first one", book(first), once.ErrLeaseLost)
	if n := booked(t, p); n != 1 {
		t.Errorf("%d bookings", n)
	}
}

// Who asks while the transaction is still open, and the lease has ended, waits for its end, and
// then gets the replay. After an answer that is an error the transaction can go on (G03).
func TestARepeatWaitsForAnOpenTransactionG02G03(t *testing.T) {
	t.Parallel()
	for _, over := range []string{"pgx", "database/sql"} {
		t.Run(over, func(t *testing.T) {
			t.Parallel()
			r, p := shop(t)
			g := claimRecord(t, r, recordClaim("order"))
			lost := g
			lost.Fence++
			end := bookOpen(t, over, r, p, g, lost)
			r.Advance(2 * time.Minute) // its lease is over
			answers := make(chan error, 1)
			go func() {
				_, err := r.Claim(context.Background(), recordClaim("order"))
				answers <- err
			}()
			testserver.Until(t, limit, "the repeat waits", func() bool {
				return waiting(t, p) == 1
			})
			exec(t, p, "SELECT pg_sleep(1.5)")
			wantError(t, "commit", end(), nil)
			var replay *once.ReplayError
			if err := <-answers; !errors.As(err, &replay) ||
				string(replay.Outcome.Data) != "done" {
				t.Errorf("the repeat: %v", err)
			}
			if n := booked(t, p); n != 2 {
				t.Errorf("%d bookings, want 2", n)
			}
		})
	}
}

// bookOpen books and completes in a transaction that is left open; end commits it.
func bookOpen(
	t *testing.T, over string, r *oncepg.Records, p *pgxpool.Pool, g, lost once.Grant,
) (end func() error) {
	t.Helper()
	ctx := t.Context()
	if over == "pgx" {
		tx, err := p.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		in := r.WithTx(tx)
		wantError(t, "another's", in.Complete(ctx, lost, done), once.ErrLeaseLost)
		_, err = tx.Exec(ctx, "INSERT INTO bookings VALUES (1), (2)")
		wantError(t, "the transaction afterwards", err, nil)
		wantError(t, "complete", in.Complete(ctx, g, done), nil)
		return func() error { return tx.Commit(ctx) }
	}
	tx, err := plainSQL(t, p.Config().ConnString()).BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	in := r.WithSQLTx(tx)
	wantError(t, "another's", in.Complete(ctx, lost, done), once.ErrLeaseLost)
	_, err = tx.ExecContext(ctx, "INSERT INTO bookings VALUES (1), (2)")
	wantError(t, "the transaction afterwards", err, nil)
	wantError(t, "complete", in.Complete(ctx, g, done), nil)
	return tx.Commit
}

// G04: in a snapshot that is older than the latest renewal the user has to begin again, and is told
// so: the transaction rolls back.
func TestARenewalMeanwhileEndsASnapshotG04(t *testing.T) {
	t.Parallel()
	r, p := shop(t)
	g := claimRecord(t, r, recordClaim("order"))
	book := func(between func()) error {
		options := pgx.TxOptions{IsoLevel: pgx.Serializable}
		return pgx.BeginTxFunc(t.Context(), p, options, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "INSERT INTO bookings VALUES (1)"); err != nil {
				return err
			}
			between()
			return r.WithTx(tx).Complete(t.Context(), g, done)
		})
	}
	err := book(func() {
		wantError(t, "renew", r.Renew(t.Context(), g, time.Minute), nil)
	})
	wantError(t, "the first time", err, once.ErrUnavailable)
	wantError(t, "begun again", book(func() {}), nil)
	if n := booked(t, p); n != 1 {
		t.Errorf("%d bookings", n)
	}
}

// What the example shows: each key books once, and each repeat gets the first answer.
func TestTheExampleBooksOnceForAKey(t *testing.T) {
	t.Parallel()
	r, p := shop(t)
	guard, err := once.NewGuard(r, once.Config{OnUnknown: once.Hold})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		answer, err := bookOnce(t.Context(), p, r, guard, "order-1", 3)
		if err != nil || answer != "booked 3 seats" {
			t.Errorf("%q, %v", answer, err)
		}
	}
	_, err = bookOnce(t.Context(), p, r, guard, "order-1", 4)
	wantError(t, "another order", err, once.ErrMismatch)
	if n := booked(t, p); n != 1 {
		t.Errorf("%d bookings", n)
	}
}
