package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/oncekit/once/internal/config"
	"github.com/oncekit/once/oncesqlite"
)

// exampleName is what `once init` writes where no name is given.
const exampleName = "once.yaml"

func (a *app) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a commented example configuration (default " + exampleName + ")",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := exampleName
			if len(args) == 1 {
				name = args[0]
			}
			f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s exists already; name another file, or remove it", name)
			}
			if err != nil {
				return err
			}
			if _, err := f.Write(config.Example()); err != nil {
				return errors.Join(err, f.Close())
			}
			if err := f.Close(); err != nil {
				return err
			}
			c.Printf("wrote %s\nnext: once config check %s, then once serve --config %s\n",
				name, name, name)
			return nil
		},
	}
}

func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Check or print a configuration",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	check := &cobra.Command{
		Use:   "check FILE",
		Short: "Say whether a file is right, and what is wrong with it where (status 2)",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := config.Load(args[0], config.OS())
			if err != nil {
				return err
			}
			c.Printf("%s is right: %s, %s, %s\n", args[0], plural(len(cfg.Sources), "source"),
				plural(len(cfg.Machines), "flow"), plural(len(cfg.Destinations), "destination"))
			return nil
		},
	}
	var f settings
	print := &cobra.Command{
		Use:   "print",
		Short: "Print the configuration as it counts: defaults filled in, secrets hidden",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := f.load()
			if err != nil {
				return err
			}
			return cfg.Print(c.OutOrStdout())
		},
	}
	f.add(print, true)
	c.AddCommand(check, print)
	return c
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (a *app) backupCommand() *cobra.Command {
	var f settings
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the store to a new file, also while a server uses it",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := f.load()
			if err != nil {
				return err
			}
			ctx, stop := signalContext()
			defer stop()
			return a.backup(ctx, c, cfg.Store.Path, args[0])
		},
	}
	f.add(c, false)
	return c
}

func (a *app) backup(ctx context.Context, c *cobra.Command, from, to string) error {
	if err := oncesqlite.Backup(ctx, from, to, nil); err != nil {
		return err
	}
	info, err := os.Stat(to)
	if err != nil {
		return err
	}
	c.Printf("copied %s to %s (%d bytes)\nto go back to it: stop the server, put the file in the "+
		"place of the store, remove the store's -wal and -shm files, start again\n",
		from, to, info.Size())
	return nil
}
