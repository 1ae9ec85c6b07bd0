package inbox_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncekit/once/inbox"
	"github.com/oncekit/once/oncesqlite"
	"github.com/oncekit/once/queue"
)

// realStore opens a store in a file.
func realStore(t *testing.T, now func() time.Time) *oncesqlite.Store {
	t.Helper()
	s, err := oncesqlite.Open(t.Context(), oncesqlite.Config{
		Path: filepath.Join(t.TempDir(), "once.db"), Now: now,
	})
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

// callbacksIn returns all callbacks of a store.
func callbacksIn(t *testing.T, s *oncesqlite.Store) []queue.Row {
	t.Helper()
	page, err := s.Rows(t.Context(), queue.RowQuery{Kind: queue.Callback, Limit: 1000})
	if err != nil || page.Next != "" {
		t.Fatalf("rows: %v, next %q", err, page.Next)
	}
	return page.Rows
}

func TestEqualMessagesWithListsThatOverlapAtOnceAreOneRowAnElement(t *testing.T) {
	store, seen := realStore(t, nil), &elementCounter{counter{n: map[string]int{}}}
	rc := newReceiver(t, store, inbox.Config{Observer: seen}, listed())
	message := func(from int) string {
		var b strings.Builder
		for i := from; i < from+6; i++ {
			fmt.Fprintf(&b, `,{"no":%d}`, i)
		}
		return `{"data":[` + b.String()[1:] + `]}`
	}
	var mu sync.Mutex
	replies := map[string]int{}
	var wg sync.WaitGroup
	for i := range 50 { // ten times each of five messages: 0–5, 3–8, 6–11, 9–14, 12–17
		wg.Go(func() {
			w := post(rc, "/in/listed", message(3*(i%5)))
			mu.Lock()
			defer mu.Unlock()
			replies[fmt.Sprint(i%5, " ", w.Code, " ", w.Body)]++
		})
	}
	wg.Wait()
	rows := map[string]int{}
	for _, r := range callbacksIn(t, store) {
		rows[r.Key[0]]++
	}
	for i := range 18 {
		if rows[fmt.Sprint(i)] != 1 {
			t.Errorf("element %d has %d rows", i, rows[fmt.Sprint(i)])
		}
	}
	if len(rows) != 18 || seen.count("listed accepted") != 18 ||
		seen.count("listed duplicate") != 282 {
		t.Errorf("%d rows, counted %v", len(rows), seen.n)
	}
	for i := range 5 {
		a, d := replies[fmt.Sprint(i, " 200 A")], replies[fmt.Sprint(i, " 200 D")]
		if a > 1 || a+d != 10 {
			t.Errorf("message %d: accepted %d times, duplicate %d times of 10", i, a, d)
		}
	}
}

func TestARepeatAfterAWhileIsNew(t *testing.T) {
	var mu sync.Mutex
	now := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	store := realStore(t, func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	})
	pass := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
	source := rcs()
	source.NewAfter, source.Replies = 10*time.Minute, nil
	rc := newReceiver(t, store, inbox.Config{}, source)
	reply := func() string { return post(rc, "/in/rcs", finishFE).Body.String() }
	first := reply()
	pass(10 * time.Minute)
	if again := reply(); again != first {
		t.Errorf("within the time: %s, first %s", again, first)
	}
	pass(10*time.Minute + time.Second)
	var wg sync.WaitGroup
	replies := make([]string, 50)
	for i := range replies {
		wg.Go(func() { replies[i] = reply() })
	}
	wg.Wait()
	for _, r := range replies {
		if r != replies[0] || r == first || !strings.HasPrefix(r, `{"outcome":"accepted","id":"`) {
			t.Fatalf("replied %s and %s; the first time %s", r, replies[0], first)
		}
	}
	rows := callbacksIn(t, store)
	if len(rows) != 2 || !strings.Contains(replies[0], rows[0].ID()) ||
		!strings.Contains(first, rows[1].ID()) || rows[0].Duplicates != 49 ||
		rows[1].Duplicates != 1 {
		t.Errorf("rows %+v", rows)
	}
}

func TestAStoreIsNotAskedFromMemoryWhereARepeatMayBeNew(t *testing.T) {
	store, source := &rememberingStore{memStore: newMemStore()}, rcs()
	source.NewAfter = time.Minute
	rc := newReceiver(t, store, inbox.Config{}, source)
	for range 2 {
		if w := post(rc, "/in/rcs", finishFE); w.Code != 200 {
			t.Errorf("answer %d %s", w.Code, w.Body)
		}
	}
	if store.recalled != 0 || store.arrivals != 2 || store.accepted()[0].NewAfter != time.Minute {
		t.Errorf("%d recalled, arrivals %+v", store.recalled, store.accepted())
	}
}
