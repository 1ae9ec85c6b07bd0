// Command bench measures once against peers, and prints what was measured as a table. See
// docs/performance.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/oncekit/once/bench/internal/figure"
	"github.com/oncekit/once/bench/internal/fill"
	"github.com/oncekit/once/bench/internal/load"
	"github.com/oncekit/once/bench/internal/peer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run carries out a command; without one figures are measured. The commands are the processes that
// a measurement starts; they can be used by themselves.
func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "load":
			return runLoad(ctx, args[1:])
		case "serve":
			return runServe(ctx, args[1:])
		case "fill":
			return runFill(ctx, args[1:])
		case "increments":
			return runIncrements(ctx, args[1:])
		}
	}
	return measure(ctx, args)
}

// runLoad is the load generator: its result is one line of JSON.
func runLoad(ctx context.Context, args []string) error {
	runtime.GOMAXPROCS(1) // it is one thread, and leaves the rest to the server
	var plan load.Plan
	if err := load.NewFlags(&plan).Parse(args); err != nil {
		return err
	}
	result, err := load.Run(ctx, plan)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// runFill writes a large store.
func runFill(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("fill", flag.ContinueOnError)
	kind := f.String("kind", "remembered", "remembered: callbacks that are done; "+
		"pending: effects; records: those of idempotency keys")
	path := f.String("store", "once.db", "the file, which is made")
	rows := f.Int64("rows", 1_000_000, "how many")
	if err := f.Parse(args); err != nil {
		return err
	}
	switch *kind {
	case "remembered":
		return fill.Remembered(ctx, *path, *rows)
	case "pending":
		return fill.Pending(ctx, *path, *rows)
	case "records":
		return fill.Records(ctx, *path, *rows)
	}
	return fmt.Errorf("no kind %q of rows; there are remembered, pending and records", *kind)
}

// runIncrements writes the events of the figure writes into a SQLite file: it is killed meanwhile.
func runIncrements(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("increments", flag.ContinueOnError)
	path := f.String("file", "increments.db", "the SQLite file")
	each := f.Int("each", 1000, "events of each writer")
	if err := f.Parse(args); err != nil {
		return err
	}
	return figure.SQLiteIncrements(ctx, *path, *each)
}

// runServe is one of the peers.
func runServe(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("serve", flag.ContinueOnError)
	kind := f.String("kind", "bare", fmt.Sprintf("which server: %v", peer.Kinds()))
	addr := f.String("addr", "127.0.0.1:8090", "its address")
	dir := f.String("dir", ".", "where it keeps its files")
	to := f.String("to", "", "the origin of a proxy: http://HOST:PORT; the database of "+
		"an inserter: postgres://HOST/DATABASE")
	if err := f.Parse(args); err != nil {
		return err
	}
	b, err := peer.Open(ctx, *kind, *dir, *to)
	if err != nil {
		return err
	}
	return peer.Serve(ctx, *addr, b)
}
