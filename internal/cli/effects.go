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

func (a *app) effectsCommand() *cobra.Command {
	l := effectLister()
	c := a.addRemote(takes(&cobra.Command{
		Use: "effects", Aliases: []string{"effect"}, GroupID: groupOperator,
		Short: "Look at effects, send them again, say that they happened",
		Long: `Look at effects, send them again, give them up, say that they happened.
` + remoteHelp,
		RunE: help,
	}, 0, 0, ""))
	c.AddCommand(
		l.listCommand(a, `List effects, latest first. Filters can be combined.
In a pipe nothing is cut and times are RFC 3339.`),
		a.showEffectCommand(l),
		l.tailCommand(a),
		l.changeCommand(a, action{name: "retry", past: "retried",
			short:  "Send effects again that are dead or held",
			states: names(queue.Dead, queue.Held)}),
		l.changeCommand(a, action{name: "discard", past: "discarded",
			short:  "Give up effects that are not finished and not being sent",
			states: names(queue.Pending, queue.Dead, queue.Held, queue.Expired)}),
		l.changeCommand(a, action{name: "done", past: "said to have happened",
			short:  "Say that effects happened which are held, dead or expired",
			states: names(queue.Held, queue.Dead, queue.Expired)}))
	return c
}

func effectLister() *lister[wire.Effect] {
	return &lister[wire.Effect]{
		noun: "effect", plural: "effects",
		filters: []filter{
			{"destination", "to this `DESTINATION`", destinationNames},
			{"state", "in this `STATE`: " +
				strings.Join(names(queue.States(queue.Effect)...), ", "),
				fixed(names(queue.States(queue.Effect)...)...)},
			{"name", "with this `NAME`", nil},
			{"task", "of this `TASK`", nil},
		},
		fetch: func(ctx context.Context, c *client.Client, q client.Query) (
			client.Page[wire.Effect], error) {
			return c.Effects(ctx, q)
		},
		columns: []screen.Column{{Title: "CREATED"}, {Title: "ID"},
			{Title: "DESTINATION", Min: 6, Drop: 3}, {Title: "NAME", Min: 8},
			{Title: "TASK", Min: 8}, {Title: "RESOURCE", Min: 8, Drop: 6}, {Title: "STATE"},
			{Title: "TRIES", Right: true, Drop: 5}, {Title: "ERROR", Min: 12, Want: 40, Drop: 1}},
		row: func(s *screen.Screen, e *wire.Effect) []screen.Cell {
			return []screen.Cell{
				{Text: s.Time(e.CreatedAt.Time()), Style: screen.Dim}, {Text: e.ID},
				{Text: e.Destination}, {Text: e.Name}, {Text: e.Task}, {Text: e.Resource},
				{Text: e.State, Style: styleOf(e.State)}, {Text: strconv.Itoa(e.Attempt)},
				{Text: e.Error},
			}
		},
		id:      func(e *wire.Effect) string { return e.ID },
		since:   func(e *wire.Effect) time.Time { return e.CreatedAt.Time() },
		sign:    func(e *wire.Effect) string { return fmt.Sprint(e.State, e.Attempt) },
		counter: "destination",
		count: func(n *wire.Counts) (out []counted) {
			for _, e := range n.Effects {
				out = append(out, counted{e.Destination, e.State, e.N})
			}
			return out
		},
		state: func(ctx context.Context, c *client.Client, id string) (string, error) {
			d, err := c.Effect(ctx, id)
			return d.Value.State, err
		},
		change: func(ctx context.Context, c *client.Client, id, action string, by wire.Change) (
			string, json.RawMessage, error) {
			d, err := c.ChangeEffect(ctx, id, action, by)
			return d.Value.State, d.JSON, err
		},
	}
}
