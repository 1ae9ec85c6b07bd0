package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncekit/once/internal/scenario"
	"github.com/oncekit/once/scenarios"
)

// defaultOrigin is where the origin of the scenarios listens, as scenarios/gateway.yaml has it.
const defaultOrigin = "127.0.0.1:7010"

// scenarioFlags are the flags of the scenarios' commands.
type scenarioFlags struct {
	folder, target, origin string
	only, skip             []string
	parallel               int
	timeout                time.Duration
	json                   bool
}

func (a *app) scenariosCommand() *cobra.Command {
	var f scenarioFlags
	c := takes(&cobra.Command{
		Use:   "scenarios",
		Short: "Hold an implementation of idempotency keys to what it should do",
		Long: `Hold an implementation of idempotency keys to what it should do, from outside and in
whatever language it is written: both the client and the service behind it are played, and each
answer is compared byte for byte.`,
		RunE: help,
	}, 0, 0, "")
	c.PersistentFlags().StringVar(&f.folder, "dir", "", "read the scenarios of this `FOLDER` "+
		"(default: those that are built in)")
	c.AddCommand(a.scenariosRun(&f), a.scenariosList(&f), takes(&cobra.Command{
		Use:   "settings",
		Short: "Print the settings that the scenarios need of a target, as a file for once serve",
		RunE: func(*cobra.Command, []string) error {
			text, err := fs.ReadFile(f.files(), scenario.Settings)
			if err != nil {
				return fmt.Errorf("read settings: %w", err)
			}
			_, err = a.io.Out.Write(text)
			return err
		},
	}, 0, 0, ""))
	return c
}

func (a *app) scenariosRun(f *scenarioFlags) *cobra.Command {
	c := takes(&cobra.Command{
		Use:   "run --target URL",
		Short: "Run the scenarios against a target",
		Long: `Run the scenarios against a target: a reverse proxy that adds idempotency keys.

The service is played here, on the address of --origin: set the target up to send on to it, with
the routes that "once scenarios settings" prints. Each scenario has paths, accounts and keys of its
own, new ones at each run, so that a target needs no clean-up between runs.

Status 0: all passed; 1: some failed, or the target can't be reached; 2: a wrong command line.`,
		RunE: func(c *cobra.Command, _ []string) error { return a.runScenarios(c, f) },
	}, 0, 0, "")
	flags := c.Flags()
	flags.StringVar(&f.target, "target", "", "the base `URL` of the target")
	flags.StringVar(&f.origin, "origin", defaultOrigin, "the `HOST:PORT` on which the service "+
		"behind the target is played")
	flags.StringSliceVar(&f.only, "only", nil, "run only these `IDS`, with commas between them")
	flags.StringSliceVar(&f.skip, "skip", nil, "leave these `IDS` out")
	flags.IntVar(&f.parallel, "parallel", 8, "`N` scenarios side by side")
	flags.DurationVar(&f.timeout, "timeout", 15*time.Second,
		"the `DURATION` that each answer may take, such as 30s; longer than a repeat waits at the "+
			"target")
	flags.BoolVar(&f.json, "json", false, "print one JSON object for each scenario")
	return c
}

func (a *app) runScenarios(c *cobra.Command, f *scenarioFlags) error {
	target, err := url.Parse(f.target)
	switch {
	case f.target == "":
		return &usageError{errors.New("scenarios run: --target is missing"), hint(c)}
	case err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https":
		return &usageError{fmt.Errorf("scenarios run: --target is %q; expected http://HOST:PORT",
			f.target), hint(c)}
	case f.parallel < 1 || f.timeout <= 0:
		return &usageError{errors.New("scenarios run: --parallel and --timeout are to be positive"),
			hint(c)}
	}
	list, err := f.load()
	if err != nil {
		return err
	}
	if list, err = scenario.Choose(list, f.only, f.skip); err != nil {
		return &usageError{fmt.Errorf("scenarios run: %w", err), hint(c)}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	origin, err := scenario.ListenOrigin(ctx, f.origin)
	if err != nil {
		return err
	}
	defer origin.Close()
	results, err := scenario.Run(ctx, list, scenario.Config{
		Target: target, Origin: origin, Parallel: f.parallel, Patience: f.timeout,
	})
	switch {
	case errors.Is(err, context.Canceled):
		return &stoppedError{"scenarios run: stopped before their end"}
	case err != nil:
		return err
	}
	write := scenario.WriteTable
	if f.json {
		write = scenario.WriteJSON
	}
	if err := write(a.io.Out, results); err != nil {
		return err
	}
	if !scenario.Passed(results) {
		return &statusError{status: statusFailed}
	}
	return nil
}

func (a *app) scenariosList(f *scenarioFlags) *cobra.Command {
	c := takes(&cobra.Command{
		Use:   "list",
		Short: "List the scenarios: id, and what has to happen",
		RunE: func(*cobra.Command, []string) error {
			list, err := f.load()
			if err != nil {
				return err
			}
			var b strings.Builder
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			for _, s := range list {
				if !f.json {
					fmt.Fprintf(&b, "%-46s  %s\n", s.ID, s.Title)
				} else if err := enc.Encode(listed{s.ID, s.Title, s.Why}); err != nil {
					return err
				}
			}
			_, err = a.io.Out.Write([]byte(b.String()))
			return err
		},
	}, 0, 0, "")
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object for each scenario")
	return c
}

// listed is a scenario as it is listed in JSON.
type listed struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Why   string `json:"why"`
}

func (f *scenarioFlags) files() fs.FS {
	if f.folder == "" {
		return scenarios.Files()
	}
	return os.DirFS(f.folder)
}

func (f *scenarioFlags) load() ([]scenario.Scenario, error) {
	list, err := scenario.Load(f.files())
	if err != nil {
		return nil, fmt.Errorf("load scenarios: %w", err)
	}
	return list, nil
}
