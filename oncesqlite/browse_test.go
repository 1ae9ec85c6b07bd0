package oncesqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/oncekit/once/queue"
)

const (
	// browsedRows of each kind look alike; a scan of them can't be overlooked.
	browsedRows = 2500
	// rareRows of each kind differ from them in all that can be asked for.
	rareRows = 3
)

// browsed returns a store with one reader, full of rows, tasks, resources and refused messages of
// which few are the ones that a test asks for.
func browsed(t *testing.T) *Store {
	t.Helper()
	s := openAt(t, Config{Path: filepath.Join(t.TempDir(), "once.db"), Readers: 1, segmentRows: 64})
	var as []queue.Arrival
	for i := range browsedRows {
		c, e := callback(fmt.Sprint("row ", i)), effectOf(fmt.Sprint("row ", i))
		c.Task, e.Task = fmt.Sprint("task ", i), fmt.Sprint("task ", i)
		as = append(as, c, e)
	}
	for i := range rareRows {
		c, e := callback(fmt.Sprint("rare ", i)), effectOf(fmt.Sprint("rare ", i))
		for _, a := range []*queue.Arrival{&c, &e} {
			a.Source, a.Event, a.Task = "rare source", "rare event", "rare task"
			a.Lane, a.Key = a.Lane+"/rare", []string{"rare key", fmt.Sprint(i)}
		}
		as = append(as, c, e)
	}
	for part := range slices.Chunk(as, 500) {
		mustAppend(t, s, part...)
	}
	for _, lane := range []string{testLane + "/rare", "effect/plc/rare"} {
		for _, row := range mustLease(t, s, lane, rareRows) {
			mustSettle(t, s, row, queue.Settlement{State: queue.Dead, Error: "no",
				DeadCause: queue.CausePermanent})
		}
	}
	aside(t, s)
	until(t, "all but the last rows to be in the search index", func() bool {
		last := scan(t, s, "SELECT max(seq) FROM rows")[0]
		indexed := scan(t, s, "SELECT coalesce(max(last), 0) FROM segments")[0]
		return last-indexed < s.cfg.segmentRows
	})
	return s
}

