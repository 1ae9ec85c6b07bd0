// Package cli is the command line of once.
package cli

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/oncesqlite"
)

// The groups of commands in the help.
const groupServer, groupOperator = "server", "operator"

// IO is what the program reads and writes.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
}

// app is one run of the program.
type app struct {
	io       IO
	handlers map[string]inbox.Handler
	remote   remote
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

// usageError is a wrong command line, and where to look for the right one.
type usageError struct {
	err  error
	hint string
}

// hint says how to see what a command takes.
func hint(c *cobra.Command) string { return "\n`" + c.CommandPath() + " --help` says more." }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// tell prints what went wrong and returns the status.
func (a *app) tell(err error) int {
	var wrongFile *config.Error
	var usage *usageError
	var locked *oncesqlite.LockedError
	var stopped *stoppedError
	var said *statusError
	status, text := statusFailed, "once: "+plain(err)
	switch {
	case errors.As(err, &wrongFile):
		status, text = statusUsage, wrongFile.Error()
	case errors.As(err, &usage):
		status, text = statusUsage, text+usage.hint
	case errors.As(err, &said):
		if status = said.status; said.err == nil {
			return status
		}
	case errors.As(err, &locked):
		text = "once: " + locked.Error()
	case errors.As(err, &stopped):
		status = statusStopped
	case errors.Is(err, errDemo):
		return statusFailed // it was told
	}
	if _, werr := fmt.Fprintln(a.io.Err, text); werr != nil {
		return statusFailed
	}
	return status
}

// plain writes an error with each of its lines once: a driver says the same again for each way in
// which it tried to connect. What is said in two lines then stands in one.
func plain(err error) string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 2 && strings.HasSuffix(lines[0], ":") {
		return lines[0] + " " + strings.TrimSpace(lines[1])
	}
	return strings.Join(lines, "\n")
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "once",
		Short: "Makes an operation happen once in effect, however often it arrives",
		Long: `once stores callbacks durably under their unique key, answers at once, and works each
through a state machine to its effects: exactly as if it had arrived once.`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          help,

		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return refuseEmpty(c) },
	}
	root.SetIn(a.io.In)
	root.SetOut(a.io.Out)
	root.SetErr(a.io.Err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return &usageError{plainFlag(err), hint(c)}
	})
	root.AddGroup(&cobra.Group{ID: groupServer, Title: "A server:"},
		&cobra.Group{ID: groupOperator, Title: "Its operator:"})
	root.SetCompletionCommandGroupID(groupServer)
	root.SetHelpCommandGroupID(groupServer)
	root.AddCommand(a.serveCommand(), a.proxyCommand(), a.demoCommand(), a.initCommand(),
		a.configCommand(),
		a.backupCommand(), a.migrateCommand(), a.scenariosCommand(), a.versionCommand())
	for _, c := range root.Commands() {
		c.GroupID = groupServer
	}
	root.AddCommand(a.manCommand(), a.statusCommand(), a.callbacksCommand(), a.effectsCommand(),
		a.tasksCommand(), a.resourcesCommand(), a.recordsCommand(), a.rejectedCommand(),
		a.sourcesCommand(),
		a.destinationsCommand(), a.nodesCommand(),
		&cobra.Command{Use: "exit-status", Short: "The statuses with which the program ends",
			Long: statusHelp()})
	takes(root, 0, 0, "")
	return root
}

// refuseEmpty refuses a flag that is given without a text: mostly a variable of a script that isn't
// set. Without the flag a change would meet other things, or another server, than was meant.
func refuseEmpty(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" {
			err = &usageError{fmt.Errorf("--%s is given, and empty (a variable that isn't set?); "+
				"give it a value, or leave it out", f.Name), hint(c)}
		}
	})
	return err
}

// plainFlag says what a flag takes, without the words of Go's library.
func plainFlag(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	want := map[string]string{"int": "a whole number", "int64": "a whole number",
		"bool": "true or false", "duration": "a time such as 30s"}[invalid.GetFlag().Value.Type()]
	if want == "" {
		return err
	}
	return fmt.Errorf("--%s %s: want %s", invalid.GetFlag().Name, invalid.GetValue(), want)
}

// help is what a command does that has commands below it.
func help(c *cobra.Command, _ []string) error { return c.Help() }

// takes says how many arguments a command takes, and what they are called in its usage.
func takes(c *cobra.Command, least, most int, what string) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		switch name := strings.TrimPrefix(c.CommandPath(), "once "); {
		case c.HasSubCommands() && len(args) > most:
			err := fmt.Errorf("%q is no command of %s", args[0], c.CommandPath())
			if near := c.SuggestionsFor(args[0]); len(near) > 0 {
				err = fmt.Errorf("%w; is it %q?", err, near[0])
			}
			return &usageError{err, hint(c)}
		case len(args) < least:
			return &usageError{fmt.Errorf("%s: %s is missing", name, what), hint(c)}
		case len(args) > most:
			return &usageError{fmt.Errorf("%s: %q is one argument too many", name, args[most]),
				hint(c)}
		}
		return nil
	}
	return c
}

func (a *app) versionCommand() *cobra.Command {
	return takes(&cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "once version %s\n", version())
			return err
		},
	}, 0, 0, "")
}

// version returns the version that the program was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
