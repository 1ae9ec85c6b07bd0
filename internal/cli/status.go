package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncekit/once"
	"github.com/oncekit/once/internal/client"
	"github.com/oncekit/once/internal/screen"
	"github.com/oncekit/once/internal/wire"
	"github.com/oncekit/once/queue"
)

func (a *app) statusCommand() *cobra.Command {
	return a.addRemote(takes(&cobra.Command{
		Use: "status", GroupID: groupOperator,
		Short: "See at a glance how a server stands",
		Long: `See at a glance how a server stands: whether its store can be written, what is in
which state, what waits and why. Status 0 if the store can be written, 5 if not.
` + remoteHelp,
		RunE: func(*cobra.Command, []string) error { return a.status() },
	}, 0, 0, ""))
}

// overview is what the status command tells; its JSON is that of --output json.
type overview struct {
	Server       string            `json:"server"`
	Version      string            `json:"version"`
	Ready        bool              `json:"ready"`
	Reason       string            `json:"reason"`
	Counts       json.RawMessage   `json:"counts"`
	Sources      []json.RawMessage `json:"sources"`
	Destinations []json.RawMessage `json:"destinations"`

	counts       wire.Counts
	sources      []wire.Source
	destinations []wire.Destination
}

func (a *app) status() error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	ctx, stop := signalContext()
	defer stop()
	o, err := look(ctx, c)
	if err != nil {
		return told(ctx, err)
	}
	if a.remote.json() {
		err = writeJSON(a.out(), o)
	} else {
		err = o.show(&sheet{s: a.out()})
	}
	if err == nil && !o.Ready {
		err = &statusError{status: statusAway}
	}
	return err
}

// look asks for everything. A store that can't be written is no error: it is what is told.
func look(ctx context.Context, c *client.Client) (*overview, error) {
	o := &overview{Server: c.URL()}
	index, err := c.Index(ctx)
	if err != nil {
		return nil, err
	}
	o.Version = index.Version
	var p *wire.Problem
	switch err := c.Ready(ctx); {
	case err == nil:
		o.Ready = true
	case errors.As(err, &p) && p.Status == http.StatusServiceUnavailable:
		o.Reason = p.Detail
	default:
		return nil, err
	}
	counts, err := c.Counts(ctx)
	if err != nil {
		return nil, err
	}
	o.Counts, o.counts = counts.JSON, counts.Value
	sources, err := c.Sources(ctx)
	if err != nil {
		return nil, err
	}
	o.Sources, o.sources = split(sources)
	destinations, err := c.Destinations(ctx)
	if err != nil {
		return nil, err
	}
	o.Destinations, o.destinations = split(destinations)
	return o, nil
}

func split[T any](p client.Page[T]) (raw []json.RawMessage, values []T) {
	raw = []json.RawMessage{}
	for _, item := range p.Items {
		raw, values = append(raw, item.JSON), append(values, item.Value)
	}
	return raw, values
}

func (o *overview) show(s *sheet) error {
	ready, style := "ready", screen.Good
	if !o.Ready {
		ready, style = "NOT READY", screen.Bad
	}
	s.head("once "+o.Version+" at "+o.Server, ready, style, o.Reason)
	var names []string
	for _, src := range o.sources {
		names = append(names, src.Name)
	}
	s.matrix("CALLBACKS", names, queue.States(queue.Callback), callbackLister().count(&o.counts))
	names = nil
	for _, d := range o.destinations {
		names = append(names, d.Name)
	}
	s.matrix("EFFECTS", names, queue.States(queue.Effect), effectLister().count(&o.counts))
	o.tasks(s)
	o.records(s)
	o.waiting(s)
	return s.flush()
}

