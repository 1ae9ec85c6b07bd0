package once_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncemem"
)

// Payout is what comes of paying a supplier. A refusal is a result, too: it stays as it is.
type Payout struct {
	ID      string
	Refused string
}

// A message of a queue that comes twice pays once, and both times learns what came of it.
func ExampleDo() {
	store, err := oncemem.New(oncemem.Config{SingleInstance: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	guard, err := once.NewGuard(store, once.Config{OnUnknown: once.Hold})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		result, err := payOut(context.Background(), guard, "acct-1", "invoice-7", 1250)
		fmt.Println(result.Value.ID, result.Replayed, err)
	}
	_, err = payOut(context.Background(), guard, "acct-1", "invoice-7", 9900)
	fmt.Println(errors.Is(err, once.ErrMismatch))
	// Output:
	// paying 1250
	// payout-of-invoice-7 false <nil>
	// payout-of-invoice-7 true <nil>
	// true
}

var errNotConnected = errors.New("bank is not reached")

func payOut(ctx context.Context, guard *once.Guard, account, invoice string, cents int64) (
	result once.Result[Payout], err error,
) {
	scope, err := once.NewScope(account)
	if err != nil {
		return result, err
	}
	key, err := once.KeyOf(invoice)
	if err != nil {
		return result, err
	}
	op := once.Operation{
		Scope:       scope,
		Key:         key,
		Fingerprint: once.FingerprintRaw(fmt.Append(nil, cents)), // what is asked
		Request:     "pay out",                                   // for people
	}
	return once.Do(ctx, guard, op, func(ctx context.Context) (Payout, error) {
		id, err := bankTransfer(ctx, invoice, cents)
		if errors.Is(err, errNotConnected) {
			return Payout{}, once.NoEffect(err) // the key is free: the next one tries again
		}
		return Payout{ID: id}, err // any other error: nobody knows, and a person decides
	})
}

func bankTransfer(_ context.Context, invoice string, cents int64) (string, error) {
	fmt.Println("paying", cents)
	return "payout-of-" + invoice, nil
}
