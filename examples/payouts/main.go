// Command payouts pays an invoice once, however often it is told to:
//
//	payouts INVOICE CENTS
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/oncekit/once"
	"github.com/oncekit/once/oncesqlite"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "payouts:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	if len(args) != 2 {
		return errors.New("want INVOICE CENTS")
	}
	cents, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	store, err := oncesqlite.Open(ctx, oncesqlite.Config{Path: "payouts.db"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	guard, err := once.NewGuard(store.Records(), once.Config{OnUnknown: once.Hold})
	if err != nil {
		return err
	}
	result, err := payOut(ctx, guard, "acct-1", args[0], cents)
	if err != nil {
		return err
	}
	fmt.Printf("%s, replayed: %t\n", result.Value.ID, result.Replayed)
	return nil
}

// Payout is what comes of paying a supplier. A refusal is a result, too: it stays as it is.
type Payout struct {
	ID      string
	Refused string
}

func payOut(ctx context.Context, guard *once.Guard, account, invoice string, cents int64) (
	result once.Result[Payout], err error,
) {
	scope, err := once.NewScope(account) // whose key it is
	if err != nil {
		return result, err
	}
	key, err := once.KeyOf(invoice) // one part or several: once.KeyOf(invoice, 2)
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

var errNotConnected = errors.New("bank is not reached")

// bankTransfer stands for what happens once.
func bankTransfer(_ context.Context, invoice string, cents int64) (string, error) {
	fmt.Println("paying", cents)
	return "payout-of-" + invoice, nil
}
