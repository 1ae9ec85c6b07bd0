package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncekit/once/internal/client"
	"github.com/oncekit/once/internal/screen"
	"github.com/oncekit/once/internal/wire"
)

func (a *app) showTaskCommand() *cobra.Command {
	return showCommand(a, "Show a task with its history",
		`Show a task: its fields, the events that are legal now, and how it came here.`,
		"FLOW/TASK",
		func(ctx context.Context, c *client.Client, name string) (client.Item[wire.Task], error) {
			flow, id, err := pair(name, "FLOW/TASK")
			if err != nil {
				return client.Item[wire.Task]{}, err
			}
			return c.Task(ctx, flow, id)
		}, showTask, nil)
}

func showTask(s *sheet, t *wire.Task) {
	state, style := t.State, screen.Bold
	if t.Final {
		state, style = state+" (final)", screen.Good
	}
	reason := ""
	if t.Gone {
		reason = "swept: only its last state is left"
	}
	s.head("task "+t.Flow+"/"+t.ID, state, style, reason)
	s.when("since", t.SinceAt.Time())
	s.when("created", t.CreatedAt.Time())
	s.when("changed", t.UpdatedAt.Time())
	s.when("overdue", t.OverdueAt.Time())
	s.field("legal now", strings.Join(t.Next, ", "))
	if fields := indented(t.Fields); fields != "{}" {
		s.title("fields")
		s.text(fields)
	}
	if len(t.History) == 0 {
		return
	}
	s.title("history")
	s.table(func(table *screen.Table) {
		for i := range t.History {
			h := &t.History[i]
			note := h.Note
			if h.Actor != "" {
				note = strings.TrimPrefix(fmt.Sprintf("%s; %s: %s", note, h.Actor, h.Reason), "; ")
			}
			table.Row(screen.Cell{Text: strconv.FormatInt(h.Version, 10)},
				screen.Cell{Text: s.s.Time(h.At.Time())}, screen.Cell{Text: h.Event},
				screen.Cell{Text: h.From}, screen.Cell{Text: h.To, Style: screen.Bold},
				screen.Cell{Text: note}, screen.Cell{Text: h.Callback})
		}
	}, screen.Column{Title: "N", Right: true}, screen.Column{Title: "AT"},
		screen.Column{Title: "EVENT", Min: 8}, screen.Column{Title: "FROM", Min: 6},
		screen.Column{Title: "TO", Min: 6}, screen.Column{Title: "NOTE", Min: 10},
		screen.Column{Title: "CALLBACK", Drop: 1})
}

// indented shows a JSON value by its structure.
func indented(v json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, v, "", "  "); err != nil {
		return string(v)
	}
	return b.String()
}
