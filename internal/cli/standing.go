package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncekit/once/internal/client"
	"github.com/oncekit/once/internal/screen"
	"github.com/oncekit/once/internal/wire"
	"github.com/oncekit/once/queue"
)

func (a *app) rejectedCommand() *cobra.Command {
	l := rejectedLister()
	c := a.addRemote(takes(&cobra.Command{
		Use: "rejected", GroupID: groupOperator,
		Short: "Look at messages that became no callback",
		Long: `Look at messages that became no callback: invalid ones, and those whose sender did
not prove who it is. The latest of each source are kept.
` + remoteHelp,
		RunE: help,
	}, 0, 0, ""))
	show := showCommand(a, "Show a refused message",
		"Show a refused message: why, its request and its body. Only the latest 1000 are found.",
		"ID",
		func(ctx context.Context, c *client.Client, id string) (client.Item[wire.Rejected], error) {
			return findRejected(ctx, c, id)
		}, showRejected, func(r *wire.Rejected) *wire.Payload { return &r.Payload })
	c.AddCommand(l.listCommand(a,
		"List the latest messages that became no callback, latest first."), show)
	return c
}

func rejectedLister() *lister[wire.Rejected] {
	return &lister[wire.Rejected]{
		noun: "refused message", plural: "refused messages",
		filters: []filter{{"source", "of this `SOURCE`", sourceNames}},
		fetch: func(ctx context.Context, c *client.Client, q client.Query) (
			client.Page[wire.Rejected], error) {
			return c.Rejected(ctx, q)
		},
		columns: []screen.Column{{Title: "AT"}, {Title: "ID", Right: true},
			{Title: "SOURCE", Min: 6}, {Title: "OUTCOME"}, {Title: "FROM", Drop: 1},
			{Title: "BYTES", Right: true, Drop: 2},
			{Title: "REASON", Min: 16}},
		row: func(s *screen.Screen, r *wire.Rejected) []screen.Cell {
			reason := r.Reason
			if r.Source == "" { // which path it was is the whole question
				reason += ": " + r.Request.Path
			}
			return []screen.Cell{
				{Text: s.Time(r.At.Time()), Style: screen.Dim},
				{Text: strconv.FormatInt(r.ID, 10)}, {Text: r.Source},
				{Text: r.Outcome, Style: screen.Warn}, {Text: r.Peer},
				{Text: strconv.FormatInt(r.Size, 10)}, {Text: reason},
			}
		},
	}
}

// findRejected looks among all that the API lists: it has no address for one of them.
func findRejected(ctx context.Context, c *client.Client, id string) (client.Item[wire.Rejected],
	error) {
	page, err := c.Rejected(ctx, client.Query{Limit: client.MaxLimit})
	if err != nil {
		return client.Item[wire.Rejected]{}, err
	}
	for _, item := range page.Items {
		if strconv.FormatInt(item.Value.ID, 10) == id {
			return item, nil
		}
	}
	return client.Item[wire.Rejected]{}, &statusError{statusNotFound,
		fmt.Errorf("refused message %q is not among the latest %d", id, client.MaxLimit)}
}

func showRejected(s *sheet, r *wire.Rejected) {
	s.head(fmt.Sprint("refused message ", r.ID), r.Outcome, screen.Warn, r.Reason)
	s.field("source", r.Source)
	s.when("at", r.At.Time())
	s.field("from", r.Peer)
	showRequest(s, &r.Request, r.Headers, nil)
	s.body("body", &r.Payload)
	if b, ok := r.Payload.Bytes(); ok && int64(len(b)) < r.Size {
		s.text(fmt.Sprintf("… cut: %d bytes were read", r.Size))
	}
}

func (a *app) destinationsCommand() *cobra.Command {
	l := &lister[wire.Destination]{
		noun: "destination", plural: "destinations",
		fetch: func(ctx context.Context, c *client.Client, _ client.Query) (
			client.Page[wire.Destination], error) {
			return c.Destinations(ctx)
		},
		columns: []screen.Column{{Title: "NAME"}, {Title: "KIND"}, {Title: "STATE"},
			{Title: "PAUSED SINCE", Drop: 1}, {Title: "REASON", Min: 16}},
		row: func(s *screen.Screen, d *wire.Destination) []screen.Cell {
			return []screen.Cell{{Text: d.Name}, {Text: d.Kind}, standing(d.Open, d.PausedSince),
				{Text: s.TimeAge(d.PausedSince.Time())}, {Text: d.Reason}}
		},
	}
	c := a.addRemote(takes(&cobra.Command{
		Use: "destinations", Aliases: []string{"destination"}, GroupID: groupOperator,
		Short: "See how destinations stand, and why effects wait",
		Long: `See how destinations stand, and why effects wait.
` + remoteHelp,
		RunE: help,
	}, 0, 0, ""))
	c.AddCommand(l.listCommand(a, "List the destinations, in the order of the configuration."))
	return c
}

