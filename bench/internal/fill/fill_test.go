package fill

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/oncekit/once/internal/value"
	"github.com/oncekit/once/oncesqlite"
	"github.com/oncekit/once/queue"
)

func reopen(t *testing.T, path string) *oncesqlite.Store {
	t.Helper()
	s, err := oncesqlite.Open(t.Context(), oncesqlite.Config{Path: path, NoCreate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestRememberedCallbacksAreCountedAndFoundByEveryTerm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.db")
	if err := Remembered(t.Context(), path, 10_000); err != nil {
		t.Fatal(err)
	}
	checkRemembered(t, reopen(t, path))
}

// checkRemembered checks what a store with 10,000 callbacks counts and finds.
func checkRemembered(t *testing.T, s queue.Browser) {
	t.Helper()
	counts, err := s.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for of, want := range map[queue.RowCount]int64{
		{Kind: queue.Callback, Source: "rcs", State: queue.Dead}:     10,
		{Kind: queue.Callback, Source: "rcs", State: queue.Stale}:    100,
		{Kind: queue.Callback, Source: "rcs", State: queue.Unrouted}: 50,
		{Kind: queue.Callback, Source: "rcs", State: queue.Done}:     9_840,
		{Kind: queue.Effect, Source: "wms", State: queue.Done}:       500,
	} {
		if counts.Rows[of] != want {
			t.Errorf("%v: counted %d, want %d", of, counts.Rows[of], want)
		}
		rows := all(t, s, queue.RowQuery{Kind: of.Kind, Source: of.Source, State: of.State, Limit: 1000})
		if int64(len(rows)) != want {
			t.Errorf("%v: listed %d, want %d", of, len(rows), want)
		}
	}
	// Number 1034 is the eleventh of the second events.
	for _, q := range []queue.RowQuery{
		{Key: "REQ-000000000001034"},
		{Task: "TASK-000000000000010", Event: "station"},
		{Source: "rcs", Task: "TASK-000000000000010", Event: "station", State: queue.Done},
	} {
		q.Kind, q.Limit = queue.Callback, 10
		rows := all(t, s, q)
		if len(rows) != 1 || rows[0].Key[0] != "REQ-000000000001034" {
			t.Errorf("%+v: %v, want REQ-000000000001034 alone", q, rows)
		}
	}
}

// all follows the pages of a query: one may be empty and name a next one.
func all(t *testing.T, s queue.Browser, q queue.RowQuery) []queue.Row {
	t.Helper()
	var rows []queue.Row
	for range 100 {
		page, err := s.Rows(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, page.Rows...)
		if page.Next == "" {
			return rows
		}
		q.Cursor = page.Next
	}
	t.Fatalf("%+v has more than 100 pages", q)
	return nil
}

func TestRememberedCallbacksAreKnownAsDuplicates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.db")
	if err := Remembered(t.Context(), path, 2000); err != nil {
		t.Fatal(err)
	}
	checkKnown(t, reopen(t, path), 1999)
}

// checkKnown checks that callbacks up to a number are duplicates.
func checkKnown(t *testing.T, s queue.Appender, last int64) {
	t.Helper()
	for _, n := range []int64{0, 1, 11, 17, last} {
		a := arrival(t, n)
		got, err := s.Append(t.Context(), []queue.Arrival{a})
		if err != nil || got[0].Outcome != queue.Duplicate {
			t.Errorf("number %d: %v, error %v, want a duplicate", n, got, err)
		}
	}
}

// arrival is a callback of the load generator with the fingerprint that the inbox makes of it.
func arrival(t *testing.T, n int64) queue.Arrival {
	t.Helper()
	plan := Plan()
	scope, err := scopeOf()
	if err != nil {
		t.Fatal(err)
	}
	r, err := callback(&plan, scope, n)
	if err != nil {
		t.Fatal(err)
	}
	body := plan.Body(n)
	if r.Event == unknown {
		_, task, _ := plan.Callback(n)
		body = fmt.Appendf(nil, `{"reqCode":%q,"taskCode":%q,"callbackMethod":"note"}`, r.Key[0],
			task)
	}
	v, err := value.Decode(body, value.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	print, err := value.Digest(v, nil)
	if err != nil {
		t.Fatal(err)
	}
	return queue.Arrival{Identity: r.Identity, Fingerprint: print, Kind: queue.Callback,
		State: queue.Pending, Lane: r.Lane, Source: r.Source, Retention: retention}
}

func TestPendingEffectsAreLeasedInOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.db")
	if err := Pending(context.Background(), path, 2000); err != nil {
		t.Fatal(err)
	}
	s := reopen(t, path)
	ask := queue.LeaseRequest{Lane: "effect/wms", Max: 10, For: retention}
	got, err := s.Lease(t.Context(), ask)
	if err != nil || len(got.Rows) != 10 {
		t.Fatalf("leased %d rows, error %v, want 10", len(got.Rows), err)
	}
	for i, row := range got.Rows {
		if row.Seq != int64(i+1) || row.Event != "tell-wms" || len(row.Body) == 0 {
			t.Errorf("row %d is %+v", i, row)
		}
	}
}

func TestTheStampOfTheSameLayoutIsTheSame(t *testing.T) {
	a, err1 := Stamp(t.Context())
	b, err2 := Stamp(t.Context())
	if err1 != nil || err2 != nil || a != b || len(a) != 64 {
		t.Errorf("%q and %q, errors %v, %v", a, b, err1, err2)
	}
}

func TestAFillThatIsBrokenOffLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := filepath.Join(t.TempDir(), "once.db")
	if err := Remembered(ctx, path, 100_000); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that it was cancelled", err)
	}
	left, err := filepath.Glob(path + "*")
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left, error %v", left, err)
	}
}
