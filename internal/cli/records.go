package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/oncekit/once/internal/client"
	"github.com/oncekit/once/internal/screen"
	"github.com/oncekit/once/internal/wire"
)

// recordStates are the states that records have.
var recordStates = []string{"in_flight", "completed", "released", "unknown", "held"}

func (a *app) recordsCommand() *cobra.Command {
	l := recordLister()
	c := a.addRemote(takes(&cobra.Command{
		Use: "records", Aliases: []string{"record"}, GroupID: groupOperator,
		Short: "Look at the records of a gateway's requests, decide about held ones",
		Long: `Look at the records of a gateway's requests, free a key, decide about a request of
which nobody knows whether it had its effect.
` + remoteHelp,
		RunE: help,
	}, 0, 0, ""))
	c.AddCommand(
		l.listCommand(a, `List records, in the order of their store. --scope and --key together find
the record of one key; both have to be whole.

LAST is the last request that was worked or got the kept answer. A repeat that was told to wait
doesn't count, and a replay only if it comes 1/32 of the retention after the one that is noted.
KEY is the beginning of the key; of a short one nothing is shown.`),
		a.showRecordCommand(), a.releaseRecordCommand(), a.resolveRecordCommand())
	return c
}

func recordLister() *lister[wire.Record] {
	return &lister[wire.Record]{
		noun: "record", plural: "records",
		filters: []filter{
			{"state", "in this `STATE`: " + strings.Join(recordStates, ", "),
				fixed(recordStates...)},
			{"scope", "of this `SCOPE`: all of its parts, whole, with commas between them", nil},
			{"key", "with this `KEY`, whole, as its request bore it; beside --scope", nil},
		},
		fetch: func(ctx context.Context, c *client.Client, q client.Query) (
			client.Page[wire.Record], error) {
			page, err := c.Records(ctx, q)
			var p *wire.Problem
			if errors.As(err, &p) && strings.HasPrefix(p.Detail, "scope is missing") {
				err = &usageError{err: errors.New("--scope is missing: --key finds the record of " +
					"a key in its scope")}
			}
			return page, err
		},
		none: func(filter map[string]string) string {
			if filter["scope"] == "" {
				return ""
			}
			return "; a scope has to be whole: all of its parts, with commas between them"
		},
		columns: []screen.Column{{Title: "LAST"}, {Title: "STATE"}, {Title: "REQUEST", Min: 8},
			{Title: "SCOPE", Min: 6, Drop: 3}, {Title: "KEY", Min: 4, Drop: 2},
			{Title: "TRIES", Right: true, Drop: 1}, {Title: "ID", Below: true}},
		row: func(s *screen.Screen, r *wire.Record) []screen.Cell {
			return []screen.Cell{
				{Text: s.Time(r.LastAt.Time()), Style: screen.Dim},
				{Text: r.State, Style: recordStyle(r.State)}, {Text: r.Request},
				{Text: strings.Join(r.Scope, ",")}, {Text: keyBegin(r.Key)},
				{Text: strconv.Itoa(r.Attempt)}, {Text: r.ID},
			}
		},
		id:    func(r *wire.Record) string { return r.ID },
		since: func(r *wire.Record) time.Time { return r.LastAt.Time() },
	}
}

// keyBegin shows that what follows of a key is not shown; of a short one nothing is known.
func keyBegin(key string) string {
	if key == "" {
		return ""
	}
	return key + "…"
}

func recordStyle(state string) screen.Style {
	switch state {
	case "held":
		return screen.Bad
	case "unknown":
		return screen.Warn
	case "completed":
		return screen.Good
	}
	return screen.Plain
}

func (a *app) showRecordCommand() *cobra.Command {
	return showCommand(a, "Show a record and the answer that is kept",
		`Show a record: what its state means, what can be done, and the answer that repeats get.`,
		"ID", func(ctx context.Context, c *client.Client, id string) (
			client.Item[wire.RecordDetail], error) {
			return c.Record(ctx, id)
		}, showRecord, func(r *wire.RecordDetail) *wire.Payload {
			if r.Answer == nil {
				return nil
			}
			return &r.Answer.Payload
		})
}

func showRecord(s *sheet, r *wire.RecordDetail) {
	s.head("record "+r.ID, r.State, recordStyle(r.State), r.Means)
	s.field("request", r.Request)
	s.field("scope", strings.Join(r.Scope, ", "))
	s.field("key begins", keyBegin(r.Key))
	s.field("on unknown", r.OnUnknown)
	s.field("attempt", fmt.Sprintf("%d, fence %d", r.Attempt, r.Fence))
	s.when("claimed", r.ClaimedAt.Time())
	s.when("finished", r.FinishedAt.Time())
	s.when("last noted", r.LastAt.Time())
	if r.State == "in_flight" {
		s.when("lease ends", r.LeaseEnd.Time())
	}
	s.when("forgotten", r.ExpiresAt.Time())
	if r.State == "held" || r.State == "unknown" {
		fence := fmt.Sprintf(" --fence %d --reason …", r.Fence)
		s.advice("once records resolve "+r.ID+" --run-again"+fence+"   if it did not happen",
			"once records resolve "+r.ID+" --status STATUS --body @FILE"+fence+"   if it did")
	}
	if r.Answer == nil {
		return
	}
	s.title("answer")
	s.field("status", strconv.Itoa(r.Answer.Status))
	for _, f := range r.Answer.Header {
		s.field(f.Name, f.Value)
	}
	if body, kept := r.Answer.Bytes(); kept && len(body) > 0 {
		s.text(string(body))
	}
}

// fenceFlag guards a change against what happened since the record was looked at.
type fenceFlag struct{ n int64 }

