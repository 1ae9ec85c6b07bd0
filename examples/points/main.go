// Command points keeps the points of customers in a SQLite file, each purchase once however often
// it is told:
//
//	points FILE PURCHASE CUSTOMER POINTS
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	_ "github.com/ncruces/go-sqlite3/driver" // any driver for SQLite will do

	"github.com/oncekit/once/oncesqlite"
	"github.com/oncekit/once/write"
)

func main() {
	if err := run(context.Background(), os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "points:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) (err error) {
	if len(args) != 4 {
		return errors.New("want FILE PURCHASE CUSTOMER POINTS")
	}
	points, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite3", "file:"+args[0]+"?_pragma=journal_mode(wal)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	w, err := open(ctx, db)
	if err != nil {
		return err
	}
	r, err := award(ctx, w, args[1], args[2], points)
	if err != nil {
		return err
	}
	return report(out, r)
}

const tables = `CREATE TABLE IF NOT EXISTS customers (
	id TEXT PRIMARY KEY, points INTEGER, tier TEXT
)`

func open(ctx context.Context, db *sql.DB) (*oncesqlite.Writer, error) {
	if _, err := db.ExecContext(ctx, tables); err != nil {
		return nil, err
	}
	w, err := oncesqlite.NewWriter(db, oncesqlite.WriterConfig{
		Targets: []write.Target{{Name: "customers"}},
	})
	if err != nil {
		return nil, err
	}
	return w, w.Open(ctx) // looks for the unique index
}

func award(
	ctx context.Context, w write.Writer, purchase, customer string, points int,
) (write.Result, error) {
	return w.Write(ctx, write.Event{
		ID:  "purchase " + purchase, // the producer's own id
		In:  "customers",
		Key: customer,
		Change: write.Increment{
			By:          write.Fields{"points": points},
			SetOnInsert: write.Fields{"tier": "new"},
		},
	})
}

func report(out io.Writer, r write.Result) (err error) {
	switch r.Outcome {
	case write.Applied:
		_, err = fmt.Fprintf(out, "awarded, %v points in all\n", r.Numbers["points"])
	case write.Duplicate:
		_, err = fmt.Fprintf(out, "awarded before, that made %v points\n", r.Numbers["points"])
	case write.Conflict: // the same purchase with other points, or for another customer
		err = fmt.Errorf("known otherwise: for customer %v", r.First.Key)
	}
	return err
}
