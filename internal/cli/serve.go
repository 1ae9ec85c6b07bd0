package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/server"
	"github.com/oncekit/once/internal/tracing"
)

// settings are what the flags say that several commands share.
type settings struct{ file, listen, admin, store string }

func (f *settings) add(c *cobra.Command, listeners bool) {
	c.Flags().StringVarP(&f.file, "config", "c", "",
		"the configuration `FILE` (default: the built-in robot example)")
	c.Flags().StringVar(&f.store, "store", "", "the store's `URL`, for example sqlite:once.db")
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
	cfg, err := config.Load(f.file, env)
	var wrong *config.Error
	if err != nil && !errors.As(err, &wrong) { // it can't be read
		return nil, &usageError{err: err}
	}
	return cfg, err
}

// gcPercent lets the heap, which is small (some 25 megabytes live under load), grow further between
// collections than Go does by itself. What it gains was not measured beyond noise; with 400 the
// process came to 165 MB beside ten million rows, with 300 to 135. GOGC overrides it.
const gcPercent = 300

func (a *app) serveCommand() *cobra.Command {
	var f settings
	var offset time.Duration
	c := takes(&cobra.Command{
		Use:   "serve",
		Short: "Receive callbacks and work them; put idempotency keys before an API",
		Long: `Receive callbacks, answer at once, and work them to their effects; hand requests to
an API on, each key once.
Without a file it serves the built-in robot example and prints effects to the console.
SIGTERM or Ctrl-C ends it in order; a second one ends it at once, and nothing is lost.`,
		RunE: func(*cobra.Command, []string) error {
			if offset < 0 {
				return fmt.Errorf("--clock-offset %v: the store's clock never runs backwards",
					offset)
			}
			return a.serve(&f, offset)
		},
	}, 0, 0, "")
	f.add(c, true)
	// For the demo: hours pass between two lives of the process. The store never goes back behind a
	// time that it has given out.
	c.Flags().DurationVar(&offset, "clock-offset", 0, "how far the store's clock is put forward")
	_ = c.Flags().MarkHidden("clock-offset") // it exists
	return c
}

func (a *app) serve(f *settings, offset time.Duration) error {
	cfg, err := f.load()
	if err != nil {
		return err
	}
	name := cfg.File
	if f.file == "" {
		name = "the built-in robot example"
	}
	return a.serveConfig(cfg, name, f.file == "", offset)
}

// serveConfig serves until a signal comes.
func (a *app) serveConfig(cfg *config.Config, name string, example bool,
	offset time.Duration,
) error {
	tune()
	ctx, stop := signalContext()
	defer stop()
	log := logger(a.io.Err, cfg.Log)
	if cfg.Gateway != nil && cfg.Gateway.Records != "" {
		server.LogRedis(log)
	}
	spans, err := tracing.FromEnv(ctx, version(), log)
	if err != nil { // what is received and worked doesn't depend on it
		log.Warn("nothing is traced", "error", err)
	}
	s, err := server.Open(ctx, server.Options{Config: cfg, Handlers: a.handlers, Effects: a.io.Out,
		Logger: log, NoFile: cfg.File == flagsOnly, Version: version(),
		Now: shifted(offset), Tracing: spans})
	if err != nil {
		return err
	}
	a.greet(cfg, s, name, example)
	return s.Run(ctx)
}

// shifted is the machine's clock, put forward; nil: as it is.
func shifted(offset time.Duration) func() time.Time {
	if offset == 0 {
		return nil
	}
	return func() time.Time { return time.Now().Add(offset) }
}

// tune sets up the runtime, where its variables are not set.
func tune() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	// A thread that waits for the disk to flush keeps its place among those that run, for up to
	// the length of the flush. The one more makes up for it.
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}

// signalContext ends at the first SIGTERM or SIGINT. A second one ends the process at once: what
// was acknowledged is on the disk.
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

func logger(w io.Writer, l config.Log) *slog.Logger {
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
func (a *app) greet(cfg *config.Config, s *server.Server, name string, example bool) {
	fresh := ""
	if s.Created() {
		fresh = "  (new and empty)"
	}
	a.say("once serves %s", name)
	scheme := "http"
	if cfg.TLS != nil {
		scheme = "https"
	}
	for _, src := range cfg.Sources {
		a.say("  callbacks   POST %s://%s/in/%s", scheme, s.Addr(), src.Name)
		for _, path := range src.Paths {
			a.say("              POST %s://%s%s", scheme, s.Addr(), path)
		}
	}
	what := "callbacks"
	if g := cfg.Gateway; g != nil {
		a.say("  gateway     %s://%s -> %s", scheme, s.Addr(), g.Upstream)
		a.greetRoutes(g.Routes)
		if len(cfg.Sources) == 0 {
			what = "records"
		}
	}
	a.say("  operator    http://%s/api/v1/%s  (and /metrics, /healthz, /readyz)",
		s.AdminAddr(), what)
	if g := cfg.Gateway; g != nil && g.Records != "" {
		a.say("  records     %s", placeOfRecords(g.Records))
	}
	a.say("  store       %s%s", shortPath(cfg.Store.Name()), fresh)
	if example {
		a.say(tryNext, s.Addr(), s.AdminAddr())
	}
}

// maxGreeted bounds the routes that are told at the start.
const maxGreeted = 20

// greetRoutes says which requests are guarded, so that a slip in a pattern is seen at once.
func (a *app) greetRoutes(routes []config.Route) {
	for i := range routes {
		if i == maxGreeted {
			a.say("              and %s", plural(len(routes)-i, "more route"))
			return
		}
		r := &routes[i]
		if r.Key == "ignored" {
			a.say("              %s  (key ignored)", r.Match)
			continue
		}
		lost := "retry"
		if r.HoldUnknown {
			lost = "hold"
		}
		a.say("              %s  (key %s, on_unknown %s)", r.Match, r.Key, lost)
	}
}

// placeOfRecords is the URL of a Redis or a database without what may be secret in it. That of a
// database may have several hosts with their ports, which is no URL elsewhere.
func placeOfRecords(text string) string {
	scheme, rest, _ := strings.Cut(text, "://")
	rest, _, _ = strings.Cut(rest[strings.LastIndex(rest, "@")+1:], "?")
	return scheme + "://" + rest
}

// tryNext are the commands that show what the example does. They run as they stand.
const tryNext = `
Try it from another terminal. A robot starts a task, then says five times that it ended:

  post() { curl -sS -H 'Content-Type: application/json' http://%[1]s/in/rcs -d "$1"; echo; }
  post '{"reqCode":"REQ-1","taskCode":"TASK-1","callbackMethod":"startFE","data":{"roadway":"R7"}}'
  for i in 1 2 3 4 5; do
    post '{"reqCode":"REQ-2","taskCode":"TASK-1","callbackMethod":"finishFE"}'; done

The roadway is unlocked once. What came of it:

  curl -sS http://%[2]s/api/v1/tasks/transport/TASK-1
  curl -sS 'http://%[2]s/api/v1/callbacks?task=TASK-1'

"once init" writes this example to a file that you can change.
Effects, as they would go out:
`

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
