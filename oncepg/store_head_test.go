package oncepg

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncekit/once/internal/testserver"
	"github.com/oncekit/once/internal/turn"
	"github.com/oncekit/once/queue"
)

// stoppedClock stands still, so that no look at all rows comes due.
func stoppedClock() StoreConfig {
	at := time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)
	return StoreConfig{Now: func() time.Time { return at }}
}

// headOf is where the store looks for what is due in the tests' lane.
func headOf(t *testing.T, s *Store) int64 {
	t.Helper()
	tx, err := s.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.end()
	return tx.state.DueFrom(testLane)
}

// appendRow stores a callback of a task of its own.
func appendRow(t *testing.T, s *Store, name string) {
	t.Helper()
	if _, err := s.Append(t.Context(), []queue.Arrival{testArrival(name, name)}); err != nil {
		t.Fatal(err)
	}
}

// workAll leases and ends what is due in the tests' lane, and returns the numbers.
func workAll(t *testing.T, s *Store) (worked []int64) {
	t.Helper()
	for {
		got, err := s.Lease(t.Context(), queue.LeaseRequest{Lane: testLane, Max: 10,
			For: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got.Rows {
			set := queue.Settlement{Grant: r.Grant(), State: queue.Done}
			if err := s.Settle(t.Context(), []queue.Settlement{set})[0]; err != nil {
				t.Fatal(err)
			}
			worked = append(worked, r.Seq)
		}
		if len(got.Rows) == 0 {
			return worked
		}
	}
}

func TestWhatIsThroughIsNotLookedAtAgainAndWhatIsCommittedLateIsFound(t *testing.T) {
	t.Parallel()
	p := openPool(t, testserver.Postgres(t).URL(), 8)
	s := openStore(t, p, stoppedClock())
	n := 0
	work := func(rows int) {
		t.Helper()
		for range rows {
			n++
			appendRow(t, s, fmt.Sprint("row ", n))
		}
		if worked := workAll(t, s); len(worked) != rows {
			t.Fatalf("%d rows were worked, want %d", len(worked), rows)
		}
	}
	testserver.Until(t, patience, "the head follows the work", func() bool {
		work(3)
		return headOf(t, s) > 4
	})

	// Another window has its numbers, and is slow.
	conn, err := p.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	late := testArrival("late", "late")
	var number int64
	for _, text := range []string{"BEGIN", s.sql.begins} {
		var args []any
		if text != "BEGIN" {
			args = []any{"60000"}
		}
		if _, err := conn.Exec(t.Context(), text, args...); err != nil {
			t.Fatal(err)
		}
	}
	err = conn.QueryRow(t.Context(), s.sql.at(`SELECT 2 * nextval('@queue_numbers')`)).Scan(&number)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		work(2)
	}
	if head := headOf(t, s); head > number {
		t.Errorf("the head is %d, and %d may yet come", head, number)
	}
	row := turn.NewRow(&late, turn.StampOf(s.cfg.Now()))
	row.Seq = number
	_, err = conn.Exec(t.Context(), s.sql.insertRows, rowsArgs([]*turn.Row{row})...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if worked := workAll(t, s); len(worked) != 1 || worked[0] != number {
		t.Errorf("worked %v, want what was committed late, %d", worked, number)
	}
	testserver.Until(t, patience, "the head goes on", func() bool {
		work(3)
		return headOf(t, s) > number
	})
}

func TestARowThatBecomesDueAgainIsFoundBelowTheHead(t *testing.T) {
	t.Parallel()
	s := openStore(t, openPool(t, testserver.Postgres(t).URL(), 8), stoppedClock())
	appendRow(t, s, "first")
	got, err := s.Lease(t.Context(), queue.LeaseRequest{Lane: testLane, Max: 1, For: time.Hour})
	if err != nil || len(got.Rows) != 1 {
		t.Fatalf("leased %d rows, %v", len(got.Rows), err)
	}
	held := got.Rows[0]
	n := 0
	testserver.Until(t, patience, "the head is above it", func() bool {
		n++
		appendRow(t, s, fmt.Sprint("row ", n))
		workAll(t, s)
		return headOf(t, s) > held.Seq
	})
	err = s.Settle(t.Context(), []queue.Settlement{{Grant: held.Grant(), State: queue.Pending,
		NotTried: true}})[0]
	if err != nil {
		t.Fatal(err)
	}
	if worked := workAll(t, s); len(worked) != 1 || worked[0] != held.Seq {
		t.Errorf("worked %v, want what was given back, %d", worked, held.Seq)
	}
}

func TestWhatIsDueIsFoundByItsOwnIndexWhateverTheTablesHold(t *testing.T) {
	t.Parallel()
	p := openPool(t, testserver.Postgres(t).URL(), 8)
	s := openStore(t, p, StoreConfig{})
	for _, text := range []string{`INSERT INTO once.queue_work (seq, phase, lane)
			SELECT 2 * n, CASE WHEN n % 3 = 0 THEN 'ready' ELSE 'done' END, 'lane ' || n % 5
			FROM generate_series(1, 50000) n`,
		`INSERT INTO once.queue_content (seq, kind, identity, source, retention_ms, keep_body_ms,
			received_at) SELECT 2 * n, 1, sha256(n::text::bytea), 'robots', 1, 1, now()
			FROM generate_series(1, 50000) n`, "ANALYZE once.queue_work, once.queue_content"} {
		if _, err := p.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := s.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.end()
	q := &turn.RowQuery{Lane: "lane 1", Phases: []turn.Phase{turn.Ready}, After: 1}
	_, err = tx.conn.Exec(t.Context(), "PREPARE due (text, bigint, bigint) AS "+s.sql.rows+
		queryFilter(q).where()+" ORDER BY "+orderOf(q)+" LIMIT $3")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := tx.conn.Query(t.Context(), "EXPLAIN EXECUTE due ('lane 1', 50000, 20)",
		pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	plan := strings.Join(lines, "\n")
	if !strings.Contains(plan, "queue_work_ready") || strings.Contains(plan, "queue_work_pkey") ||
		strings.Contains(plan, "Sort") || strings.Contains(plan, "Gather") {
		t.Errorf("the plan is\n%s", plan)
	}
}