// aside fills the tables beside that of the rows, straight: only how they are read is looked at.
func aside(t *testing.T, s *Store) {
	t.Helper()
	err := s.do(t.Context(), &op{run: func(x *txn) error {
		for _, q := range []string{
			`INSERT INTO rejected (source, at, outcome, reason, size)
				SELECT iif(n <= ?1, 'rare source', 'robots'), n, 'invalid', 'no JSON', 1`,
			`INSERT INTO resources (kind, name, fence, flow, task, freeing, since_at, version)
				SELECT iif(n <= ?1, 'rare kind', 'lift'), 'name ' || n, 1, '', '', 0, n, 1`,
			`INSERT INTO tasks (flow, task, state, version, fields, taken, created_at, since_at,
					updated_at, retention)
				SELECT 'flow', 'task ' || n, 'a', 1, '{}', '{}', n, n, n, 1`,
			`INSERT INTO history (id, version, at, event, origin, state)
				SELECT n, 1, n, 'go', '', 'a'`,
			`INSERT INTO audit (at, target, action, actor, reason)
				SELECT n, 'callback/' || n, 'retry', 'ann', 'test'`,
		} {
			if err := x.c.exec("WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i "+
				"WHERE n < ?2) "+q+" FROM i", rareRows, browsedRows); err != nil {
				return err
			}
		}
		return x.c.exec("INSERT INTO counters VALUES (?, 'flow', 'a', ?)", taskCounts, browsedRows)
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// rowQueries are all combinations of the filters of rows: by what few rows have, and by each state.
func rowQueries() []queue.RowQuery {
	var all []queue.RowQuery
	for _, kind := range []queue.Kind{queue.Callback, queue.Effect} {
		states := []queue.State{"", queue.Pending, kind.Working(), queue.Parked, queue.Held,
			queue.Dead, queue.Stale, queue.Unrouted, queue.Expired, queue.Discarded, queue.Done}
		for _, state := range states {
			if state != "" && !state.Valid(kind) {
				continue
			}
			for set := range 1 << 4 {
				pick := func(bit int, text string) string {
					if set&(1<<bit) == 0 {
						return ""
					}
					return text
				}
				all = append(all, queue.RowQuery{Kind: kind, State: state, Limit: 20,
					Source: pick(0, "rare source"), Event: pick(1, "rare event"),
					Task: pick(2, "rare task"), Key: pick(3, "rare key")})
			}
		}
	}
	return all
}

// steps runs a question and returns how many steps SQLite's machine made for it.
func steps(t *testing.T, s *Store, ask func(context.Context) error) int {
	t.Helper()
	sum := func() (n int) {
		err := s.read(t.Context(), func(c *conn) error {
			for _, q := range c.stmts {
				n += q.raw.Status(sqlite3.STMTSTATUS_VM_STEP, true)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	sum()
	if err := ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sum()
}

// boundedOnly tells what is walked along an index that most rows are in, maxLooks of them for a
// page: what is done, for nearly all rows are; and of what waits here, which is nearly all of it,
// that of one source or event.
func boundedOnly(q queue.RowQuery) bool {
	switch {
	case q.Task+q.Key != "":
		return false
	case q.State == queue.Done:
		return q.Source+q.Event == ""
	}
	return q.State == queue.Pending && q.Source+q.Event != ""
}

// A question is answered in fewer steps of SQLite's machine than there are rows of a kind: no scan,
// which takes several steps for each, passes that.
func TestEveryFilterIsBackedByAnIndex(t *testing.T) {
	s := browsed(t)
	most := 0
	bounded := func(what any, ask func(context.Context) error) {
		n := steps(t, s, ask)
		if most = max(most, n); n >= browsedRows {
			t.Errorf("%+v: %d steps for a page, of %d rows", what, n, browsedRows)
		}
	}
	for _, q := range rowQueries() {
		if boundedOnly(q) {
			continue
		}
		bounded(q, func(ctx context.Context) error {
			page, err := s.Rows(ctx, q)
			if q.State == queue.Dead && len(page.Rows) != rareRows {
				t.Errorf("%+v: %d rows, want %d", q, len(page.Rows), rareRows)
			}
			return err
		})
	}
	for _, kind := range []string{"", "lift", "rare kind", "none"} {
		bounded("resources "+kind, func(ctx context.Context) error {
			_, err := s.Resources(ctx, queue.ResourceQuery{Kind: kind, Limit: 20})
			return err
		})
	}
	for _, source := range []string{"", "robots", "rare source", "none"} {
		bounded("rejected "+source, func(ctx context.Context) error {
			_, err := s.Rejected(ctx, source, 20)
			return err
		})
	}
	bounded("tasks", func(ctx context.Context) error {
		page, err := s.Tasks(ctx, queue.TaskQuery{Flow: "flow", State: "a", Limit: 20})
		if len(page.Tasks) != 20 {
			t.Errorf("%d tasks, want 20", len(page.Tasks))
		}
		return err
	})
	bounded("a task", func(ctx context.Context) error {
		_, _, err := s.Task(ctx, "flow", "task 7")
		return err
	})
	bounded("a callback", func(ctx context.Context) error {
		_, err := s.Row(ctx, queue.Callback, identityOf("rare 0").ID())
		return err
	})
	bounded("the counters", func(ctx context.Context) error {
		_, err := s.Counts(ctx)
		return err
	})
	t.Logf("at most %d steps", most)
	if found := scans(t, s); len(found) > 0 {
		t.Errorf("a table is scanned or sorted:\n%s", strings.Join(found, "\n"))
	}
	eachIndexIsMissed(t, s)
}

// scans returns the plans in which SQLite reads a whole table, or sorts, among those of all the
// statements that the store's only reader has run so far.
func scans(t *testing.T, s *Store) (found []string) {
	t.Helper()
	bad := regexp.MustCompile("^SCAN|TEMP B-TREE")
	may := [][2]string{ // a plan, and part of its statement
		{"SCAN rejected", "FROM rejected ORDER BY id DESC LIMIT"}, // of all sources, to its limit
		{"SCAN counters", ""},       // a few for each source, destination and flow
		{"SCAN (subquery", "LIMIT"}, // of what was found by an index
		{"USE TEMP B-TREE", "FROM history WHERE id = ? ORDER BY version DESC LIMIT"},
		{"SCAN sqlite_master", ""}, // here alone
	}
	err := s.read(t.Context(), func(c *conn) error {
		// A plan is made of the schema that the connection has read last.
		if _, err := c.int("SELECT count(*) FROM sqlite_schema"); err != nil {
			return err
		}
		for text := range c.stmts {
			if strings.HasPrefix(text, "EXPLAIN") || !strings.HasPrefix(text, "SELECT") {
				continue
			}
			query, _, err := c.raw.Prepare("EXPLAIN QUERY PLAN " + text)
			if err != nil {
				return err
			}
			for query.Step() {
				plan := query.ColumnText(3)
				if !bad.MatchString(plan) || slices.ContainsFunc(may, func(m [2]string) bool {
					return strings.HasPrefix(plan, m[0]) && strings.Contains(text, m[1])
				}) {
					continue
				}
				found = append(found, plan+": "+text)
			}
			if err := query.Close(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// eachIndexIsMissed drops one index after the other, each of which has to be missed.
func eachIndexIsMissed(t *testing.T, s *Store) {
	t.Helper()
	for _, index := range []string{"rows_work", "tasks_task", "rejected_source",
		"audit_target"} {
		before := len(scans(t, s))
		err := s.do(t.Context(), &op{run: func(x *txn) error {
			return x.c.exec("DROP INDEX " + index)
		}})
		if err != nil {
			t.Fatal(err)
		}
		if len(scans(t, s)) <= before {
			t.Errorf("nothing is scanned without the index %s: this test overlooks it", index)
		}
	}
}