func (a *app) sourcesCommand() *cobra.Command {
	l := &lister[wire.Source]{
		noun: "source", plural: "sources",
		fetch: func(ctx context.Context, c *client.Client, _ client.Query) (
			client.Page[wire.Source], error) {
			return c.Sources(ctx)
		},
		columns: []screen.Column{{Title: "NAME"}, {Title: "TO"}, {Title: "STATE"},
			{Title: "PAUSED SINCE", Drop: 1}, {Title: "REASON", Min: 16}},
		row: func(s *screen.Screen, d *wire.Source) []screen.Cell {
			return []screen.Cell{{Text: d.Name}, {Text: d.To}, standing(d.Open, d.PausedSince),
				{Text: s.TimeAge(d.PausedSince.Time())}, {Text: d.Reason}}
		},
	}
	c := a.addRemote(takes(&cobra.Command{
		Use: "sources", Aliases: []string{"source"}, GroupID: groupOperator,
		Short: "See how sources stand, and why their callbacks wait",
		Long: `See how sources stand, and why their callbacks wait.
` + remoteHelp,
		RunE: help,
	}, 0, 0, ""))
	c.AddCommand(l.listCommand(a, "List the sources, in the order of the configuration."))
	return c
}

func (a *app) nodesCommand() *cobra.Command {
	l := &lister[wire.Node]{
		noun: "node", plural: "nodes",
		fetch: func(ctx context.Context, c *client.Client, _ client.Query) (
			client.Page[wire.Node], error) {
			return c.Nodes(ctx)
		},
		columns: []screen.Column{{Title: "NAME"}, {Title: "STATE"}, {Title: "STARTED", Drop: 1},
			{Title: "SEEN"}, {Title: "WORKS ON", Min: 16}},
		row: func(s *screen.Screen, n *wire.Node) []screen.Cell {
			return []screen.Cell{{Text: n.Name}, nodeState(n.State),
				{Text: s.TimeAge(n.StartedAt.Time())}, {Text: s.TimeAge(n.SeenAt.Time())},
				{Text: inHands(n)}}
		},
	}
	c := a.addRemote(takes(&cobra.Command{
		Use: "nodes", Aliases: []string{"node"}, GroupID: groupOperator,
		Short: "See which processes serve the store, and what each works on",
		Long: `See which processes serve the store, and what each works on.

A silent one has given no sign of life for a while: it may be frozen or cut off. The others take
back what it has in its hands.
` + remoteHelp,
		RunE: help,
	}, 0, 0, ""))
	c.AddCommand(l.listCommand(a, "List the processes that serve the store, the eldest first."))
	return c
}

func nodeState(state string) screen.Cell {
	switch queue.NodeState(state) {
	case queue.NodeAlive:
		return screen.Cell{Text: state, Style: screen.Good}
	case queue.NodeSilent:
		return screen.Cell{Text: state, Style: screen.Bad}
	}
	return screen.Cell{Text: state}
}

// inHands says what a node works on: the longest first.
func inHands(n *wire.Node) string {
	var list []string
	for _, w := range n.Works {
		text := w.Kind + " " + w.Source + "/" + w.Event
		if w.Task != "" {
			text += " of " + w.Task
		}
		list = append(list, text)
	}
	if n.More {
		list = append(list, "…")
	}
	return strings.Join(list, ", ")
}

// standing says in a word how a source or destination stands.
func standing(open bool, since *wire.Instant) screen.Cell {
	switch {
	case open:
		return screen.Cell{Text: "open", Style: screen.Good}
	case since != nil:
		return screen.Cell{Text: "paused", Style: screen.Bad}
	}
	return screen.Cell{Text: "away", Style: screen.Bad}
}
