package figure

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/oncekit/once/bench/internal/fill"
	"github.com/oncekit/once/bench/internal/serving"
	"github.com/oncekit/once/bench/internal/table"
)

// Bounds of what is asked for of each list.
const (
	pageLimit  = "100"
	pagesDeep  = 3    // pages that are followed by their cursor
	pagesTimes = 3    // how often each filter is asked
	pagesDown  = 50   // pages of 1000 rows that are followed without a filter
	pagesMost  = 5000 // after so many pages with too few rows something is wrong
)

// filter is one list that an operator may ask for. least is how many rows its first page has to
// have; a page may be shorter than its limit.
type filter struct {
	path  string
	query url.Values
	least int
}

// pages asks for lists over a large store.
func pages(ctx context.Context, b *Bench) error {
	dir, err := b.rememberedStore(ctx)
	if err != nil {
		return err
	}
	return b.with(ctx, "once", dir, "", func(s *serving.Server) error {
		slowest, median, err := b.askPages(ctx, s)
		if err == nil {
			b.add("pages.slowest", slowest)
			b.add("pages.median", median)
		}
		return err
	})
}

// askPages asks a server on a store with the remembered callbacks for lists with each filter, and
// returns how many milliseconds the slowest page took, and the median of them.
func (b *Bench) askPages(ctx context.Context, s *serving.Server) (slowest, median float64, err error) {
	var all []float64
	for _, f := range filters(b.Remembered) {
		most, n := 0.0, 0
		for range pagesTimes {
			times, err := follow(ctx, s, f, pagesDeep)
			if err != nil {
				return 0, 0, err
			}
			n = len(times)
			for _, t := range times {
				all, most = append(all, ms(t)), max(most, ms(t))
			}
		}
		b.logf("%6.1f ms  %s?%s  %d pages", most, f.path, f.query.Encode(), n)
		slowest = max(slowest, most)
	}
	least := min(int(b.Remembered)/2, pagesDown*500)
	down := filter{"callbacks", url.Values{"limit": {"1000"}}, least}
	times, err := follow(ctx, s, down, pagesDown)
	if err != nil {
		return 0, 0, err
	}
	b.logf("%6.1f ms  the slowest of %d pages of 1000 rows, one after the other",
		ms(longest(times)), len(times))
	return max(slowest, ms(longest(times))), table.Median(all), nil
}

func longest(times []time.Duration) (most time.Duration) {
	for _, t := range times {
		most = max(most, t)
	}
	return most
}

// filters are the lists that are asked for: each filter by itself, with what there is much of,
// little of and nothing of, and together.
func filters(rows int64) []filter {
	plan := fill.Plan()
	req, task, event := plan.Callback(rows / 2)
	_, old, _ := plan.Callback(17)
	list := func(path string, least int, pairs ...string) filter {
		q := url.Values{"limit": {pageLimit}}
		for i := 0; i < len(pairs); i += 2 {
			q.Set(pairs[i], pairs[i+1])
		}
		return filter{path, q, least}
	}
	out := []filter{
		list("callbacks", 1),
		list("callbacks", 1, "source", "rcs"),
		list("callbacks", 0, "source", "single"),
		list("callbacks", 1, "event", "startFE"),
		list("callbacks", 1, "event", "note"),
		list("callbacks", 0, "event", "nothing"),
		list("callbacks", 1, "task", task),
		list("callbacks", 1, "task", old),
		list("callbacks", 0, "task", "nothing"),
		list("callbacks", 1, "key", req),
		list("callbacks", 1, "key", task),
		list("callbacks", 1, "key", "startFE"),
		list("callbacks", 0, "key", "nothing"),
		list("callbacks", 1, "source", "rcs", "event", "finish", "state", "done"),
		list("callbacks", 1, "task", task, "event", event),
		list("callbacks", 0, "task", task, "state", "parked"),
		list("callbacks", 1, "key", req, "source", "rcs"),
		list("callbacks", 0, "event", "startFE", "state", "parked"),
		list("callbacks", 1, "event", "startFE", "state", "dead"),
		list("callbacks", 0, "source", "single", "state", "done"),
		list("callbacks", 0, "event", "note", "state", "done"),
		list("effects", 1),
		list("effects", 1, "destination", "wms"),
		list("effects", 0, "destination", "plant"),
		list("effects", 1, "destination", "wms", "state", "done"),
		list("rejected", 0),
		list("resources", 0),
	}
	for _, state := range []string{"pending", "running", "parked", "held", "discarded"} {
		out = append(out, list("callbacks", 0, "state", state))
	}
	for _, state := range []string{"done", "stale", "unrouted", "dead"} {
		out = append(out, list("callbacks", 1, "state", state))
	}
	for _, state := range []string{"pending", "sending", "held", "dead", "expired", "discarded"} {
		out = append(out, list("effects", 0, "state", state))
	}
	return append(out, list("effects", 1, "state", "done"))
}

// follow asks for a list and the pages after it, and returns how long each took.
func follow(ctx context.Context, s *serving.Server, f filter, most int) ([]time.Duration, error) {
	var times []time.Duration
	q := url.Values{}
	for name, values := range f.query {
		q[name] = values
	}
	if f.path == "rejected" {
		q.Del("limit")
	}
	rows := 0
	for n := 0; n < most || rows < f.least && n < pagesMost; n++ {
		begun := time.Now()
		b, err := request(ctx, "GET", "http://"+s.Admin+"/api/v1/"+f.path+"?"+q.Encode(), "")
		times = append(times, time.Since(begun))
		if err != nil {
			return nil, err
		}
		var page struct {
			Items []json.RawMessage
			Next  *string
		}
		if err := json.Unmarshal(b, &page); err != nil {
			return nil, fmt.Errorf("read page: %w", err)
		}
		rows += len(page.Items)
		if page.Next == nil || *page.Next == "" {
			break
		}
		q.Set("cursor", *page.Next)
	}
	if rows < f.least {
		return nil, fmt.Errorf("%s?%s has %d rows, want %d at least", f.path, q.Encode(),
			rows, f.least)
	}
	return times, nil
}
