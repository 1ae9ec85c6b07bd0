package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/internal/server"
	"github.com/oncekit/once/oncesqlite"
)

// exampleName is what `once init` writes where no name is given.
const exampleName = "once.yaml"

func (a *app) initCommand() *cobra.Command {
	return takes(&cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a commented example configuration (default " + exampleName + ")",
		RunE: func(c *cobra.Command, args []string) error {
			name := exampleName
			if len(args) == 1 {
				name = args[0]
			}
			if err := writeNew(name, config.Example()); err != nil {
				return err
			}
			a.say("wrote %s\nnext: once config check %s, then once serve --config %s",
				name, name, name)
			return nil
		},
	}, 0, 1, "FILE")
}

// writeNew writes a file that must not be there.
func writeNew(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already; name another file, or remove it", name)
	}
	if err != nil {
		return fmt.Errorf("write example: %w", err)
	}
	if _, err := f.Write(content); err != nil {
		return errors.Join(fmt.Errorf("write example: %w", err), f.Close())
	}
	return f.Close()
}

// say writes to the standard output. What nobody reads is no failure.
func (a *app) say(format string, args ...any) {
	_, _ = fmt.Fprintf(a.io.Out, format+"\n", args...)
}

func (a *app) configCommand() *cobra.Command {
	c := takes(&cobra.Command{
		Use:   "config",
		Short: "Check or print a configuration",
		RunE:  help,
	}, 0, 0, "")
	var checked settings
	check := takes(&cobra.Command{
		Use:   "check FILE",
		Short: "Say whether a file is right, and what is wrong with it where (status 2)",
		Long: `Say whether a file is right, and what is wrong with it where (status 2).
Where its store is there, also while a server uses it, the file is compared with what the store
holds, as at the start. The store is only read.`,
		RunE: func(_ *cobra.Command, args []string) error {
			checked.file = args[0]
			return a.check(&checked)
		},
	}, 1, 1, "FILE")
	check.Flags().StringVar(&checked.store, "store", "",
		"the store's `URL`, for example sqlite:once.db")
	var f settings
	show := takes(&cobra.Command{
		Use:   "print [FILE]",
		Short: "Print the configuration as it counts: defaults filled in, secrets hidden",
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && f.file != "":
				return &usageError{errors.New("config print: two files are named"), hint(c)}
			case len(args) == 1:
				f.file = args[0]
			}
			cfg, err := f.load()
			if err != nil {
				return err
			}
			return cfg.Print(c.OutOrStdout())
		},
	}, 0, 1, "FILE")
	f.add(show, true)
	c.AddCommand(check, show)
	return c
}

// check loads a file and says what else would keep it from being served. What this program lacks is
// a warning: another one may have it.
func (a *app) check(f *settings) error {
	cfg, err := f.load()
	if err != nil {
		return err
	}
	for _, p := range cfg.Warnings {
		a.warn("%s", p)
	}
	if unfit := server.Unfit(cfg); len(unfit) > 0 {
		return &config.Error{Problems: unfit}
	}
	idle, err := server.Compare(context.Background(), cfg)
	var refused *config.Error
	if errors.As(err, &refused) {
		return refused
	}
	lacks := server.Lacks(cfg, a.handlers)
	if len(lacks) > 0 && a.handlers != nil { // a program of one's own: it is meant for this file
		return &config.Error{Problems: lacks}
	}
	for _, p := range lacks {
		a.warn("%s", p.Msg)
	}
	for _, what := range idle {
		a.warn("migrate: %s", what)
	}
	beside := ", and fits its store " + shortPath(cfg.Store.Name())
	switch {
	case errors.Is(err, once.ErrNotFound):
		beside = ""
	case err != nil:
		beside = ""
		a.warn("not compared with the store: %v", err)
	}
	a.say("%s is right: %s%s", f.file, contents(cfg), beside)
	return nil
}

// contents counts what a configuration declares.
func contents(cfg *config.Config) string {
	var list []string
	if cfg.Gateway != nil {
		list = []string{"1 gateway", plural(len(cfg.Gateway.Routes), "route")}
	}
	if len(cfg.Sources)+len(cfg.Machines)+len(cfg.Destinations) > 0 || cfg.Gateway == nil {
		list = append(list, plural(len(cfg.Sources), "source"),
			plural(len(cfg.Machines), "flow"), plural(len(cfg.Destinations), "destination"))
	}
	return strings.Join(list, ", ")
}

// warn writes to the standard error.
func (a *app) warn(format string, args ...any) {
	_, _ = fmt.Fprintf(a.io.Err, "warning: "+format+"\n", args...)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (a *app) backupCommand() *cobra.Command {
	var f settings
	c := takes(&cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the store to a new file, also while a server uses it",
		RunE: func(_ *cobra.Command, args []string) error {
			cfg, err := f.load()
			if err != nil {
				return err
			}
			ctx, stop := signalContext()
			defer stop()
			if cfg.Store.Database != "" {
				kind, tools := "MongoDB", "mongodump, or a snapshot of its disks"
				if cfg.Store.InPostgreSQL() {
					kind, tools = "PostgreSQL", "pg_basebackup with its log, or pg_dump"
				}
				return &statusError{status: statusUsage, err: fmt.Errorf("the store is %s: back a "+
					"database of %s up with its own tools, such as %s", cfg.Store.Name(), kind,
					tools)}
			}
			return a.backup(ctx, cfg.Store.Path, args[0])
		},
	}, 1, 1, "FILE")
	f.add(c, false)
	return c
}

func (a *app) backup(ctx context.Context, from, to string) error {
	if err := oncesqlite.Backup(ctx, from, to, nil); err != nil {
		return err
	}
	info, err := os.Stat(to)
	if err != nil {
		return err
	}
	a.say("copied %s to %s (%d bytes)\nto go back to it: stop the server, put the copy in the "+
		"place of the store, remove\nthe store's -wal and -shm files, start again",
		shortPath(from), to, info.Size())
	return nil
}
