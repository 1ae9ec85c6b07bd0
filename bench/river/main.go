// Command river is the peer that hands each callback to riverqueue/river, behind the same handler
// as the others. It is a module of its own because its SQLite library takes minutes to compile.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/oncekit/once/bench/internal/peer"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("river", flag.ContinueOnError)
	addr := f.String("addr", "127.0.0.1:8090", "its address")
	dir := f.String("dir", ".", "where it keeps its file")
	to := f.String("to", "", "the database that it uses instead: postgres://HOST/DATABASE")
	work := f.Bool("work", true, "work the jobs that are inserted")
	if err := f.Parse(args); err != nil {
		return err
	}
	var q queue
	var err error
	if *to != "" {
		q, err = openPostgres(ctx, *to, *work)
	} else {
		q, err = openSQLite(ctx, *dir, *work)
	}
	if err != nil {
		return err
	}
	return peer.Serve(ctx, *addr, peer.Backend{Accept: q.accept, Run: q.run,
		Metrics: func(w io.Writer) error {
			inserted, done := q.counts()
			_, err := fmt.Fprintf(w, "river_jobs_backlog %d\nriver_jobs_done %d\n", inserted-done,
				done)
			return err
		}})
}
