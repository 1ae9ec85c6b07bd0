package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncekit/once/internal/client"
	"github.com/oncekit/once/internal/screen"
	"github.com/oncekit/once/internal/wire"
	"github.com/oncekit/once/queue"
)

func (a *app) callbacksCommand() *cobra.Command {
	l := callbackLister()
	c := a.addRemote(takes(&cobra.Command{
		Use: "callbacks", Aliases: []string{"callback"}, GroupID: groupOperator,
		Short: "Look at callbacks, retry them, give them up",
		Long: `Look at callbacks, retry them, give them up.
` + remoteHelp,
		RunE: help,
	}, 0, 0, ""))
	c.AddCommand(
		l.listCommand(a, `List callbacks, latest first. Filters can be combined.
--key finds any part of a key. In a pipe nothing is cut and times are RFC 3339.`),
		a.showCallbackCommand(l),
		l.tailCommand(a),
		l.changeCommand(a, retryCallbacks()),
		l.changeCommand(a, discardCallbacks()),
		a.acceptCommand(l))
	return c
}

func retryCallbacks() action {
	return action{name: "retry", past: "retried",
		short:  "Make callbacks due again that are parked, unrouted, dead or held",
		states: names(queue.Parked, queue.Unrouted, queue.Dead, queue.Held)}
}

func discardCallbacks() action {
	return action{name: "discard", past: "discarded",
		short:  "Give up callbacks that are not finished and not being worked",
		states: names(queue.Pending, queue.Parked, queue.Unrouted, queue.Dead, queue.Held)}
}

func names(states ...queue.State) (out []string) {
	for _, s := range states {
		out = append(out, string(s))
	}
	return out
}

func callbackLister() *lister[wire.Callback] {
	return &lister[wire.Callback]{
		noun: "callback", plural: "callbacks",
		filters: []filter{
			{"source", "from this `SOURCE`", sourceNames},
			{"state", "in this `STATE`: " + strings.Join(names(queue.States(queue.Callback)...),
				", "), fixed(names(queue.States(queue.Callback)...)...)},
			{"event", "with this `EVENT`", nil},
			{"task", "of this `TASK`", nil},
			{"key", "with this `TEXT` as any part of the key", nil},
		},
		fetch: func(ctx context.Context, c *client.Client, q client.Query) (
			client.Page[wire.Callback], error) {
			return c.Callbacks(ctx, q)
		},
		columns: []screen.Column{{Title: "RECEIVED"}, {Title: "ID"},
			{Title: "SOURCE", Min: 6, Drop: 4}, {Title: "EVENT", Min: 7}, {Title: "TASK", Min: 8},
			{Title: "KEY", Min: 10, Want: 20, Drop: 6}, {Title: "STATE"},
			{Title: "TRIES", Right: true, Drop: 5}, {Title: "DUPL", Right: true, Drop: 7},
			{Title: "CONFL", Right: true, Drop: 5}, {Title: "ERROR", Min: 12, Want: 40, Drop: 1}},
		row:   callbackRow,
		id:    func(c *wire.Callback) string { return c.ID },
		since: func(c *wire.Callback) time.Time { return c.ReceivedAt.Time() },
		sign: func(c *wire.Callback) string {
			return fmt.Sprint(c.State, c.Attempt, " ", c.Conflicts)
		},
		counter: "source",
		count: func(n *wire.Counts) (out []counted) {
			for _, c := range n.Callbacks {
				out = append(out, counted{c.Source, c.State, c.N})
			}
			return out
		},
		state: func(ctx context.Context, c *client.Client, id string) (string, error) {
			d, err := c.Callback(ctx, id)
			return d.Value.State, err
		},
		change: func(ctx context.Context, c *client.Client, id, action string, by wire.Change) (
			string, json.RawMessage, error) {
			d, err := c.ChangeCallback(ctx, id, action, by)
			return d.Value.State, d.JSON, err
		},
	}
}

func callbackRow(s *screen.Screen, c *wire.Callback) []screen.Cell {
	return []screen.Cell{
		{Text: s.Time(c.ReceivedAt.Time()), Style: screen.Dim}, {Text: c.ID}, {Text: c.Source},
		{Text: c.Event}, {Text: c.Task}, {Text: keyText(c.Key)},
		{Text: c.State, Style: styleOf(c.State)}, {Text: strconv.Itoa(c.Attempt)},
		{Text: count(c.Duplicates)}, {Text: count(c.Conflicts), Style: screen.Warn},
		{Text: c.Error},
	}
}

// keyText writes the parts of a key.
func keyText(parts []string) string { return strings.Join(parts, " · ") }

// count writes a number that is mostly 0, and then nothing.
func count(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// styleOf says how a state looks: what needs a person stands out.
func styleOf(state string) screen.Style {
	switch queue.State(state) {
	case queue.Dead, queue.Held, queue.Expired:
		return screen.Bad
	case queue.Parked, queue.Unrouted, queue.Pending:
		return screen.Warn
	case queue.Done:
		return screen.Good
	case queue.Stale, queue.Discarded:
		return screen.Dim
	}
	return screen.Plain
}

func (a *app) acceptCommand(l *lister[wire.Callback]) *cobra.Command {
	receipt := int64(-1)
	c := a.oneChange("accept ID --receipt N",
		"Make a conflicting arrival of a callback a revision of it",
		`Make a conflicting arrival of a callback a revision of it.
That is worked like a callback of its own. "once callbacks show" lists the receipts with
their number.`, "ID",
		func(c *cobra.Command) {
			c.Flags().Int64Var(&receipt, "receipt", -1, "the `N` of the conflict (required)")
		},
		func(ctx context.Context, c *client.Client, id string, by wire.Change) (json.RawMessage,
			string, error) {
			if receipt < 0 {
				return nil, "", &usageError{err: fmt.Errorf("accept: --receipt is missing")}
			}
			d, err := c.Accept(ctx, id, wire.AcceptChange{Change: by, Receipt: &receipt})
			text := ""
			for _, r := range d.Value.Receipts {
				if r.N == receipt {
					text = fmt.Sprintf("receipt %d of callback %s is the revision %s", r.N, id,
						r.Accepted)
				}
			}
			return d.JSON, text, err
		})
	c.ValidArgsFunction = l.completeIDs(a, nil)
	return c
}