// matrix shows numbers: a row for each source or destination, a column for each state that occurs.
func (s *sheet) matrix(title string, names []string, states []queue.State, counts []counted) {
	n := map[counted]int64{}
	has := map[string]bool{string(queue.Pending): true, string(queue.Done): true,
		string(queue.Dead): true}
	for _, c := range counts {
		n[counted{of: c.of, state: c.state}] += c.n
		has[c.state] = true
		if !slices.Contains(names, c.of) {
			names = append(names, c.of) // no longer in the configuration
		}
	}
	if len(names) == 0 {
		return
	}
	cols := []screen.Column{{Title: title, Min: 8}}
	for _, state := range states {
		if has[string(state)] {
			cols = append(cols, screen.Column{Title: string(state), Right: true})
		}
	}
	s.table(func(t *screen.Table) {
		for _, name := range names {
			row := []screen.Cell{{Text: name}}
			for _, col := range cols[1:] {
				v := n[counted{of: name, state: col.Title}]
				cell := screen.Cell{Text: strconv.FormatInt(v, 10), Style: screen.Dim}
				if v > 0 {
					cell.Style = styleOf(col.Title)
				}
				row = append(row, cell)
			}
			t.Row(row...)
		}
	}, cols...)
	s.b.WriteString("\n")
}

func (o *overview) tasks(s *sheet) {
	if len(o.counts.Tasks) == 0 {
		return
	}
	s.table(func(t *screen.Table) {
		for _, c := range o.counts.Tasks {
			t.Row(screen.Cell{Text: c.Flow}, screen.Cell{Text: c.State},
				screen.Cell{Text: strconv.FormatInt(c.N, 10)})
		}
	}, screen.Column{Title: "TASKS", Min: 8}, screen.Column{Title: "STATE", Min: 8},
		screen.Column{Title: "N", Right: true})
	s.b.WriteString("\n")
}

// records shows how many requests of a gateway are remembered, those that need a person first.
func (o *overview) records(s *sheet) {
	if len(o.counts.Records) == 0 {
		return
	}
	s.table(func(t *screen.Table) {
		for _, c := range o.counts.Records {
			t.Row(screen.Cell{Text: c.State, Style: recordStyle(c.State)},
				screen.Cell{Text: strconv.FormatInt(c.N, 10)})
		}
	}, screen.Column{Title: "RECORDS", Min: 8}, screen.Column{Title: "N", Right: true})
	s.b.WriteString("\n")
}

// waiting says who keeps callbacks or effects waiting, and what needs a person.
func (o *overview) waiting(s *sheet) {
	for _, src := range o.sources {
		if !src.Open {
			s.wait("source "+src.Name, "callbacks wait", src.Reason, src.PausedSince)
		}
	}
	for _, d := range o.destinations {
		if !d.Open {
			s.wait("destination "+d.Name, "effects wait", d.Reason, d.PausedSince)
		}
	}
	var records []counted
	for _, c := range o.counts.Records {
		records = append(records, counted{state: c.State, n: c.N})
	}
	s.needs("records", string(once.Held), records)
	for _, kind := range []struct {
		plural string
		counts []counted
	}{{"callbacks", callbackLister().count(&o.counts)},
		{"effects", effectLister().count(&o.counts)}} {
		for _, state := range []queue.State{queue.Dead, queue.Held, queue.Unrouted} {
			s.needs(kind.plural, string(state), kind.counts)
		}
	}
}

// needs says how many things wait for a person.
func (s *sheet) needs(plural, state string, counts []counted) {
	var n int64
	for _, c := range counts {
		if c.state == state {
			n += c.n
		}
	}
	what, verb := plural, "need"
	if n == 1 {
		what, verb = strings.TrimSuffix(plural, "s"), "needs"
	}
	if n > 0 {
		fmt.Fprintf(&s.b, "%s %s a person: once %s list --state %s\n",
			s.s.Paint(styleOf(state), fmt.Sprintf("%d %s %s", n, state, what)), verb, plural,
			state)
	}
}

func (s *sheet) wait(who, what, reason string, since *wire.Instant) {
	word := "is away"
	if since != nil {
		word = "is paused since " + s.s.TimeAge(since.Time())
	}
	fmt.Fprintf(&s.b, "%s %s, %s: %s\n", screen.Clean(who), s.s.Paint(screen.Bad, word), what,
		screen.Clean(cmp.Or(reason, "no reason is known")))
}