func (f *fenceFlag) add(c *cobra.Command) {
	c.Flags().Int64Var(&f.n, "fence", 0, "only if the record has this fence `N`: else nothing is "+
		"done, with status 4")
}

func (f *fenceFlag) value() *int64 {
	if f.n == 0 {
		return nil
	}
	return &f.n
}

// releaseFlags are what a person says to free a key.
type releaseFlags struct {
	fenceFlag
	yes bool
}

func (f *releaseFlags) add(c *cobra.Command) {
	f.fenceFlag.add(c)
	c.Flags().BoolVar(&f.yes, "yes", false, "don't ask about a completed request")
}

func (a *app) releaseRecordCommand() *cobra.Command {
	var f releaseFlags
	return a.oneChange("release ID", "Free a key: the next request runs again",
		`Free a key: the next request with it runs again.

For a held request it says: this did not happen. A completed one did happen: its answer is
forgotten, and the next repeat does the work a SECOND time, such as charging a card again. That is
asked about first; --yes goes on without asking.`, "ID", f.add,
		func(ctx context.Context, c *client.Client, id string, by wire.Change) (json.RawMessage,
			string, error) {
			done, err := a.mayRelease(ctx, c, id, &f)
			if err != nil {
				return nil, "", err
			}
			r, err := c.ReleaseRecord(ctx, id, wire.RecordChange{Change: by, Fence: f.value()})
			text := "record " + id + ": now " + r.Value.State + "; the next request runs"
			if done {
				text += " a second time"
			}
			return r.JSON, text, err
		})
}

// mayRelease looks at a record and asks about one whose work is done, or may be done by now. What
// was looked at is what is released then.
func (a *app) mayRelease(ctx context.Context, c *client.Client, id string, f *releaseFlags) (
	done bool, err error) {
	r, err := c.Record(ctx, id)
	if err != nil {
		return false, err
	}
	if f.n == 0 {
		f.n = r.Value.Fence
	}
	done = r.Value.State == "completed"
	switch {
	case r.Value.State == "in_flight": // it may be completed before the server looks
		return false, &statusError{statusRefused, errors.New("the request runs: nothing was " +
			"changed; look again when it has ended")}
	case f.yes, !done:
		return done, nil
	case !a.canAsk():
		return done, &usageError{err: errors.New("the request is completed: released, it runs " +
			"a second time; nobody can be asked here, and --yes goes on without asking")}
	}
	asking, stop := signalContext()
	defer stop()
	return done, a.ask(asking, screen.Clean(r.Value.Request)+
		" is completed. Released, its next repeat runs a second time. Release it?")
}

// resolveFlags are what a person knows of a lost attempt.
type resolveFlags struct {
	fenceFlag
	runAgain bool
	status   int
	header   []string
	body     string
}

func (f *resolveFlags) add(c *cobra.Command) {
	f.fenceFlag.add(c)
	c.Flags().BoolVar(&f.runAgain, "run-again", false,
		"it did not happen: the next request runs it")
	c.Flags().IntVar(&f.status, "status", 0, "it happened: repeats get this `STATUS`")
	c.Flags().StringArrayVar(&f.header, "header", nil, "repeats get this `FIELD` in the header, "+
		"such as \"Content-Type: application/json\"; may be given again")
	c.Flags().StringVar(&f.body, "body", "", "repeats get this `TEXT` as the body; @FILE: "+
		"what is in FILE")
}

func (a *app) resolveRecordCommand() *cobra.Command {
	var f resolveFlags
	return a.oneChange("resolve ID --run-again | --status STATUS", "Decide about a lost attempt",
		`Decide about a held request, or one of unknown result. Look into the service first: if it
did not happen, --run-again; if it did, --status, --header and --body give the answer that every
repeat gets.`, "ID", f.add,
		func(ctx context.Context, c *client.Client, id string, by wire.Change) (json.RawMessage,
			string, error) {
			ch, err := f.change(by)
			if err != nil {
				return nil, "", err
			}
			r, err := c.ResolveRecord(ctx, id, ch)
			return r.JSON, "record " + id + ": now " + r.Value.State, err
		})
}

// maxAnswerFile bounds a body that is read from a file, in bytes: what a change may hold.
const maxAnswerFile = 40 << 10

func (f *resolveFlags) change(by wire.Change) (wire.ResolveChange, error) {
	ch := wire.ResolveChange{RecordChange: wire.RecordChange{Change: by, Fence: f.value()},
		RunAgain: f.runAgain}
	if f.runAgain == (f.status != 0) || f.runAgain && (f.body != "" || f.header != nil) {
		return ch, &usageError{err: errors.New("resolve: want --run-again, or --status with " +
			"--header and --body")}
	}
	if f.runAgain {
		return ch, nil
	}
	ch.Answer = &wire.ResolveAnswer{Status: f.status, Body: f.body}
	for _, line := range f.header {
		name, value, found := strings.Cut(line, ":")
		if !found {
			return ch, &usageError{err: fmt.Errorf("--header %q: want \"NAME: VALUE\"", line)}
		}
		ch.Answer.Header = append(ch.Answer.Header, wire.HeaderField{Name: strings.TrimSpace(name),
			Value: strings.TrimSpace(value)})
	}
	if name, isFile := strings.CutPrefix(f.body, "@"); isFile {
		b, err := readAnswerFile(name)
		if err != nil {
			return ch, &usageError{err: fmt.Errorf("--body: %w", err)}
		}
		ch.Answer.Body = string(b)
		if !utf8.Valid(b) {
			ch.Answer.Body, ch.Answer.BodyBase64 = "", base64.StdEncoding.EncodeToString(b)
		}
	}
	return ch, nil
}

func readAnswerFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(f, maxAnswerFile+1))
	if err == nil && len(b) > maxAnswerFile {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxAnswerFile)
	}
	return b, err
}
