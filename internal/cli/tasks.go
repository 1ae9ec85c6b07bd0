package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncekit/once/internal/client"
	"github.com/oncekit/once/internal/screen"
	"github.com/oncekit/once/internal/wire"
)

func (a *app) tasksCommand() *cobra.Command {
	l := taskLister()
	c := a.addRemote(takes(&cobra.Command{
		Use: "tasks", Aliases: []string{"task"}, GroupID: groupOperator,
		Short: "Look at the tasks of flows, put one into another state",
		Long: `Look at the tasks of flows, put one into another state. A task is named FLOW/TASK.
` + remoteHelp,
		RunE: help,
	}, 0, 0, ""))
	c.AddCommand(
		l.listCommand(a, `List tasks, those that were created last first. What was swept but for a
tombstone is not listed.`),
		a.showTaskCommand(), a.moveCommand())
	return c
}

func taskLister() *lister[wire.ListedTask] {
	return &lister[wire.ListedTask]{
		noun: "task", plural: "tasks",
		filters: []filter{{"flow", "of this `FLOW`", flowNames}, {"state", "in this `STATE`",
			taskStates}},
		fetch: func(ctx context.Context, c *client.Client, q client.Query) (
			client.Page[wire.ListedTask], error) {
			return c.Tasks(ctx, q)
		},
		columns: []screen.Column{{Title: "TASK", Min: 12}, {Title: "STATE", Min: 8},
			{Title: "SINCE"}, {Title: "CREATED", Drop: 2}, {Title: "OVERDUE", Drop: 1},
			{Title: "CHANGES", Right: true, Drop: 3}},
		row: func(s *screen.Screen, t *wire.ListedTask) []screen.Cell {
			style := screen.Plain
			if t.Final {
				style = screen.Good
			}
			return []screen.Cell{
				{Text: t.Flow + "/" + t.ID}, {Text: t.State, Style: style},
				{Text: s.TimeAge(t.SinceAt.Time())}, {Text: s.Time(t.CreatedAt.Time())},
				{Text: s.TimeAge(t.OverdueAt.Time()), Style: screen.Warn},
				{Text: strconv.FormatInt(t.Version, 10)},
			}
		},
	}
}

// pair takes a name such as FLOW/TASK or KIND/NAME apart. The second part may hold slashes.
func pair(text, what string) (first, second string, err error) {
	first, second, found := strings.Cut(text, "/")
	if !found || first == "" || second == "" {
		return "", "", &usageError{err: fmt.Errorf("%q: want %s", text, what)}
	}
	return first, second, nil
}

func (a *app) moveCommand() *cobra.Command {
	var to string
	c := a.oneChange("move FLOW/TASK --to STATE", "Put a task into another state",
		`Put a task into another state. Its fields stay as they are; a final state frees what
the task owns. Parked callbacks of the task are looked at again.`, "FLOW/TASK",
		func(c *cobra.Command) {
			c.Flags().StringVar(&to, "to", "", "the new `STATE` (required)")
			a.complete(c, "to", taskStates)
		},
		func(ctx context.Context, c *client.Client, name string, by wire.Change) (json.RawMessage,
			string, error) {
			if to == "" {
				return nil, "", &usageError{err: errors.New("move: --to is missing")}
			}
			flow, id, err := pair(name, "FLOW/TASK")
			if err != nil {
				return nil, "", err
			}
			t, err := c.Move(ctx, flow, id, wire.MoveChange{Change: by, To: to})
			return t.JSON, fmt.Sprintf("task %s/%s is %s", t.Value.Flow, t.Value.ID,
				t.Value.State), err
		})
	c.ValidArgsFunction = cobra.NoFileCompletions
	return c
}

