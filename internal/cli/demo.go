package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/oncekit/once/internal/demo"
)

// errDemo says that the demo came out wrong. It has told what and how.
var errDemo = errors.New("the demo found a fault")

func (a *app) demoCommand() *cobra.Command {
	var cfg demo.Config
	c := takes(&cobra.Command{
		Use:   "demo",
		Short: "Watch a plant try to break it: robots, faults, kills, and the count at the end",
		Long: `Watch a simulated plant try to break a real server.

Robots send the callbacks of the built-in example as controllers do: late, twice, at the same
moment, out of order, changed, cut off. The destinations of the effects fail, hang and go away. The
server is frozen, killed by SIGKILL and started again, its clock put forward by hours. In the end
everything is counted and compared with a model that shares no code with the server.

It needs nothing, uses free ports of this machine alone, and leaves nothing behind. Status 0: it
came out right; 1: something was lost, doubled, out of order, had two owners, was replied wrongly,
or is otherwise not as expected.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("seed") {
				cfg.Seed = rand.Uint64N(1_000_000)
			}
			if !c.Flags().Changed("rate") {
				cfg.Rate = demo.DefaultRate(cfg.Robots)
			}
			if err := cfg.Check(); err != nil {
				return &usageError{fmt.Errorf("demo: %w", err), hint(c)}
			}
			return a.demo(cfg)
		},
	}, 0, 0, "")
	c.Flags().IntVar(&cfg.Robots, "robots", demo.DefaultRobots, "`N` robots at work")
	c.Flags().DurationVar(&cfg.Duration, "duration", demo.DefaultDuration,
		"how `LONG` they send, for example 2m")
	c.Flags().Uint64Var(&cfg.Seed, "seed", 0,
		"the `NUMBER` that all is drawn from: the same one makes the same scripts and faults\n"+
			"(default: a new one)")
	c.Flags().IntVar(&cfg.Rate, "rate", 0,
		"`N` requests a second, half of them repeats (default: 5/3 of the robots)")
	c.Flags().StringVar(&cfg.Store, "store", "", "the `URL` of a new store, which is kept "+
		"(default: one that is removed)")
	c.AddCommand(a.janitorCommand())
	return c
}

// janitorCommand is the process that cleans up after a demo that was killed.
func (a *app) janitorCommand() *cobra.Command {
	return takes(&cobra.Command{
		Use:    demo.JanitorArg + " DIR",
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return demo.Janitor(a.io.In, args[0])
		},
	}, 1, 1, "DIR")
}

// demo runs the demo where the program's output goes.
func (a *app) demo(cfg demo.Config) (err error) {
	if cfg.Program, err = os.Executable(); err != nil {
		return fmt.Errorf("find the program: %w", err)
	}
	cfg.Out = a.io.Out
	if f, ok := a.io.Out.(*os.File); ok && isTerminal(f) {
		plain := os.Getenv("CI") != "" || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
		cfg.Live, cfg.Color = !plain, !plain
		cfg.Size = func() (int, int) { return size(f) }
	}
	ctx, stop := demoContext(cfg.Out, cfg.Live)
	defer stop()
	res, err := demo.Run(ctx, cfg)
	switch {
	case errors.Is(err, context.Canceled):
		return &stoppedError{"demo: stopped before its end: there is no verdict"}
	case err != nil:
		return fmt.Errorf("demo: %w", err)
	case !res.OK():
		return errDemo
	}
	return nil
}

// stoppedError says that a person ended what ran.
type stoppedError struct{ text string }

func (e *stoppedError) Error() string { return e.text }

// demoContext ends at the first signal that asks for an end, also that of a terminal that goes
// away. A second one ends the process at once; its children end with it.
func demoContext(out io.Writer, live bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt, syscall.SIGHUP)
	go func() {
		select {
		case <-signals:
		case <-ctx.Done():
			return
		}
		cancel()
		<-signals
		if live {
			_, _ = io.WriteString(out, demo.RestoreTerminal)
		}
		os.Exit(statusStopped)
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}

// size returns the columns and rows of a terminal; what is usual where it does not say.
func size(f *os.File) (columns, rows int) {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || w.Col == 0 || w.Row == 0 {
		return 80, 24
	}
	return int(w.Col), int(w.Row)
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}
