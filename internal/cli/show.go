package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncekit/once/internal/client"
	"github.com/oncekit/once/internal/screen"
	"github.com/oncekit/once/internal/wire"
	"github.com/oncekit/once/queue"
)

// showCommand shows the one thing that its argument names. fetch reads it; fill shows it; payload
// is its body, nil where it has none.
func showCommand[T any](a *app, short, long, what string,
	fetch func(context.Context, *client.Client, string) (client.Item[T], error),
	fill func(*sheet, *T), payload func(*T) *wire.Payload) *cobra.Command {
	var body bool
	c := takes(&cobra.Command{
		Use: "show " + what, Short: short, Long: long,
		RunE: func(_ *cobra.Command, args []string) error {
			server, err := a.connect()
			if err != nil {
				return err
			}
			ctx, stop := signalContext()
			defer stop()
			item, err := fetch(ctx, server, args[0])
			switch {
			case err != nil:
				return told(ctx, err)
			case body:
				return writeBody(a.out(), payload(&item.Value))
			case a.remote.json():
				return writeLine(a.out(), item.JSON)
			}
			s := &sheet{s: a.out()}
			fill(s, &item.Value)
			return s.flush()
		},
	}, 1, 1, what)
	c.ValidArgsFunction = cobra.NoFileCompletions
	if payload != nil {
		c.Flags().BoolVar(&body, "body", false, "only the body, byte for byte (on a terminal what "+
			"can't be seen is escaped)")
	}
	return c
}

func writeBody(s *screen.Screen, p *wire.Payload) error {
	b, kept := p.Bytes()
	if !kept {
		return &statusError{statusNotFound, errors.New("the body is not kept")}
	}
	if s.Terminal {
		return s.Printf("%s", strings.TrimSuffix(screen.CleanLines(string(b)), "\n"))
	}
	_, err := s.W.Write(b)
	return err
}

func (a *app) showCallbackCommand(l *lister[wire.Callback]) *cobra.Command {
	c := showCommand(a, "Show all that is kept about a callback",
		`Show all that is kept about a callback: why it is in its state, its request and body, each
arrival and how a conflicting one differs from the first, each try, and what people did to it.`,
		"ID", func(ctx context.Context, c *client.Client, id string) (
			client.Item[wire.CallbackDetail], error) {
			return c.Callback(ctx, id)
		}, showCallback, func(c *wire.CallbackDetail) *wire.Payload { return &c.Payload })
	c.ValidArgsFunction = l.completeIDs(a, nil)
	return c
}

func showCallback(s *sheet, c *wire.CallbackDetail) {
	s.head("callback "+c.ID, stateText(c.State, c.DeadCause), styleOf(c.State), c.Error)
	s.field("source", c.Source)
	s.field("event", c.Event)
	s.field("key", keyText(c.Key))
	if c.Flow != "" {
		s.field("task", c.Flow+"/"+c.Task)
	} else {
		s.field("task", c.Task)
	}
	s.when("received", c.ReceivedAt.Time())
	if c.LastArrivalAt != c.ReceivedAt {
		s.when("last arrival", c.LastArrivalAt.Time())
	}
	s.field("repeats", repeats(c))
	s.field("tries", count(int64(c.Attempt)))
	s.when("last try", c.StartedAt.Time())
	s.when("finished", c.FinishedAt.Time())
	next := "next try"
	if c.State == string(queue.Parked) {
		next = "waits until"
	}
	s.when(next, c.NextTryAt.Time())
	s.field("waits for", strings.Join(c.Waits, ", "))
	s.field("revision", revision(c))
	if e := c.Element; e != nil {
		s.field("element", fmt.Sprintf("[%d] of %d in its message", e.Index, e.Of))
	}
	showRequest(s, &c.Request, c.Headers, c.HiddenHeaders)
	s.body("body", &c.Payload)
	showReceipts(s, c)
	s.attempts(c.Attempts)
	s.audit(c.Audit)
	s.advice(adviceFor(c)...)
}

// stateText is the state with the cause of a dead letter.
func stateText(state, cause string) string {
	if cause == "" {
		return state
	}
	return state + ": " + cause
}

func repeats(c *wire.CallbackDetail) string {
	if c.Duplicates == 0 && c.Conflicts == 0 {
		return ""
	}
	return fmt.Sprintf("%d with the same content, %d with other content", c.Duplicates, c.Conflicts)
}

func revision(c *wire.CallbackDetail) string {
	if c.Revision == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %s", c.Revision, c.RevisionOf)
}

