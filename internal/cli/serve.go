package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/server"
)

// sources of settings that several commands share.
type settings struct{ file, listen, admin, store string }

func (f *settings) add(c *cobra.Command, listeners bool) {
	c.Flags().StringVarP(&f.file, "config", "c", "",
		"the configuration `FILE` (default: the built-in robot example)")
	c.Flags().StringVar(&f.store, "store", "", "where rows are kept, for example sqlite:once.db (`URL`)")
	if listeners {
		c.Flags().StringVar(&f.listen, "listen", "", "the senders' `ADDR`, host:port")
		c.Flags().StringVar(&f.admin, "admin", "", "the operator's `ADDR`, host:port")
	}
}

// load reads the configuration that the flags name.
func (f *settings) load() (*config.Config, error) {
	env := config.OS()
	env.Override = config.Override{Listen: f.listen, AdminListen: f.admin, Store: f.store}
	if f.file == "" {
		return config.Parse("built-in example", config.Builtin(), env)
	}
	return config.Load(f.file, env)
}

func (a *app) serveCommand() *cobra.Command {
	var f settings
	c := &cobra.Command{
		Use:   "serve",
		Short: "Receive callbacks and work them",
		Long: "Receive callbacks, answer at once, and work them to their effects.\n" +
			"Without a file it serves the built-in robot example and prints effects to the console.\n" +
			"SIGTERM or Ctrl-C ends it in order; a second one ends it at once, and nothing is lost.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.serve(c.Context(), &f) },
	}
	f.add(c, true)
	return c
}

func (a *app) serve(_ context.Context, f *settings) error {
	cfg, err := f.load()
	if err != nil {
		return err
	}
	ctx, stop := signalContext()
	defer stop()
	log := logger(a.io.Err, cfg.Log)
	s, err := server.Open(ctx, server.Options{Config: cfg, Handlers: a.handlers, Effects: a.io.Out,
		Logger: log, Version: version()})
	if err != nil {
		return err
	}
	a.greet(cfg, s, f.file == "")
	return s.Run(ctx)
}

// signalContext ends at the first SIGTERM or SIGINT. A second one ends the process at once: what was
// acknowledged is on the disk.
func signalContext() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		select {
		case <-signals:
		case <-ctx.Done():
			return
		}
		cancel()
		<-signals
		os.Exit(130)
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}

func logger(w interface{ Write([]byte) (int, error) }, l config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		level = slog.LevelInfo // the loader accepts known levels only
	}
	o := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// greet says where what is served, and for the built-in example what to try next.
func (a *app) greet(cfg *config.Config, s *server.Server, example bool) {
	p := func(format string, args ...any) {
		if _, err := fmt.Fprintf(a.io.Out, format+"\n", args...); err != nil {
			return // nobody reads it
		}
	}
	p("once serves %s", cfg.File)
	for _, src := range cfg.Sources {
		p("  callbacks   POST http://%s/in/%s", s.Addr(), src.Name)
		for _, path := range src.Paths {
			p("              POST http://%s%s", s.Addr(), path)
		}
	}
	p("  operator    http://%s/api/v1/callbacks  (and /metrics, /healthz, /readyz)", s.AdminAddr())
	p("  store       %s%s", shortPath(cfg.Store.Path), map[bool]string{true: "  (new and empty)"}[s.Created()])
	if !example {
		return
	}
	p("\nTry it from another terminal. A robot starts a task, then says five times that it ended:\n")
	p("  post() { curl -H 'Content-Type: application/json' http://%s/in/rcs -d \"$1\"; echo; }", s.Addr())
	p(`  post '{"reqCode":"REQ-1","taskCode":"TASK-1","callbackMethod":"startFE","data":{"roadway":"R7"}}'`)
	p("  for i in 1 2 3 4 5; do")
	p(`    post '{"reqCode":"REQ-2","taskCode":"TASK-1","callbackMethod":"finishFE"}'; done`)
	p("\nThe roadway is unlocked once. What came of it:\n")
	p("  curl http://%s/api/v1/tasks/transport/TASK-1", s.AdminAddr())
	p("  curl 'http://%s/api/v1/callbacks?task=TASK-1'", s.AdminAddr())
	p("\n`once init` writes this example to a file that you can change.")
	p("Effects, as they would go out:\n")
}

// shortPath shows a path as seen from the working directory where that is shorter.
func shortPath(path string) string {
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(dir, path); err == nil && len(rel) < len(path) {
		return rel
	}
	return path
}