func (a *app) resourcesCommand() *cobra.Command {
	l := resourceLister()
	c := a.addRemote(takes(&cobra.Command{
		Use: "resources", Aliases: []string{"resource"}, GroupID: groupOperator,
		Short: "Look at resources, free one, give one to another task",
		Long: `Look at resources, free one, give one to another task. A resource is named KIND/NAME,
its owner FLOW/TASK.
` + remoteHelp,
		RunE: help,
	}, 0, 0, ""))
	var from string
	guard := func(c *cobra.Command) {
		c.Flags().StringVar(&from, "from", "", "only if this `FLOW/TASK` has it: else nothing is "+
			"done, with status 4")
	}
	release := a.oneChange("release KIND/NAME", "Free a resource, as its owner would",
		`Free a resource, as its owner would, with the effects of on_release. A second release of
one that is still being freed says that those happened. Who waits for it has it at once: with
--from the next owner does not lose it to a command that comes too late.`, "KIND/NAME", guard,
		func(ctx context.Context, c *client.Client, name string, by wire.Change) (json.RawMessage,
			string, error) {
			kind, name, err := pair(name, "KIND/NAME")
			if err != nil {
				return nil, "", err
			}
			ch := wire.ReleaseChange{Change: by}
			if ch.From, err = ownerOf(from); err != nil {
				return nil, "", err
			}
			r, err := c.Release(ctx, kind, name, ch)
			return r.JSON, "resource " + kind + "/" + name + " is " + owned(&r.Value), err
		})
	var to string
	transfer := a.oneChange("transfer KIND/NAME --to FLOW/TASK",
		"Make another task the owner of a resource",
		`Make another task the owner of a resource, with a new fence and without effects.`,
		"KIND/NAME",
		func(c *cobra.Command) {
			c.Flags().StringVar(&to, "to", "", "the new owner, `FLOW/TASK` (required)")
			guard(c)
		},
		func(ctx context.Context, c *client.Client, name string, by wire.Change) (json.RawMessage,
			string, error) {
			if to == "" {
				return nil, "", &usageError{err: errors.New("transfer: --to is missing")}
			}
			kind, name, err := pair(name, "KIND/NAME")
			if err != nil {
				return nil, "", err
			}
			ch := wire.TransferChange{Change: by}
			if ch.To, err = ownerOf(to); err != nil {
				return nil, "", err
			}
			if ch.From, err = ownerOf(from); err != nil {
				return nil, "", err
			}
			r, err := c.Transfer(ctx, kind, name, ch)
			return r.JSON, "resource " + kind + "/" + name + " is " + owned(&r.Value), err
		})
	release.ValidArgsFunction, transfer.ValidArgsFunction = a.resourceNames, a.resourceNames
	c.AddCommand(l.listCommand(a, `List resources by kind and name.`), release, transfer)
	return c
}

// ownerOf reads FLOW/TASK; nil for the empty text.
func ownerOf(text string) (*wire.Owner, error) {
	if text == "" {
		return nil, nil
	}
	flow, task, err := pair(text, "FLOW/TASK")
	if err != nil {
		return nil, err
	}
	return &wire.Owner{Flow: flow, Task: task}, nil
}

// owned says who has a resource.
func owned(r *wire.Resource) string {
	switch {
	case r.Owner == nil:
		return "free"
	case r.Freeing > 0:
		return fmt.Sprintf("being freed by %s/%s: %s to be acknowledged", r.Owner.Flow,
			r.Owner.Task, plural(r.Freeing, "effect"))
	}
	return fmt.Sprintf("owned by %s/%s", r.Owner.Flow, r.Owner.Task)
}

func resourceLister() *lister[wire.ListedResource] {
	return &lister[wire.ListedResource]{
		noun: "resource", plural: "resources",
		filters: []filter{{"kind", "of this `KIND`", nil}},
		fetch: func(ctx context.Context, c *client.Client, q client.Query) (
			client.Page[wire.ListedResource], error) {
			return c.Resources(ctx, q)
		},
		columns: []screen.Column{{Title: "RESOURCE", Min: 12}, {Title: "STATE"},
			{Title: "OWNER", Min: 12}, {Title: "SINCE"}, {Title: "FENCE", Right: true, Drop: 1},
			{Title: "WAITING", Right: true}},
		row: func(s *screen.Screen, r *wire.ListedResource) []screen.Cell {
			state, style, owner := "free", screen.Good, ""
			if r.Owner != nil {
				state, style, owner = "owned", screen.Plain, r.Owner.Flow+"/"+r.Owner.Task
			}
			if r.Freeing > 0 {
				state, style = "freeing", screen.Warn
			}
			return []screen.Cell{{Text: r.Kind + "/" + r.Name}, {Text: state, Style: style},
				{Text: owner}, {Text: s.TimeAge(r.Since.Time())},
				{Text: strconv.FormatInt(r.Fence, 10)},
				{Text: count(int64(r.Waiting)), Style: screen.Warn}}
		},
	}
}
