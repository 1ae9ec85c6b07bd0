// Command handler is once with a handler in Go: each payment event is checked outside the database,
// then booked in the transaction in which its callback becomes "done". A payment that arrives five
// times is booked once.
//
//	go run ./examples/handler serve --config examples/handler/handler.yaml
//	curl -H 'Content-Type: application/json' http://127.0.0.1:8080/in/payments \
//	     -d '{"id":"evt-1","account":"A-7","cents":1250}'
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/queue"
	"github.com/oncekit/once/serve"
)

func main() {
	serve.Main(serve.Handlers{"bookings": bookings{}})
}

// payment is what the sender posts.
type payment struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
}

// bookings books payments into a table beside the callbacks.
type bookings struct{}

// Work runs without a transaction and may take as long as its timeout allows: look things up, call
// a service (with c.IdempotencyKey(), so that it can tell a second try from a second payment).
func (bookings) Work(_ context.Context, c inbox.Callback) (any, error) {
	var p payment
	if err := c.Decode(&p); err != nil {
		return nil, inbox.Permanent(err) // no later try will make it right
	}
	if p.Account == "" || p.Cents <= 0 {
		return nil, inbox.Permanent(errors.New("a payment needs an account and a positive amount"))
	}
	return p, nil
}

// Commit runs inside the transaction of the store: what it writes and "done" are one step. It has
// to be short.
func (bookings) Commit(ctx context.Context, tx queue.Tx, c inbox.Callback, result any) error {
	p, ok := result.(payment)
	if !ok {
		return fmt.Errorf("book payment: Work returned %T", result)
	}
	_, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS balances
		(account TEXT PRIMARY KEY, cents INTEGER NOT NULL, payments INTEGER NOT NULL)`)
	if err != nil {
		return fmt.Errorf("make table: %w", err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO balances VALUES (?1, ?2, 1)
		ON CONFLICT (account) DO UPDATE SET cents = cents + ?2, payments = payments + 1`,
		p.Account, p.Cents)
	if err != nil {
		return fmt.Errorf("book payment: %w", err)
	}
	return nil
}
