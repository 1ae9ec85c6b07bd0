package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/oncekit/once/internal/client"
	"github.com/oncekit/once/internal/screen"
	"github.com/oncekit/once/internal/wire"
)

// lister is a kind of thing that the API lists, and how it is shown.
type lister[T any] struct {
	noun, plural string
	filters      []filter
	fetch        func(context.Context, *client.Client, client.Query) (client.Page[T], error)
	columns      []screen.Column
	row          func(*screen.Screen, *T) []screen.Cell
	// none says what may be wrong with filters that match nothing; nil: there is nothing to say.
	none func(filter map[string]string) string

	// What tail and changes need beside it.
	id func(*T) string
	// sign changes when something did that a person wants to see.
	sign func(*T) string
	// since is the time by which the things are listed.
	since func(*T) time.Time
	// counter is the filter, beside state, by which the server counts; count has what it counted.
	counter string
	count   func(*wire.Counts) []counted
	// state reads the state of one.
	state func(ctx context.Context, c *client.Client, id string) (string, error)
	// change does something to one thing and returns its state, and the thing as it is then.
	change func(ctx context.Context, c *client.Client, id, action string, by wire.Change) (string,
		json.RawMessage, error)
}

// counted is how many things of a source, destination or flow are in a state.
type counted struct {
	of, state string
	n         int64
}

// filter is a flag that selects by a parameter of the API of the same name.
type filter struct {
	name, usage string
	// values lists what there is, for the completion of a shell; nil: nobody knows.
	values completer
}

// selection are the filters as a command was given them.
type selection map[string]*string

// addFilters gives a command the flags of the filters.
func (l *lister[T]) addFilters(a *app, c *cobra.Command) selection {
	s := selection{}
	for _, f := range l.filters {
		s[f.name] = c.Flags().String(f.name, "", f.usage)
		if f.values != nil {
			a.complete(c, f.name, f.values)
		}
	}
	return s
}

// filter returns the parameters of the API.
func (s selection) filter() map[string]string {
	out := map[string]string{}
	for name, value := range s {
		if *value != "" {
			out[name] = *value
		}
	}
	return out
}

// defaultShown is how many things are listed where nobody says how many.
const defaultShown = 100

// listCommand lists.
func (l *lister[T]) listCommand(a *app, long string) *cobra.Command {
	var limit int
	var all bool
	var chosen selection
	c := takes(&cobra.Command{
		Use:   "list",
		Short: "List " + l.plural,
		Long:  long,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case limit < 1:
				return &usageError{fmt.Errorf("--limit is %d, want 1 or more", limit), hint(c)}
			case all && c.Flags().Changed("limit"):
				return &usageError{fmt.Errorf("--all and --limit: want one of them"), hint(c)}
			case all:
				limit = 0
			}
			return l.list(a, chosen.filter(), limit)
		},
	}, 0, 0, "")
	chosen = l.addFilters(a, c)
	c.Flags().IntVarP(&limit, "limit", "n", defaultShown, "`N` things at most")
	c.Flags().BoolVar(&all, "all", false, "all of them, however many")
	return c
}

// list shows at most limit things; 0: all.
func (l *lister[T]) list(a *app, filter map[string]string, limit int) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	ctx, stop := signalContext()
	defer stop()
	show := l.shower(a)
	n, more := 0, false
	q := client.Query{Filter: filter}
	for {
		q.Limit = client.MaxLimit
		if limit > 0 {
			q.Limit = min(q.Limit, limit-n)
		}
		page, err := l.fetch(ctx, c, q)
		if err != nil {
			return told(ctx, err)
		}
		n += len(page.Items)
		if err := show(page.Items); err != nil {
			return err
		}
		more = page.Next != ""
		if q.Cursor = page.Next; !more || limit > 0 && n >= limit {
			break
		}
	}
	switch errs := a.errs(); {
	case !errs.Terminal:
	case n == 0:
		text := fmt.Sprintf("no %s matches", l.noun)
		if l.none != nil {
			text += l.none(filter)
		}
		return errs.Printf("%s", text)
	case more:
		return errs.Printf("%s", errs.Paint(screen.Dim,
			fmt.Sprintf("the first %d; --limit N and --all show more", n)))
	}
	return nil
}

// shower returns what writes things as the output flag says.
func (l *lister[T]) shower(a *app) func([]client.Item[T]) error {
	out := a.out()
	if a.remote.json() {
		return func(items []client.Item[T]) error {
			for i := range items {
				if err := writeLine(out, items[i].JSON); err != nil {
					return err
				}
			}
			return nil
		}
	}
	table := out.NewTable(l.columns...)
	return func(items []client.Item[T]) error {
		for i := range items {
			table.Row(l.row(out, &items[i].Value)...)
		}
		return table.Flush()
	}
}

// writeLine writes a JSON value on one line.
func writeLine(s *screen.Screen, v json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Compact(&b, v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	line := append(b.Bytes(), '\n')
	if s.Terminal {
		line = visible(line)
	}
	_, err := s.W.Write(line)
	return err
}

// visible writes what can't be seen in a line of JSON as \u escapes, which mean the same: JSON has
// them only for the first 32 characters.
func visible(line []byte) []byte {
	var out []byte
	for _, r := range string(line) {
		switch {
		case r == '\n', unicode.IsPrint(r), unicode.Is(unicode.Zs, r):
			out = utf8.AppendRune(out, r)
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		}
	}
	return out
}

// writeJSON writes a value of this program on one line.
func writeJSON(s *screen.Screen, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return writeLine(s, b.Bytes())
}
