package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncekit/once/internal/client"
	"github.com/oncekit/once/internal/screen"
)

// What one look of a tail reads at most.
const (
	tailPage  = 200
	tailPages = 5
	// tailWindow is how many of the latest things that match are watched.
	tailWindow = tailPage * tailPages
	// tailPatience is the longest pause while a server is away.
	tailPatience = 5 * time.Second
	minInterval  = 100 * time.Millisecond
)

func (l *lister[T]) tailCommand(a *app) *cobra.Command {
	var lines int
	var interval time.Duration
	var chosen selection
	c := takes(&cobra.Command{
		Use:   "tail",
		Short: fmt.Sprintf("Show %s as they come and change, until Ctrl-C", l.plural),
		Long: fmt.Sprintf(`Show %[1]s as they come, and again when their state changes, until Ctrl-C
(which is status 0). The latest %[2]d that match are watched. While the server is away, for
example because it is restarted, this waits for it, and shows then what came meanwhile.`,
			l.plural, tailWindow),
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case lines < 0 || lines > tailWindow:
				return &usageError{fmt.Errorf("--lines is %d, want 0 to %d", lines, tailWindow),
					hint(c)}
			case interval < minInterval:
				return &usageError{fmt.Errorf("--interval is %v, want %v or more", interval,
					minInterval), hint(c)}
			}
			return l.tail(a, chosen.filter(), lines, interval)
		},
	}, 0, 0, "")
	chosen = l.addFilters(a, c)
	c.Flags().IntVarP(&lines, "lines", "n", 10, "`N` of the latest are shown at first")
	c.Flags().DurationVar(&interval, "interval", time.Second, "how often the server is asked")
	return c
}

// tail shows what is new, look after look.
func (l *lister[T]) tail(a *app, filter map[string]string, lines int,
	interval time.Duration) error {
	c, err := a.connect()
	if err != nil {
		return err
	}
	ctx, stop := signalContext()
	defer stop()
	w := &watch[T]{l: l, c: c, filter: filter, errs: a.errs(), seen: map[string]string{}}
	show := l.shower(a)
	fresh, err := w.look(ctx)
	if err != nil {
		return told(ctx, err)
	}
	fresh = fresh[max(0, len(fresh)-lines):]
	pause := interval
	for {
		if err := show(fresh); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		fresh, err = w.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			pause = interval
		case isAway(err):
			pause = min(2*pause, max(interval, tailPatience))
		default:
			return told(ctx, err)
		}
		if err := w.tell(err); err != nil {
			return err
		}
	}
}

// watch remembers what a tail has shown.
type watch[T any] struct {
	l      *lister[T]
	c      *client.Client
	filter map[string]string
	errs   *screen.Screen
	// seen has the signs of what was shown, by id; old those before them. Together they are
	// bounded.
	seen, old map[string]string
	started   bool
	// floor is the time of the oldest thing at the start, where there were older ones: those are
	// none of ours.
	floor time.Time
	away  bool
}

// look reads the latest things and returns those that are new or have changed, earliest first.
func (w *watch[T]) look(ctx context.Context) (fresh []client.Item[T], err error) {
	q := client.Query{Filter: w.filter, Limit: tailPage}
	// A thing may come into a state long after it came. So with a state all are looked at, else
	// those after the first page without news.
	whole := w.filter["state"] != "" || !w.started
	looked := map[string]string{}
	var oldest time.Time
	for page := 0; ; page++ {
		p, err := w.l.fetch(ctx, w.c, q)
		if err != nil {
			return nil, err
		}
		before := len(fresh)
		for _, item := range p.Items {
			id, sign := w.l.id(&item.Value), w.l.sign(&item.Value)
			oldest = w.l.since(&item.Value)
			was := w.shown(id)
			if was == "" && !oldest.After(w.floor) {
				continue
			}
			looked[id] = sign
			if was != sign {
				fresh = append(fresh, item)
			}
		}
		quiet := len(fresh) == before && len(p.Items) > 0
		q.Cursor = p.Next
		if p.Next == "" || quiet && !whole {
			break
		}
		if page+1 == tailPages {
			if !whole && !quiet {
				w.missed()
			}
			break
		}
	}
	if !w.started && q.Cursor != "" {
		w.floor = oldest
	}
	w.started = true
	w.remember(looked)
	slices.Reverse(fresh)
	return fresh, nil
}

// missed says that a look did not reach what was seen before.
func (w *watch[T]) missed() {
	_ = w.errs.Printf("%s", w.errs.Paint(screen.Warn, fmt.Sprintf(
		"more than %d at once: some are left out", tailWindow))) // what nobody reads is no failure
}

// shown returns the sign under which a thing was shown; empty: it was not.
func (w *watch[T]) shown(id string) string {
	if sign, ok := w.seen[id]; ok {
		return sign
	}
	return w.old[id]
}

// remember keeps the latest signs. What was forgotten lies far behind the window.
func (w *watch[T]) remember(looked map[string]string) {
	if len(w.seen) > 20*tailWindow {
		w.old, w.seen = w.seen, map[string]string{}
	}
	for id, sign := range looked {
		w.seen[id] = sign
	}
}

// tell says once that the server is away, and once that it is back.
func (w *watch[T]) tell(err error) error {
	switch {
	case err != nil && !w.away:
		w.away = true
		return w.errs.Printf("%s  %s", time.Now().Format(time.TimeOnly),
			w.errs.Paint(screen.Warn, screen.Clean(err.Error())+"; waiting for it"))
	case err == nil && w.away:
		w.away = false
		return w.errs.Printf("%s  %s", time.Now().Format(time.TimeOnly),
			w.errs.Paint(screen.Good, "the server answers again"))
	}
	return nil
}
