// Package cli is the command line of once.
package cli

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/oncesqlite"
)

// The statuses with which the program ends.
const (
	statusDone   = 0
	statusFailed = 1
	// statusUsage: a wrong configuration or command line.
	statusUsage = 2
)

// IO is what the program reads and writes.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
}

// app is one run of the program.
type app struct {
	io       IO
	handlers map[string]inbox.Handler
}

// Run runs the program with its arguments and returns its status. handlers may be nil.
func Run(args []string, streams IO, handlers map[string]inbox.Handler) int {
	a := &app{io: streams, handlers: handlers}
	root := a.root()
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return statusDone
	}
	return a.tell(err)
}

// usageError is a wrong command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// tell prints what went wrong and returns the status.
func (a *app) tell(err error) int {
	var wrongFile *config.Error
	var usage *usageError
	var locked *oncesqlite.LockedError
	status, text := statusFailed, "once: "+err.Error()
	switch {
	case errors.As(err, &wrongFile):
		status, text = statusUsage, wrongFile.Error()
	case errors.As(err, &usage):
		status, text = statusUsage, text+"\nTry `once help`."
	case errors.As(err, &locked):
		text = "once: " + locked.Error()
	}
	if _, werr := fmt.Fprintln(a.io.Err, text); werr != nil {
		return statusFailed
	}
	return status
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "once",
		Short: "Makes an operation happen once in effect, however often it arrives",
		Long: "once stores callbacks durably under their unique key, answers at once, and works each\n" +
			"through a state machine to its effects: exactly as if it had arrived once.",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(a.io.In)
	root.SetOut(a.io.Out)
	root.SetErr(a.io.Err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(a.serveCommand(), a.initCommand(), a.configCommand(), a.backupCommand())
	for _, c := range root.Commands() {
		wrapArgs(c)
	}
	return root
}

// wrapArgs makes wrong arguments errors of the command line, for a command and those below it.
func wrapArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return &usageError{err}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
}

// version returns the version that the program was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
