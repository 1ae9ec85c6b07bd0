package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncekit/once/internal/client"
	"github.com/oncekit/once/internal/screen"
	"github.com/oncekit/once/internal/wire"
)

// who are the flags of every change: the server keeps both.
type who struct{ actor, reason string }

func (w *who) add(c *cobra.Command) {
	c.Flags().StringVar(&w.reason, "reason", "", "the `TEXT` that says why, kept with the change "+
		"(required)")
	c.Flags().StringVar(&w.actor, "actor", "", "the `NAME` of who makes the change, kept with it "+
		"(default USER@HOST)")
}

// by returns who makes a change, or what is missing.
func (w *who) by(c *cobra.Command) (wire.Change, error) {
	if strings.TrimSpace(w.reason) == "" {
		return wire.Change{}, &usageError{errors.New("--reason is missing: it is kept with the " +
			"change"), hint(c)}
	}
	return wire.Change{Actor: cmp.Or(w.actor, thisUser()), Reason: w.reason}, nil
}

// thisUser names who runs the program, as far as the system knows.
func thisUser() string {
	name := "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		name += "@" + host
	}
	return name
}

// action is what a person can do to things of a list.
type action struct {
	name, past string
	short      string
	// states in which it is possible. One of them is asked for where things are chosen by filters.
	states []string
}

// changeCommand does something to things that are named, or to all that filters choose.
func (l *lister[T]) changeCommand(a *app, act action) *cobra.Command {
	var w who
	var yes bool
	var chosen selection
	c := &cobra.Command{
		Use:   act.name + " ID… | --state STATE [filters]",
		Short: act.short,
		Long: fmt.Sprintf(`%s.
Either by their ids, or all that the filters choose, earliest first. For those, --state is one of
%s.
How many they are is told and asked about first; --yes goes on without asking. One that somebody
else has changed meanwhile is left as it is. Ctrl-C stops after the one in hand, and says what was
done.`, act.short, strings.Join(act.states, ", ")),
		RunE: func(c *cobra.Command, args []string) error {
			by, err := w.by(c)
			if err != nil {
				return err
			}
			filter := chosen.filter()
			switch {
			case len(args) > 0 && len(filter) > 0:
				err = errors.New("ids and filters: want one of them")
			case len(args) == 0 && filter["state"] == "":
				err = fmt.Errorf("want ids, or --state and more filters that say which %s",
					l.plural)
			case len(args) == 0 && !slices.Contains(act.states, filter["state"]):
				err = fmt.Errorf("--state %s: %s is possible in %s", filter["state"], act.name,
					strings.Join(act.states, ", "))
			}
			if err != nil {
				return &usageError{err, hint(c)}
			}
			if len(args) > 0 {
				return l.changeNamed(a, act, args, by)
			}
			return l.changeChosen(a, act, filter, by, yes)
		},
	}
	chosen = l.addFilters(a, c)
	w.add(c)
	c.Flags().BoolVar(&yes, "yes", false, "don't ask")
	c.ValidArgsFunction = l.completeIDs(a, act.states)
	return c
}

// changeNamed changes one after the other. The first that goes wrong gives the status; the rest is
// tried all the same, as long as the server answers.
func (l *lister[T]) changeNamed(a *app, act action, ids []string, by wire.Change) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	ctx, stop := signalContext()
	defer stop()
	var first error
	for _, id := range ids {
		state, v, err := l.change(context.WithoutCancel(ctx), c, id, act.name, by)
		switch {
		case err != nil && len(ids) > 1:
			_ = a.errs().Printf("%s: %s", screen.Clean(id), screen.Clean(err.Error()))
			fallthrough
		case err != nil:
			first = cmp.Or(first, err)
		case a.remote.json():
			err = writeLine(a.out(), v)
			if err != nil {
				return err
			}
		default:
			out := a.out()
			err = out.Printf("%s %s: %s, now %s", l.noun, screen.Clean(id), act.past,
				out.Paint(styleOf(state), screen.Clean(state)))
			if err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return errInterrupted
		}
		if s := statusOf(first); first != nil && s != statusNotFound && s != statusRefused {
			break
		}
	}
	if first != nil && len(ids) > 1 { // it was told
		return &statusError{status: statusOf(first)}
	}
	return told(context.Background(), first)
}

// oneChange is a command that changes the thing which its arguments name.
func (a *app) oneChange(use, short, long, what string, add func(*cobra.Command),
	do func(context.Context, *client.Client, string, wire.Change) (json.RawMessage, string, error),
) *cobra.Command {
	var w who
	c := takes(&cobra.Command{Use: use, Short: short, Long: long,
		RunE: func(c *cobra.Command, args []string) error {
			by, err := w.by(c)
			if err != nil {
				return err
			}
			server, err := a.connect()
			if err != nil {
				return err
			}
			v, text, err := do(context.Background(), server, args[0], by)
			switch {
			case err != nil:
				return told(context.Background(), err)
			case a.remote.json():
				return writeLine(a.out(), v)
			}
			return a.out().Printf("%s", screen.Clean(text))
		}}, 1, 1, what)
	w.add(c)
	if add != nil {
		add(c)
	}
	return c
}

// describe says in words what a filter chooses.
func describe(filter map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(filter)) {
		parts = append(parts, name+" "+screen.Clean(filter[name]))
	}
	return strings.Join(parts, ", ")
}
