package oncepg_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/oncepg"
	"github.com/oncekit/once/write"
)

// trips counts what is sent: queries and batches, each a round trip.
type trips struct {
	queries, batches atomic.Int64
	pool             *pgxpool.Pool // of one connection, on which all is sent
}

func (c *trips) TraceQueryStart(
	ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData,
) context.Context {
	c.queries.Add(1)
	return ctx
}

func (c *trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *trips) TraceBatchStart(
	ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData,
) context.Context {
	c.batches.Add(1)
	return ctx
}

func (c *trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func TestABatchIsOneRoundTripAlsoWithDuplicates(t *testing.T) {
	t.Parallel()
	w, count := counted(t)
	mixed := func(round int) []write.Event {
		var events []write.Event
		for i := range 100 {
			e := add(fmt.Sprint(round, " ", i), i%20, 1)
			switch i % 5 {
			case 1: // a duplicate of this batch
				e = events[i-1]
			case 2: // one of the batch before
				e = add(fmt.Sprint(round-1, " 0"), 0, 1)
			case 3:
				e.In, e.Key = "accounts", fmt.Sprint(i)
				e.Change = write.Upsert{Set: write.Fields{"version": i - 50}, Newer: "version"}
			case 4: // of a row that has it
				e.In, e.Key = "accounts", "moved"
				e.Change = write.Transition{Field: "state", From: []string{"new"}, To: "new"}
			}
			events = append(events, e)
		}
		return events
	}
	if _, err := w.Write(t.Context(), write.Event{
		ID: "state", In: "accounts", Key: "moved",
		Change: write.Insert{Set: write.Fields{"state": "new"}},
	}); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		queries, batches := count.queries.Load(), count.batches.Load()
		rs, err := w.WriteAll(t.Context(), mixed(round))
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rs {
			if r.Err != nil {
				t.Errorf("round %d, event %d: %v", round, i, r.Err)
			}
		}
		queries, batches = count.queries.Load()-queries, count.batches.Load()-batches
		if round > 0 && (queries != 0 || batches != 1) {
			t.Errorf("round %d: %d queries and %d batches, want one batch", round, queries, batches)
		}
	}
}

// A single event that is new takes one round trip, be its row there or not; a repeat takes two.
func TestASingleEventIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	w, count := counted(t)
	for i, c := range []struct {
		id   string
		key  int
		want int64
	}{
		{"a", 1, 2},              // the row is not there
		{"b", 2, 1}, {"c", 3, 1}, // as the one before, it is new
		{"d", 3, 2}, {"e", 2, 1}, {"f", 3, 1},
		{"e", 2, 2}, {"g", 1, 1},
	} {
		before := count.queries.Load() + count.batches.Load()
		if _, err := w.Write(t.Context(), add(c.id, c.key, 1)); err != nil {
			t.Fatal(err)
		}
		if n := count.queries.Load() + count.batches.Load() - before; n != c.want {
			t.Errorf("call %d, event %s: %d round trips, want %d", i, c.id, n, c.want)
		}
	}
}

// counted opens a writer whose round trips are counted.
func counted(t *testing.T) (*oncepg.Writer, *trips) {
	t.Helper()
	db := testserver.Postgres(t)
	exec(t, pool(t, db.URL()), suiteTables)
	count := &trips{}
	conf, err := pgxpool.ParseConfig(db.URL())
	if err != nil {
		t.Fatal(err)
	}
	conf.MaxConns, conf.ConnConfig.Tracer = 1, count
	p, err := pgxpool.NewWithConfig(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	count.pool = p
	return open(t, p, config()), count
}
