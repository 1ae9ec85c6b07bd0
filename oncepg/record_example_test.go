package oncepg_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncepg"
)

// The pool is one that the program already has. The booking and the answer to whoever asks again
// commit together.
func ExampleNewRecords() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://shop@db:5432/shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	records, err := oncepg.NewRecords(pool, oncepg.RecordsConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := records.Open(ctx); err != nil { // migrates the schema
		fmt.Println(err)
		return
	}
	guard, err := once.NewGuard(records, once.Config{OnUnknown: once.Hold})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(bookOnce(ctx, pool, records, guard, "order-4711", 3))
}

// bookOnce books seats once for a key, and returns the same answer to each repeat.
func bookOnce(
	ctx context.Context, pool *pgxpool.Pool, records *oncepg.Records, guard *once.Guard,
	orderKey string, seats int,
) (string, error) {
	key, err := once.KeyOf(orderKey)
	if err != nil {
		return "", err
	}
	work, err := guard.Begin(ctx, once.Operation{
		Scope: once.NoScope(), Key: key, Request: "book seats",
		Fingerprint: once.FingerprintRaw(fmt.Append(nil, seats)),
	})
	var replay *once.ReplayError
	if errors.As(err, &replay) {
		return string(replay.Outcome.Data), nil
	}
	if err != nil {
		return "", err
	}
	answer := fmt.Sprintf("booked %d seats", seats)
	outcome := once.Outcome{Data: []byte(answer)}
	err = pgx.BeginFunc(work.Context(), pool, func(tx pgx.Tx) error {
		const insert = "INSERT INTO bookings VALUES ($1)"
		if _, err := tx.Exec(work.Context(), insert, seats); err != nil {
			return err
		}
		return records.WithTx(tx).Complete(work.Context(), work.Grant(), outcome) // last
	})
	if err != nil {
		return "", errors.Join(err, work.Lose()) // right also if the commit had no answer
	}
	return answer, work.Complete(outcome) // it is there already: this ends the renewals
}