func showRequest(s *sheet, r *wire.Request, kept, hidden wire.Headers) {
	if r.Method == "" {
		return
	}
	s.title("request")
	line := r.Method + " " + r.Path
	if r.Query != "" {
		line += "?" + r.Query
	}
	s.text(screen.Clean(line))
	s.text(screen.Clean("to " + r.Host + " from " + r.Peer))
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		for _, v := range kept[name] {
			s.text(screen.Clean(name + ": " + v))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(hidden)) {
		s.text(screen.Clean(name + ": (not kept)"))
	}
}

// showReceipts shows the arrivals, and how each conflict differs from the first content.
func showReceipts(s *sheet, c *wire.CallbackDetail) {
	s.title("receipts")
	s.table(func(t *screen.Table) {
		for i := range c.Receipts {
			r := &c.Receipts[i]
			style := screen.Plain
			if r.Outcome == string(queue.Conflict) {
				style = screen.Warn
			}
			t.Row(screen.Cell{Text: strconv.FormatInt(r.N, 10)},
				screen.Cell{Text: s.s.Time(r.At.Time())},
				screen.Cell{Text: r.Outcome, Style: style}, screen.Cell{Text: r.Peer},
				screen.Cell{Text: r.Accepted})
		}
	}, screen.Column{Title: "N", Right: true}, screen.Column{Title: "AT"},
		screen.Column{Title: "OUTCOME"}, screen.Column{Title: "FROM"},
		screen.Column{Title: "REVISION"})
	first, kept := c.Payload.Bytes()
	for i := range c.Receipts {
		r := &c.Receipts[i]
		later, ok := r.Payload.Bytes()
		switch {
		case r.Outcome != string(queue.Conflict):
		case !ok || !kept:
			s.title(fmt.Sprintf("receipt %d: its content is not kept", r.N))
		default:
			s.title(fmt.Sprintf("receipt %d against the first content", r.N))
			for _, d := range differences(first, later) {
				s.text(screen.Clean(d.String()))
			}
		}
	}
}

// adviceFor are the commands that may help.
func adviceFor(c *wire.CallbackDetail) (lines []string) {
	add := func(action, why string) {
		lines = append(lines,
			fmt.Sprintf("once callbacks %s %s --reason …   %s", action, c.ID, why))
	}
	switch queue.State(c.State) {
	case queue.Dead, queue.Held, queue.Parked, queue.Unrouted:
		if queue.Cause(c.DeadCause) == queue.CauseIllegal && c.Flow != "" {
			lines = append(lines, "once tasks show "+shellQuoted(c.Flow+"/"+c.Task))
		}
		add("retry", "once the cause is mended")
		add("discard", "if it shall not be worked any more")
	}
	for i := range c.Receipts {
		r := &c.Receipts[i]
		if r.Outcome == string(queue.Conflict) && r.Accepted == "" && r.Payload != nil {
			add(fmt.Sprint("accept --receipt ", r.N), "if the later content is the right one")
			break
		}
	}
	return lines
}

func (a *app) showEffectCommand(l *lister[wire.Effect]) *cobra.Command {
	c := showCommand(a, "Show all that is kept about an effect",
		`Show all that is kept about an effect: why it is in its state, where it goes, its body,
each try, and what people did to it.`, "ID",
		func(ctx context.Context, c *client.Client, id string) (client.Item[wire.EffectDetail],
			error) {
			return c.Effect(ctx, id)
		}, showEffect, func(e *wire.EffectDetail) *wire.Payload { return &e.Payload })
	c.ValidArgsFunction = l.completeIDs(a, nil)
	return c
}

func showEffect(s *sheet, e *wire.EffectDetail) {
	s.head("effect "+e.ID, stateText(e.State, e.DeadCause), styleOf(e.State), e.Error)
	s.field("destination", e.Destination)
	s.field("name", e.Name)
	if e.Task != "" {
		s.field("task", e.Flow+"/"+e.Task)
	}
	s.field("resource", e.Resource)
	if e.Frees {
		s.field("frees", "its resource, once it is acknowledged")
	}
	s.field("cause", e.Cause)
	s.when("created", e.CreatedAt.Time())
	s.field("tries", count(int64(e.Attempt)))
	s.when("last try", e.StartedAt.Time())
	s.when("finished", e.FinishedAt.Time())
	s.when("next try", e.NextTryAt.Time())
	s.when("expires", e.ExpiresAt.Time())
	s.title("addressing")
	s.text(indented(e.Addressing))
	s.body("body", &e.Payload)
	s.attempts(e.Attempts)
	s.audit(e.Audit)
	switch queue.State(e.State) {
	case queue.Held, queue.Dead:
		s.advice("once effects retry "+e.ID+" --reason …   once the cause is mended",
			"once effects done "+e.ID+" --reason …    if it happened",
			"once effects discard "+e.ID+" --reason … if it shall not be sent any more")
	}
}
