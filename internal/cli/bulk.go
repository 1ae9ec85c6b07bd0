package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/oncekit/once/internal/client"
	"github.com/oncekit/once/internal/screen"
	"github.com/oncekit/once/internal/wire"
)

// The bounds of a change of many.
const (
	// countPages are read at most to say how many there are before it is asked.
	countPages = 10
	// allPages are as many as there are: they end by themselves.
	allPages = math.MaxInt
	// maxChosen is how many things one change of many takes on: their ids are in memory.
	maxChosen = 1_000_000
	// awayPatience is how long a server may be away in the midst of it.
	awayPatience = 30 * time.Second
	// maxTold bounds the failures that are told one by one.
	maxTold = 20
)

// errMany refuses what is more than a change of many takes on.
var errMany = fmt.Errorf("more than %d match; choose fewer with more filters", maxChosen)

// changeChosen changes all that a filter chooses, earliest first: one that comes before another in
// the order of a key is due before it.
func (l *lister[T]) changeChosen(a *app, act action, filter map[string]string, by wire.Change,
	yes bool) error {
	if !yes && !a.canAsk() {
		return &usageError{err: errors.New("nobody can be asked here; --yes goes on without " +
			"asking")}
	}
	c, err := a.connect()
	if err != nil {
		return err
	}
	ctx, stop := signalContext()
	defer stop()
	q := client.Query{Filter: filter, Limit: client.MaxLimit}
	ids, err := l.gather(ctx, c, &q, countPages)
	if err != nil {
		return told(ctx, err)
	}
	if len(ids) == 0 && q.Cursor == "" {
		return a.errs().Printf("no %s matches", l.noun)
	}
	number := fmt.Sprint(len(ids))
	if q.Cursor != "" {
		number = "at least " + number
		if n, ok := l.counted(ctx, c, filter); ok {
			number = fmt.Sprint(n)
		}
	}
	if !yes {
		err := a.ask(ctx, fmt.Sprintf("%s %s %s (%s)?", act.name, number, l.some(number),
			describe(filter)))
		if err != nil {
			return err
		}
	}
	if q.Cursor != "" {
		rest, err := l.gather(ctx, c, &q, allPages)
		if err != nil {
			return told(ctx, err)
		}
		ids = append(ids, rest...)
	}
	slices.Reverse(ids)
	b := &bulk[T]{l: l, a: a, c: c, act: act, by: by, from: filter["state"], all: len(ids)}
	return b.run(ctx, ids)
}

// counted returns how many there are where the server keeps a counter: by state, and by source or
// destination.
func (l *lister[T]) counted(ctx context.Context, c *client.Client, filter map[string]string) (
	n int64, ok bool) {
	for name := range filter {
		if name != "state" && name != l.counter {
			return 0, false
		}
	}
	counts, err := c.Counts(ctx)
	if err != nil {
		return 0, false
	}
	for _, one := range l.count(&counts.Value) {
		if one.state == filter["state"] && (filter[l.counter] == "" ||
			one.of == filter[l.counter]) {
			n += one.n
		}
	}
	return n, true
}

// some is the noun for a number.
func (l *lister[T]) some(number string) string {
	if number == "1" {
		return l.noun
	}
	return l.plural
}

