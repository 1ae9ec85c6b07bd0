package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/oncekit/once/internal/client"
	"github.com/oncekit/once/internal/screen"
)

// completeTime is how long a shell waits for the server while somebody types.
const completeTime = 2 * time.Second

// maxCompleted bounds the ids that a shell offers.
const maxCompleted = 50

// completer returns the values that a flag can have on this server.
type completer func(context.Context, *client.Client) ([]string, error)

// complete has a shell offer what the server has. Without a server it offers nothing.
func (a *app) complete(c *cobra.Command, flag string, values completer) {
	_ = c.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) (
		[]string, cobra.ShellCompDirective) {
		return a.offered(values), cobra.ShellCompDirectiveNoFileComp
	}) // the flag is there
}

func (a *app) offered(values completer) []string {
	c, err := a.connect()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeTime)
	defer cancel()
	list, err := values(ctx, c)
	if err != nil {
		return nil
	}
	return offerable(list)
}

// offerable returns what a shell can be offered: senders choose the names of resources, and a shell
// puts what it completes into the command line as it is, and runs it. Names of other characters
// have to be typed, in quotes. What stands behind a tab is shown on the terminal.
func offerable(list []string) []string {
	out := make([]string, 0, len(list))
	for _, entry := range list {
		name, about, found := strings.Cut(entry, "\t")
		if name == "" || name[0] == '-' || strings.ContainsFunc(name, unfitForShell) {
			continue
		}
		if found {
			name += "\t" + screen.Clean(about)
		}
		out = append(out, name)
	}
	return out
}

// unfitForShell reports whether a character can mean more to a shell than itself.
func unfitForShell(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._:/-", r)
}

// fixed are values that need no server.
func fixed(list ...string) completer {
	return func(context.Context, *client.Client) ([]string, error) { return list, nil }
}

func sourceNames(ctx context.Context, c *client.Client) (out []string, err error) {
	page, err := c.Sources(ctx)
	for _, s := range page.Items {
		out = append(out, s.Value.Name)
	}
	return out, err
}

func destinationNames(ctx context.Context, c *client.Client) (out []string, err error) {
	page, err := c.Destinations(ctx)
	for _, d := range page.Items {
		out = append(out, d.Value.Name)
	}
	return out, err
}

func flowNames(ctx context.Context, c *client.Client) (out []string, err error) {
	counts, err := c.Counts(ctx)
	for _, t := range counts.Value.Tasks {
		out = append(out, t.Flow)
	}
	return slices.Compact(out), err
}

func taskStates(ctx context.Context, c *client.Client) (out []string, err error) {
	counts, err := c.Counts(ctx)
	for _, t := range counts.Value.Tasks {
		out = append(out, t.State)
	}
	slices.Sort(out)
	return slices.Compact(out), err
}

// completeIDs has a shell offer the ids of the latest things in one of the states, with what they
// are. No states: all of them.
func (l *lister[T]) completeIDs(a *app, states []string) cobra.CompletionFunc {
	if states == nil {
		states = []string{""}
	}
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return a.offered(func(ctx context.Context, c *client.Client) (out []string, err error) {
			s := a.out()
			for _, state := range states {
				page, err := l.fetch(ctx, c, client.Query{Limit: maxCompleted,
					Filter: map[string]string{"state": state}})
				if err != nil {
					return nil, err
				}
				for i := range page.Items {
					v := &page.Items[i].Value
					row := l.row(s, v)
					out = append(out, fmt.Sprintf("%s\t%s %s", l.id(v), row[2].Text, row[3].Text))
				}
			}
			return out[:min(len(out), maxCompleted)], nil
		}), cobra.ShellCompDirectiveNoFileComp
	}
}

// resourceNames offers the names of resources.
func (a *app) resourceNames(*cobra.Command, []string, string) ([]string,
	cobra.ShellCompDirective) {
	return a.offered(func(ctx context.Context, c *client.Client) (out []string, err error) {
		page, err := c.Resources(ctx, client.Query{Limit: maxCompleted})
		for _, r := range page.Items {
			out = append(out, r.Value.Kind+"/"+r.Value.Name)
		}
		return out, err
	}), cobra.ShellCompDirectiveNoFileComp
}

// shellQuoted is a text as a shell takes it for one word and for nothing else.
func shellQuoted(s string) string {
	if s != "" && s[0] != '-' && !strings.ContainsFunc(s, unfitForShell) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
