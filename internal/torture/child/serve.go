package main

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/server"
	"github.com/oncekit/once/oncesqlite"
)

// The points of the handler in Go, beside those of the store and the server.
const (
	// pointWorking: a callback is in a handler's hands, outside of any transaction.
	pointWorking oncesqlite.Point = "working"
	// pointCommitting: a handler's Commit has written, in the store's transaction.
	pointCommitting oncesqlite.Point = "committing"
)

// serve runs the server under test.
func serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	file := flags.String("config", "", "configuration `FILE`")
	store := flags.String("store", "", "store `URL`")
	f := &fuse{}
	flags.StringVar((*string)(&f.point), "point", "", "`POINT` at which the process kills itself")
	after := flags.Int64("after", 1, "how often that point is reached before")
	flags.DurationVar(&f.linger, "linger", 0, "how long others go on meanwhile")
	if err := flags.Parse(args); err != nil {
		return err
	}
	f.left.Store(*after)
	env := config.OS()
	env.Override.Store = *store
	cfg, err := config.Load(*file, env)
	if err != nil {
		return err
	}
	s, err := server.Open(ctx, server.Options{
		Config: cfg, Handlers: map[string]inbox.Handler{"count": &counter{fuse: f}},
		Effects: os.Stdout, Probe: f.reach, Version: "torture",
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{
			Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	say("ready %s %s", s.Addr(), s.AdminAddr())
	return s.Run(ctx)
}

// fuse ends the process, without any warning to itself, when a point was reached often enough.
type fuse struct {
	point  oncesqlite.Point
	left   atomic.Int64
	linger time.Duration
}

func (f *fuse) reach(p oncesqlite.Point) {
	if p != f.point || f.left.Add(-1) != 0 {
		return
	}
	time.Sleep(f.linger) // the others go on: requests come in, effects go out
	f.burn(p)
}

// burn ends the process.
func (f *fuse) burn(p oncesqlite.Point) {
	say("killed %s", p)
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}