// gather reads the ids of a number of pages, which may be short. The cursor of the query goes on;
// it is empty at the end.
func (l *lister[T]) gather(ctx context.Context, c *client.Client, q *client.Query,
	pages int) (ids []string, err error) {
	for range pages {
		page, err := l.fetch(ctx, c, *q)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			ids = append(ids, l.id(&page.Items[i].Value))
		}
		if len(ids) > maxChosen {
			return nil, &statusError{statusUsage, errMany}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	return ids, nil
}

// canAsk reports whether there is a person who can answer.
func (a *app) canAsk() bool {
	f, ok := a.io.In.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// ask wants a yes.
func (a *app) ask(ctx context.Context, question string) error {
	if _, err := fmt.Fprintf(a.io.Err, "%s [y/N] ", question); err != nil {
		return err
	}
	answer := make(chan string, 1)
	go func() { // it ends with the program, if nobody answers
		line, _ := bufio.NewReader(a.io.In).ReadString('\n') // no answer is no yes
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		_, _ = fmt.Fprintln(a.io.Err) // what nobody reads is no failure
		return errInterrupted
	case s := <-answer:
		if s == "y" || s == "yes" {
			return nil
		}
		return &statusError{statusFailed, errors.New("nothing was changed")}
	}
}

// bulk is a change of many under way.
type bulk[T any] struct {
	l   *lister[T]
	a   *app
	c   *client.Client
	act action
	by  wire.Change
	// from is the state in which they were chosen.
	from string
	all  int

	done, changed, failed int
	bar                   progress
}

// result is what became of one, with --output json.
type result struct {
	ID     string `json:"id"`
	Result string `json:"result"` // done, changed or failed
	State  string `json:"state,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// summary is the last line of --output json.
type summary struct {
	Summary struct {
		Action   string `json:"action"`
		Done     int    `json:"done"`
		Changed  int    `json:"changed"`
		Failed   int    `json:"failed"`
		NotTried int    `json:"not_tried"`
	} `json:"summary"`
}

// run changes one after the other until all were tried, the server stays away, or a person stops
// it.
func (b *bulk[T]) run(ctx context.Context, ids []string) error {
	b.bar = progress{s: b.a.errs(), every: time.Now()}
	defer context.AfterFunc(ctx, func() {
		_ = b.a.errs().Printf("stopping after the one in hand") // what nobody reads is no failure
	})()
	var end error
	for _, id := range ids {
		if ctx.Err() != nil {
			end = errInterrupted
			break
		}
		if err := b.one(ctx, id); err != nil {
			end = err
			break
		}
		b.bar.show(b.text())
	}
	b.bar.clear()
	if err := b.sum(end); err != nil {
		return err
	}
	var status *statusError
	switch {
	case errors.As(end, &status):
		return end
	case end != nil:
		return told(context.Background(), end)
	case b.failed > 0:
		return &statusError{status: statusFailed}
	}
	return nil
}

// one changes one. It returns an error when it makes no sense to go on.
func (b *bulk[T]) one(ctx context.Context, id string) error {
	state, err := b.try(ctx, id)
	var p *wire.Problem
	r := result{ID: id, Result: "done", State: state}
	switch {
	case err == nil:
		b.done++
	case !errors.As(err, &p) || p.Status == http.StatusServiceUnavailable,
		p.Status == http.StatusUnauthorized, p.Status == http.StatusForbidden,
		p.Status == http.StatusBadRequest:
		return err
	case b.isChanged(ctx, id, p):
		b.changed++
		r = result{ID: id, Result: "changed", Detail: p.Detail}
	default:
		b.failed++
		r = result{ID: id, Result: "failed", Detail: p.Detail}
		if b.failed <= maxTold {
			b.bar.clear()
			_ = b.bar.s.Printf("%s: %s", screen.Clean(id), screen.Clean(p.Detail)) // as below
		}
	}
	if b.a.remote.json() {
		return writeJSON(b.a.out(), r)
	}
	return nil
}

// isChanged reports whether one was refused since it isn't any more as it was chosen.
func (b *bulk[T]) isChanged(ctx context.Context, id string, p *wire.Problem) bool {
	if p.Status == http.StatusNotFound {
		return true
	}
	if p.Status != http.StatusConflict {
		return false
	}
	state, err := b.l.state(context.WithoutCancel(ctx), b.c, id)
	return err == nil && state != b.from
}

// try changes one, also over a time in which the server is away. A change that was begun is ended,
// also when a person stops the rest.
func (b *bulk[T]) try(ctx context.Context, id string) (state string, err error) {
	pause := 250 * time.Millisecond
	for start := time.Now(); ; pause = min(2*pause, 5*time.Second) {
		state, _, err = b.l.change(context.WithoutCancel(ctx), b.c, id, b.act.name, b.by)
		if err == nil || !isAway(err) || time.Since(start) > awayPatience {
			return state, err
		}
		b.bar.show(b.text() + "; the server is away, waiting for it")
		select {
		case <-ctx.Done():
			return "", errInterrupted
		case <-time.After(pause):
		}
	}
}

// text says how far it is.
func (b *bulk[T]) text() string {
	return fmt.Sprintf("%s: %d of %d, %d changed meanwhile, %d failed", b.act.name,
		b.done+b.changed+b.failed, b.all, b.changed, b.failed)
}

// sum says what was done.
func (b *bulk[T]) sum(end error) error {
	left := b.all - b.done - b.changed - b.failed
	if b.a.remote.json() {
		var s summary
		s.Summary.Action, s.Summary.Done, s.Summary.Changed = b.act.name, b.done, b.changed
		s.Summary.Failed, s.Summary.NotTried = b.failed, left
		return writeJSON(b.a.out(), s)
	}
	begin := ""
	if end != nil {
		begin = "stopped: "
	}
	return b.a.out().Printf("%s%d %s, %d changed meanwhile, %d failed, %d not tried", begin, b.done,
		b.act.past, b.changed, b.failed, left)
}

// progress is a line that is written over itself on a terminal, and now and then elsewhere.
type progress struct {
	s     *screen.Screen
	every time.Time // of the last line
	shown bool
}

func (p *progress) show(text string) {
	pause := 10 * time.Second
	if p.s.Terminal {
		pause = 100 * time.Millisecond
	}
	if time.Since(p.every) < pause {
		return
	}
	p.every = time.Now()
	if p.s.Terminal {
		_, _ = fmt.Fprintf(p.s.W, "\r\x1b[K%s", screen.Cut(text, p.s.Width()-1))
		p.shown = true
		return
	}
	_ = p.s.Printf("%s", text) // what nobody reads is no failure
}

// clear takes the line away.
func (p *progress) clear() {
	if p.shown {
		_, _ = fmt.Fprint(p.s.W, "\r\x1b[K")
		p.shown = false
	}
}
